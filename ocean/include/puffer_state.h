// puffer_state.h - one moment of one environment, copied: how a binding hands it to the render module beside it.
//
// Both define `Env` before they include this. The copy is whole: its array pointers lead into `rows`, so that it can be
// read, and stepped, while the environment itself is stepped on or is gone.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define PUFFER_STATE_CAPSULE "pufferlib.ocean." ENV_NAME ".state"

typedef struct {
    size_t env_bytes;  // sizeof(Env) of the module that made it; check before anything else
    PyObject* owner;   // held: the environment's handle, which the tables that `env` reads live as long as
    Env env;
    _Alignas(8) unsigned char rows[];
} PufferState;
