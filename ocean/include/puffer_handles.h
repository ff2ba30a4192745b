// puffer_handles.h - handles of environments and their shared state; part of puffer_binding.h.
//
// Handles are named capsules. They hold their arrays, know whether they are closed and whether they were reset, and are
// checked at every call; the environments themselves cannot fail, so nothing is checked inside a step. Reading
// arguments may run Python code, so it comes before the check of a handle: nothing can close it between the check and
// its use.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "puffer_arrays.h"
#include "puffer_env.h"
#include "puffer_final.h"
#include "puffer_kwargs.h"
#include "puffer_snapshot.h"
#include "puffer_state.h"
#include "puffer_vec.h"

#define ENV_CAPSULE "pufferlib.ocean." ENV_NAME ".env"
#define SHARED_CAPSULE "pufferlib.ocean." ENV_NAME ".shared"

enum { MAX_ENVS = 1 << 24 };

#ifndef MY_SHARED
typedef char Shared;  // no shared state: shared() returns None
#endif

static int my_init(Env* env, PyObject* args, PyObject* kwargs);
#ifdef MY_SHARED
static int my_shared(Shared* shared, PyObject* args, PyObject* kwargs);
#endif

typedef struct VecHandle VecHandle;

typedef struct {
    Env* env;          // owned unless `owner` is set
    Arrays arrays;     // held, empty when `owner` is set
    PyObject* shared;  // held
    PyObject* owner;   // held: the vec capsule that this handle is a view into, or NULL
    VecHandle* vec;    // borrowed: the open vec that steps this environment (a view's may be closed), or NULL
    bool is_ready;     // was reset
    bool is_closed;
} EnvHandle;

struct VecHandle {
    PufferVec vec;          // first: all that other modules see
    PyObject* capsule;      // borrowed: the one around this struct, which it lives as long as
    EnvSet envs;            // either list is owned; scattered environments belong to the handles in `members`
    PyObject* members;      // held: the tuple of capsules given to vectorize, NULL when made by vec_init
    Py_ssize_t num_joined;  // members that know this vec
    Arrays arrays;          // held, empty when made by vectorize
    PyObject* final;        // held: a memoryview of the rows for final observations, NULL where nobody wants them
    PyObject* shared;       // held
    bool is_ready;          // every environment was reset
};

// What a call asks of a handle: to exist; to be open and not in use by another thread; also to have been reset.
typedef enum { EXISTING, OPEN, READY } Condition;

static EnvHandle* vec_member(const VecHandle* vec, Py_ssize_t index) {
    return PyCapsule_GetPointer(PyTuple_GET_ITEM(vec->members, index), ENV_CAPSULE);
}

static void vec_close_handle(VecHandle* vec) {
    if (vec->vec.is_closed) return;
    vec->vec.is_closed = 1;
    final_exchange(&vec->final, &vec->envs, NULL);
    while (vec->num_joined > 0) vec_member(vec, --vec->num_joined)->vec = NULL;
    arrays_release(&vec->arrays);
}

static void vec_release(VecHandle* vec) {
    vec_close_handle(vec);
    Py_XDECREF(vec->shared);
    Py_XDECREF(vec->members);
    free(vec->envs.scattered);
    free(vec->envs.contiguous);
    free(vec);
}

static void vec_delete(PyObject* capsule) { vec_release(PyCapsule_GetPointer(capsule, PUFFER_VEC_CAPSULE)); }

static void env_release(EnvHandle* handle) {
    arrays_release(&handle->arrays);
    Py_XDECREF(handle->shared);
    if (handle->owner == NULL) free(handle->env);
    Py_XDECREF(handle->owner);
    free(handle);
}

static void env_delete(PyObject* capsule) { env_release(PyCapsule_GetPointer(capsule, ENV_CAPSULE)); }

static bool raise_unless(bool holds, PyObject* exception, const char* message) {
    if (!holds) PyErr_SetString(exception, message);
    return holds;
}

static bool vec_meets(const VecHandle* vec, Condition condition) {
    if (condition == EXISTING) return true;
    return raise_unless(!vec->vec.is_closed, PyExc_ValueError,
                        ENV_NAME ": the environments are closed; make new ones") &&
           raise_unless(!vec->vec.is_busy, PyExc_RuntimeError,
                        ENV_NAME ": the vec is being stepped by another thread; wait for it first") &&
           raise_unless(condition != READY || vec->is_ready, PyExc_RuntimeError,
                        ENV_NAME ": the environments were never reset; call reset() first");
}

static bool env_meets(const EnvHandle* handle, Condition condition) {
    if (condition == EXISTING) return true;
    if (!raise_unless(!handle->is_closed, PyExc_ValueError, ENV_NAME ": the environment is closed; make a new one")) {
        return false;
    }
    if (handle->owner != NULL) return vec_meets(handle->vec, condition);
    if (handle->vec != NULL && !vec_meets(handle->vec, OPEN)) return false;
    return raise_unless(condition != READY || handle->is_ready, PyExc_RuntimeError,
                        ENV_NAME ": the environment was never reset; call reset() first");
}

