// puffer_binding.h - the Python module of one environment, included once by its binding.c:
//
//     #include "squared.h"
//     #define ENV_NAME "squared"
//     typedef Squared Env;
//     #include "puffer_binding.h"
//
//     static int my_init(Env* env, PyObject* args, PyObject* kwargs) {
//         return kwarg_int(kwargs, "size", 2, 128, &env->size);
//     }
//
// my_init fills the zeroed struct from keyword arguments; it returns 0, or -1 with a Python exception set. An
// environment that reads a table shared by all its instances also says `#define MY_SHARED` and `typedef ... Shared;`
// before the include, has a member `const Shared* shared`, and defines `static int my_shared(Shared* shared, PyObject*
// args, PyObject* kwargs)`.
//
// One with action masks or with turns says so by `#define ENV_ACTION_MASKS` and `#define ENV_TURNS` before the include,
// see puffer_env.h; env_init and vec_init then take `action_masks` and `masks`, in this order, after the truncations.
//
// Its functions are in puffer_handles.h, puffer_one.h (one environment) and puffer_many.h (many); the table of them is
// below.
#pragma once

#include "puffer_many.h"

#define KEYWORDS (METH_VARARGS | METH_KEYWORDS)

static PyMethodDef METHODS[] = {
    {"shared", (PyCFunction)(void (*)(void))py_shared, KEYWORDS,
     "shared(**kwargs) -> handle of read-only state, or None"},
    {"env_init", (PyCFunction)(void (*)(void))env_init, KEYWORDS,
     "env_init(observations, actions, rewards, terminals, truncations, seed, **kwargs) -> environment handle"},
    {"env_reset", env_reset, METH_VARARGS, "env_reset(env, seed=None): begins an episode"},
    {"env_step", env_step, METH_O, "env_step(env): reads the actions, writes the other arrays"},
    {"env_render", env_render, METH_O, "env_render(env) -> the frame as (height, width, 3) uint8, drawn by raylib"},
    {"env_state", env_state, METH_O, "env_state(env) -> a copy of the environment as it is, for its render module"},
    {"env_get", env_get, METH_O, "env_get(env) -> bytes: a snapshot"},
    {"env_put", env_put, METH_VARARGS, "env_put(env, bytes): restores a snapshot"},
    {"env_close", env_close, METH_O, "env_close(env): lets go of the arrays; twice is harmless"},
    {"vectorize", py_vectorize, METH_VARARGS, "vectorize(*envs) -> vec handle over environments made by env_init"},
    {"vec_init", (PyCFunction)(void (*)(void))py_vec_init, KEYWORDS,
     "vec_init(observations, actions, rewards, terminals, truncations, num_envs, seed, **kwargs) -> vec handle"},
    {"vec_reset", py_vec_reset, METH_VARARGS, "vec_reset(vec, seed=None): begins an episode in every environment"},
    {"vec_keep_final", py_vec_keep_final, METH_VARARGS,
     "vec_keep_final(vec, final_observations or None): where the last observations of episodes go from now on"},
    {"vec_step", py_vec_step, METH_O, "vec_step(vec): steps every environment, without the GIL"},
    {"vec_step_where", py_vec_step_where, METH_VARARGS,
     "vec_step_where(vec, where): steps the environments whose byte is not 0, without the GIL"},
    {"vec_log", py_vec_log, METH_O,
     "vec_log(vec) -> dict of sums over finished episodes and their count n; clears them"},
    {"vec_snapshot", py_vec_snapshot, METH_O, "vec_snapshot(vec) -> bytes: environments and their array rows"},
    {"vec_restore", py_vec_restore, METH_VARARGS, "vec_restore(vec, bytes): puts a snapshot back"},
    {"vec_structs", py_vec_structs, METH_O,
     "vec_structs(vec) -> bytes: the environments' structs, without their pointers"},
    {"vec_put_structs", py_vec_put_structs, METH_VARARGS,
     "vec_put_structs(vec, bytes): puts back what vec_structs returned, and was stepped elsewhere since"},
    {"vec_shared", py_vec_shared, METH_O, "vec_shared(vec) -> bytes: the table that all environments read, or none"},
    {"vec_env", py_vec_env, METH_VARARGS, "vec_env(vec, index) -> handle of one environment of the vec"},
    {"vec_close", py_vec_close, METH_O, "vec_close(vec): lets go of the arrays; twice is harmless"},
    {NULL, NULL, 0, NULL},
};

// What it was compiled from, by which a later reader knows whether the sources are other ones now; setup.py says it.
#ifndef ENV_SOURCES
#define ENV_SOURCES ""
#endif

static int fill_module(PyObject* module) { return PyModule_AddStringConstant(module, "__sources__", ENV_SOURCES); }

static PyModuleDef_Slot SLOTS[] = {{Py_mod_exec, (void*)fill_module}, {0, NULL}};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "binding", "The C environments of " ENV_NAME ".", 0, METHODS, SLOTS, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_binding(void) { return PyModuleDef_Init(&MODULE); }