static const char* found_name(PyObject* object) {
    const char* name = PyCapsule_CheckExact(object) ? PyCapsule_GetName(object) : NULL;
    return name ? name : Py_TYPE(object)->tp_name;
}

static void vec_step_range(PufferVec* vec, int begin, int end);

// The vec behind a capsule, or NULL with an exception set; a vec of another environment's module is refused.
static VecHandle* vec_from(PyObject* capsule, Condition condition) {
    VecHandle* vec = NULL;
    if (PyCapsule_IsValid(capsule, PUFFER_VEC_CAPSULE)) vec = PyCapsule_GetPointer(capsule, PUFFER_VEC_CAPSULE);
    if (vec == NULL || vec->vec.step_range != vec_step_range) {
        PyErr_Format(PyExc_TypeError, ENV_NAME ": expected a vec handle from " ENV_NAME ".vec_init, got %s",
                     vec ? "one of another environment" : found_name(capsule));
        return NULL;
    }
    return vec_meets(vec, condition) ? vec : NULL;
}

static EnvHandle* env_from(PyObject* capsule, Condition condition) {
    if (!PyCapsule_IsValid(capsule, ENV_CAPSULE)) {
        PyErr_Format(PyExc_TypeError, ENV_NAME ": expected an environment handle from " ENV_NAME ".env_init, got %s",
                     found_name(capsule));
        return NULL;
    }
    EnvHandle* handle = PyCapsule_GetPointer(capsule, ENV_CAPSULE);
    return env_meets(handle, condition) ? handle : NULL;
}

// ---------------------------------------------------------------------------------------------------- shared state

static void shared_delete(PyObject* capsule) { free(PyCapsule_GetPointer(capsule, SHARED_CAPSULE)); }

static PyObject* shared_new(PyObject* kwargs) {
#ifdef MY_SHARED
    Shared* shared = calloc(1, sizeof(*shared));
    PyObject* args = PyTuple_New(0);
    PyObject* rest = kwargs ? PyDict_Copy(kwargs) : PyDict_New();
    PyObject* capsule = NULL;
    if (shared == NULL) {
        PyErr_NoMemory();
    } else if (args && rest && my_shared(shared, args, rest) == 0 && kwargs_are_used_up(rest) == 0) {
        capsule = PyCapsule_New(shared, SHARED_CAPSULE, shared_delete);
    }
    if (capsule == NULL) free(shared);
    Py_XDECREF(args);
    Py_XDECREF(rest);
    return capsule;
#else
    (void)shared_delete;
    if (kwargs != NULL && kwargs_are_used_up(kwargs) < 0) return NULL;
    Py_RETURN_NONE;
#endif
}

// Removes `shared` from kwargs and returns a new reference to its handle. Without that keyword a vec makes its own.
static PyObject* shared_pop(PyObject* kwargs, bool may_be_missing) {
    if (PyDict_GetItemString(kwargs, "shared") == NULL) {
#ifdef MY_SHARED
        if (!may_be_missing) {
            PyErr_SetString(PyExc_TypeError,
                            ENV_NAME " needs the keyword argument 'shared'; pass the result of shared()");
            return NULL;
        }
#endif
        return shared_new(NULL);
    }
    PyObject* capsule = kwarg_pop(kwargs, "shared");
    if (capsule == NULL) return NULL;
#ifdef MY_SHARED
    bool is_valid = PyCapsule_IsValid(capsule, SHARED_CAPSULE);
#else
    bool is_valid = capsule == Py_None;
#endif
    if (!is_valid) {
        PyErr_Format(PyExc_TypeError, ENV_NAME ": shared must be the result of " ENV_NAME ".shared(), got %s",
                     found_name(capsule));
        Py_CLEAR(capsule);
    }
    return capsule;
}

static void env_set_shared(Env* env, PyObject* capsule) {
#ifdef MY_SHARED
    env->shared = PyCapsule_GetPointer(capsule, SHARED_CAPSULE);
#endif
}

static PyObject* py_shared(PyObject* self, PyObject* args, PyObject* kwargs) {
    return PyArg_ParseTuple(args, ":shared") ? shared_new(kwargs) : NULL;
}

// A copy of the table that all environments read.
static PyObject* py_vec_shared(PyObject* self, PyObject* capsule) {
    VecHandle* vec = vec_from(capsule, OPEN);
    if (vec == NULL) return NULL;
#ifdef MY_SHARED
    const Shared* shared = set_at(&vec->envs, 0)->shared;
    for (int i = 1; i < vec->envs.count; i++) {
        const Shared* other = set_at(&vec->envs, i)->shared;
        if (other == shared || memcmp(other, shared, sizeof(Shared)) == 0) continue;
        PyErr_SetString(PyExc_ValueError, ENV_NAME ": the environments of the vec read different tables");
        return NULL;
    }
    return PyBytes_FromStringAndSize((const char*)shared, sizeof(Shared));
#else
    return PyBytes_FromStringAndSize(NULL, 0);
#endif
}
