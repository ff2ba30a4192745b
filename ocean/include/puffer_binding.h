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
// Order below: declarations, handles, shared state, one environment, many, module table. Handles are named capsules.
// They hold their arrays, know whether they are closed and whether they were reset, and are checked at every call; the
// environments themselves cannot fail, so nothing is checked inside a step. Whatever may run Python code (reading
// arguments) comes before the check of a handle, so that nothing can close it between the check and its use.
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

// --------------------------------------------------------------------------------------------------------- handles

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

// ------------------------------------------------------------------------------------------------- one environment

static int parse_seed(PyObject* object, uint64_t* seed) {
    PyObject* integer = PyNumber_Index(object);
    if (integer != NULL) *seed = PyLong_AsUnsignedLongLong(integer);
    Py_XDECREF(integer);
    if (!PyErr_Occurred()) return 0;
    PyErr_Clear();
    raise_unfit(PyExc_ValueError, "seed", "an integer from 0 to 2**64 - 1", object);
    return -1;
}

// Fills a zeroed environment from the keyword arguments; kwargs is left as it was.
static int env_configure(Env* env, PyObject* args, PyObject* kwargs, PyObject* shared) {
    PyObject* rest = PyDict_Copy(kwargs);
    if (rest == NULL) return -1;
    env_set_shared(env, shared);
    int status = my_init(env, args, rest);
    if (status == 0) status = kwargs_are_used_up(rest);
    Py_DECREF(rest);
    return status;
}

static PyObject* env_init(PyObject* self, PyObject* args, PyObject* kwargs) {
    PyObject *objects[NUM_ARRAYS], *seed_object;
    if (!PyArg_ParseTuple(args, "OOOOOO:env_init", &objects[0], &objects[1], &objects[2], &objects[3], &objects[4],
                          &seed_object)) {
        return NULL;
    }
    uint64_t seed = 0;
    if (parse_seed(seed_object, &seed) < 0) return NULL;
    PyObject* rest = kwargs ? PyDict_Copy(kwargs) : PyDict_New();
    EnvHandle* handle = calloc(1, sizeof(*handle));
    if (handle != NULL) handle->env = calloc(1, sizeof(Env));
    if (rest == NULL || handle == NULL || handle->env == NULL) {
        PyErr_NoMemory();
        goto fail;
    }
    handle->shared = shared_pop(rest, false);
    if (handle->shared == NULL || env_configure(handle->env, args, rest, handle->shared) < 0) goto fail;
    PufferLayout layout = c_layout(handle->env);
    if (arrays_borrow(&handle->arrays, objects, &layout, 1) < 0) goto fail;
    env_attach(handle->env, &handle->arrays, &layout, 0);
    handle->env->rng = rng_seed(seed, 0);
    PyObject* capsule = PyCapsule_New(handle, ENV_CAPSULE, env_delete);
    if (capsule == NULL) goto fail;
    Py_DECREF(rest);
    return capsule;
fail:
    Py_XDECREF(rest);
    if (handle != NULL) env_release(handle);
    return NULL;
}

// Begins an episode; the rows of the last step are cleared, so that all arrays tell of the reset.
static void env_begin(Env* env) {
    size_t agents = (size_t)c_layout(env).num_agents;
    memset(env->rewards, 0, agents * sizeof(float));
    memset(env->terminals, 0, agents);
    memset(env->truncations, 0, agents);
    c_reset(env);
}

static PyObject* env_reset(PyObject* self, PyObject* args) {
    PyObject *capsule, *seed_object = Py_None;
    uint64_t seed = 0;
    if (!PyArg_ParseTuple(args, "O|O:env_reset", &capsule, &seed_object)) return NULL;
    if (seed_object != Py_None && parse_seed(seed_object, &seed) < 0) return NULL;
    EnvHandle* handle = env_from(capsule, OPEN);
    if (handle == NULL) return NULL;
    if (seed_object != Py_None) handle->env->rng = rng_seed(seed, 0);
    env_begin(handle->env);
    handle->is_ready = true;
    Py_RETURN_NONE;
}

static PyObject* env_step(PyObject* self, PyObject* capsule) {
    EnvHandle* handle = env_from(capsule, READY);
    if (handle == NULL) return NULL;
    c_step(handle->env);
    Py_RETURN_NONE;
}

static void state_delete(PyObject* capsule) {
    PufferState* state = PyCapsule_GetPointer(capsule, PUFFER_STATE_CAPSULE);
    Py_XDECREF(state->owner);
    free(state);
}

// Lays out copies of the environment's rows behind one another and points the state at them; returns their bytes. With
// no state it only counts.
static size_t state_copy_rows(PufferState* state, const Env* env) {
    const void* const sources[NUM_ARRAYS] = {env->observations, env->actions, env->rewards, env->terminals,
                                             env->truncations};
    PufferLayout layout = c_layout(env);
    ArraySpec specs[NUM_ARRAYS];
    array_specs(&layout, specs);
    Arrays copies = {0};
    size_t used = 0;
    for (int i = 0; i < NUM_ARRAYS; i++) {
        size_t bytes = (size_t)(layout.num_agents * specs[i].row_size * specs[i].type.item_size);
        if (state != NULL) copies.views[i].buf = memcpy(state->rows + used, sources[i], bytes);
        used += (bytes + 7) / 8 * 8;
    }
    if (state != NULL) env_attach(&state->env, &copies, &layout, 0);
    return used;
}

// A copy of the environment as it is, for drawing it; it stays as it is when the environment is stepped or closed.
static PyObject* env_state(PyObject* self, PyObject* capsule) {
    EnvHandle* handle = env_from(capsule, READY);
    if (handle == NULL) return NULL;
    PufferState* state = malloc(sizeof(*state) + state_copy_rows(NULL, handle->env));
    if (state == NULL) return PyErr_NoMemory();
    state->env_bytes = sizeof(Env);
    state->owner = Py_NewRef(capsule);
    memcpy(&state->env, handle->env, sizeof(Env));
    state->env.final_observations = NULL;
    state_copy_rows(state, handle->env);
    PyObject* copy = PyCapsule_New(state, PUFFER_STATE_CAPSULE, state_delete);
    if (copy == NULL) {
        Py_DECREF(state->owner);
        free(state);
    }
    return copy;
}

static PyObject* env_render(PyObject* self, PyObject* capsule) {
    if (env_from(capsule, READY) == NULL) return NULL;
    PyObject* rendering = PyImport_ImportModule("pufferlib.ocean.rendering");
    PyObject* frame = rendering ? PyObject_CallMethod(rendering, "render", "sO", ENV_NAME, capsule) : NULL;
    Py_XDECREF(rendering);
    return frame;
}

static PyObject* env_get(PyObject* self, PyObject* capsule) {
    EnvHandle* handle = env_from(capsule, READY);
    return handle ? snapshot_envs(&(EnvSet){handle->env, NULL, 1}) : NULL;
}

static PyObject* env_put(PyObject* self, PyObject* args) {
    PyObject *capsule, *bytes;
    if (!PyArg_ParseTuple(args, "OO:env_put", &capsule, &bytes)) return NULL;
    EnvHandle* handle = env_from(capsule, OPEN);
    if (handle == NULL || restore_envs(&(EnvSet){handle->env, NULL, 1}, bytes) < 0) return NULL;
    handle->is_ready = true;
    Py_RETURN_NONE;
}

static PyObject* env_close(PyObject* self, PyObject* capsule) {
    EnvHandle* handle = env_from(capsule, EXISTING);
    if (handle == NULL) return NULL;
    if (handle->vec != NULL && handle->owner == NULL) {
        PyErr_SetString(PyExc_RuntimeError, ENV_NAME ": the environment is part of a vec; call vec_close first");
        return NULL;
    }
    handle->is_closed = true;
    arrays_release(&handle->arrays);
    Py_RETURN_NONE;
}

// ----------------------------------------------------------------------------------------------- many environments

// An environment's struct and its rows are a few cache lines among megabytes, and the branches of a step keep the
// processor from finding the next ones by itself. Asking for them a few environments early takes an eighth off the time
// of breakout's step. The addresses may lie behind the last environment: a prefetch never faults.
static inline void prefetch_ahead(const Env* env, intptr_t observation_bytes) {
    enum { AHEAD = 4, CACHE_LINE = 64 };  // environments, bytes
    uintptr_t ahead = (uintptr_t)env + AHEAD * sizeof(Env);
    __builtin_prefetch((const void*)ahead, 1);
    if (sizeof(Env) > CACHE_LINE) __builtin_prefetch((const void*)(ahead + CACHE_LINE), 1);
    __builtin_prefetch((const void*)((uintptr_t)env->observations + (uintptr_t)(AHEAD * observation_bytes)), 1);
}

// The one loop that matters: everything is compiled into it, so that constants stay in registers from step to step.
__attribute__((flatten)) static void step_contiguous(Env* envs, int begin, int end) {
    PufferLayout layout = c_layout(envs);
    intptr_t observation_bytes = env_observation_bytes(&layout);
    for (Env *env = envs + begin, *last = envs + end; env < last; env++) {
        prefetch_ahead(env, observation_bytes);
        c_step(env);
    }
}

static void vec_step_range(PufferVec* vec, int begin, int end) {
    const EnvSet* envs = &((VecHandle*)vec)->envs;
    if (envs->contiguous) {
        step_contiguous(envs->contiguous, begin, end);
    } else {
        for (int i = begin; i < end; i++) c_step(envs->scattered[i]);
    }
}

// The capsule of a vec that was filled, or NULL with the vec released and an exception set.
static PyObject* vec_enclose(VecHandle* vec, bool is_filled) {
    vec->capsule = is_filled ? PyCapsule_New(vec, PUFFER_VEC_CAPSULE, vec_delete) : NULL;
    PyObject* capsule = vec->capsule;
    if (capsule == NULL) vec_release(vec);
    return capsule;
}

static VecHandle* vec_new(int num_envs) {
    VecHandle* vec = calloc(1, sizeof(*vec));
    if (vec == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    vec->vec.version = PUFFER_VEC_VERSION;
    vec->vec.num_envs = vec->envs.count = num_envs;
    vec->vec.step_range = vec_step_range;
    return vec;
}

static int vec_add_members(VecHandle* vec, PyObject* capsules) {
    vec->envs.scattered = calloc((size_t)vec->envs.count, sizeof(Env*));
    if (vec->envs.scattered == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    vec->members = Py_NewRef(capsules);
    vec->is_ready = true;
    for (int i = 0; i < vec->envs.count; i++) {
        EnvHandle* member = env_from(PyTuple_GET_ITEM(capsules, i), OPEN);
        if (member == NULL) return -1;
        if (member->vec != NULL) {
            PyErr_Format(PyExc_ValueError, ENV_NAME ": environment %d is already part of a vec; give each one once", i);
            return -1;
        }
        vec->envs.scattered[i] = member->env;
        PufferLayout first = c_layout(vec->envs.scattered[0]), layout = c_layout(member->env);
        if (memcmp(&first, &layout, sizeof(layout)) != 0) {
            PyErr_Format(PyExc_ValueError,
                         ENV_NAME
                         ": environment %d has other array shapes than the first; make all with the same "
                         "keyword arguments",
                         i);
            return -1;
        }
        member->vec = vec;
        vec->num_joined = i + 1;
        vec->is_ready = vec->is_ready && member->is_ready;
    }
    return 0;
}

static PyObject* py_vectorize(PyObject* self, PyObject* capsules) {
    Py_ssize_t count = PyTuple_GET_SIZE(capsules);
    if (count < 1 || count > MAX_ENVS) {
        PyErr_Format(PyExc_ValueError, ENV_NAME ": vectorize takes 1 to %d environment handles, got %zd", MAX_ENVS,
                     count);
        return NULL;
    }
    VecHandle* vec = vec_new((int)count);
    return vec ? vec_enclose(vec, vec_add_members(vec, capsules) == 0) : NULL;
}

// Makes the environments: the first from the keyword arguments, the others as copies of it.
static int vec_make_envs(VecHandle* vec, PyObject* const objects[NUM_ARRAYS], uint64_t seed, PyObject* args,
                         PyObject* kwargs) {
    int num_envs = vec->envs.count;
    Env* envs = vec->envs.contiguous = calloc((size_t)num_envs, sizeof(Env));
    if (envs == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    vec->shared = shared_pop(kwargs, true);
    if (vec->shared == NULL || env_configure(&envs[0], args, kwargs, vec->shared) < 0) return -1;
    PufferLayout layout = c_layout(&envs[0]);
    if (arrays_borrow(&vec->arrays, objects, &layout, num_envs) < 0) return -1;
    for (int i = 0; i < num_envs; i++) {
        if (i > 0) memcpy(&envs[i], &envs[0], sizeof(Env));
        env_attach(&envs[i], &vec->arrays, &layout, i);
    }
    for (int i = 0; i < num_envs; i++) envs[i].rng = rng_seed(seed, (uint64_t)i);
    return 0;
}

static PyObject* py_vec_init(PyObject* self, PyObject* args, PyObject* kwargs) {
    PyObject *objects[NUM_ARRAYS], *count_object, *seed_object;
    if (!PyArg_ParseTuple(args, "OOOOOOO:vec_init", &objects[0], &objects[1], &objects[2], &objects[3], &objects[4],
                          &count_object, &seed_object)) {
        return NULL;
    }
    int num_envs = 0;
    if (integer_from(count_object, "num_envs", 1, MAX_ENVS, &num_envs) < 0) return NULL;
    uint64_t seed = 0;
    if (parse_seed(seed_object, &seed) < 0) return NULL;
    PyObject* rest = kwargs ? PyDict_Copy(kwargs) : PyDict_New();
    if (rest == NULL) return NULL;
    VecHandle* vec = vec_new(num_envs);
    PyObject* capsule = vec ? vec_enclose(vec, vec_make_envs(vec, objects, seed, args, rest) == 0) : NULL;
    Py_DECREF(rest);
    return capsule;
}

static void vec_set_ready(VecHandle* vec) {
    vec->is_ready = true;
    for (Py_ssize_t i = 0; i < vec->num_joined; i++) vec_member(vec, i)->is_ready = true;
}

static PyObject* py_vec_reset(PyObject* self, PyObject* args) {
    PyObject *capsule, *seed_object = Py_None;
    uint64_t seed = 0;
    if (!PyArg_ParseTuple(args, "O|O:vec_reset", &capsule, &seed_object)) return NULL;
    if (seed_object != Py_None && parse_seed(seed_object, &seed) < 0) return NULL;
    VecHandle* vec = vec_from(capsule, OPEN);
    if (vec == NULL) return NULL;
    for (int i = 0; i < vec->envs.count; i++) {
        Env* env = set_at(&vec->envs, i);
        if (seed_object != Py_None) env->rng = rng_seed(seed, (uint64_t)i);
        env_begin(env);
    }
    vec_set_ready(vec);
    Py_RETURN_NONE;
}

static PyObject* py_vec_keep_final(PyObject* self, PyObject* args) {
    PyObject *capsule, *array;
    if (!PyArg_ParseTuple(args, "OO:vec_keep_final", &capsule, &array)) return NULL;
    PyObject* rows = NULL;
    if (array != Py_None && (rows = PyMemoryView_FromObject(array)) == NULL) return NULL;
    VecHandle* vec = vec_from(capsule, OPEN);
    if (vec == NULL || (rows != NULL && final_check(rows, array, &vec->envs) < 0)) {
        Py_XDECREF(rows);
        return NULL;
    }
    final_exchange(&vec->final, &vec->envs, rows);
    Py_RETURN_NONE;
}

static PyObject* py_vec_step(PyObject* self, PyObject* capsule) {
    VecHandle* vec = vec_from(capsule, READY);
    if (vec == NULL) return NULL;
    vec->vec.is_busy = 1;
    PyThreadState* thread = PyEval_SaveThread();
    vec_step_range(&vec->vec, 0, vec->vec.num_envs);
    PyEval_RestoreThread(thread);
    vec->vec.is_busy = 0;
    Py_RETURN_NONE;
}

// Steps some environments and leaves the rows of the others alone, for callers that reset in another way than c_step.
static PyObject* py_vec_step_where(PyObject* self, PyObject* args) {
    PyObject* capsule;
    Py_buffer where;
    if (!PyArg_ParseTuple(args, "Oy*:vec_step_where", &capsule, &where)) return NULL;
    VecHandle* vec = vec_from(capsule, READY);
    if (vec != NULL && where.len != vec->vec.num_envs) {
        PyErr_Format(PyExc_ValueError,
                     ENV_NAME ": where must hold one bool for each of %d environment(s), got %zd bytes",
                     vec->vec.num_envs, where.len);
        vec = NULL;
    }
    if (vec != NULL) {
        vec->vec.is_busy = 1;
        PyThreadState* thread = PyEval_SaveThread();
        for (int i = 0; i < vec->vec.num_envs; i++) {
            if (((const uint8_t*)where.buf)[i]) c_step(set_at(&vec->envs, i));
        }
        PyEval_RestoreThread(thread);
        vec->vec.is_busy = 0;
    }
    PyBuffer_Release(&where);
    return vec ? Py_NewRef(Py_None) : NULL;
}

#define LOG_NAME(name) #name,
static const char* const LOG_NAMES[] = {LOG_FIELDS(LOG_NAME) "n"};
#undef LOG_NAME

// Sums the logs of all environments and clears them.
static PyObject* py_vec_log(PyObject* self, PyObject* capsule) {
    VecHandle* vec = vec_from(capsule, OPEN);
    if (vec == NULL) return NULL;
    enum { NUM_FLOATS = sizeof(Log) / sizeof(float) };
    double sums[NUM_FLOATS] = {0};
    float values[NUM_FLOATS];
    for (int i = 0; i < vec->envs.count; i++) {
        Log* log = &set_at(&vec->envs, i)->log;
        if (log->n == 0.0f) continue;
        memcpy(values, log, sizeof(values));
        for (int j = 0; j < NUM_FLOATS; j++) sums[j] += (double)values[j];
        memset(log, 0, sizeof(*log));
    }
    PyObject* dict = PyDict_New();
    for (int j = 0; dict != NULL && j < NUM_FLOATS; j++) {
        if (log_float(dict, LOG_NAMES[j], (float)sums[j]) < 0) Py_CLEAR(dict);
    }
    return dict;
}

static PyObject* py_vec_snapshot(PyObject* self, PyObject* capsule) {
    VecHandle* vec = vec_from(capsule, READY);
    return vec ? snapshot_envs(&vec->envs) : NULL;
}

static PyObject* py_vec_restore(PyObject* self, PyObject* args) {
    PyObject *capsule, *bytes;
    if (!PyArg_ParseTuple(args, "OO:vec_restore", &capsule, &bytes)) return NULL;
    VecHandle* vec = vec_from(capsule, OPEN);
    if (vec == NULL || restore_envs(&vec->envs, bytes) < 0) return NULL;
    vec_set_ready(vec);
    Py_RETURN_NONE;
}

// A handle to one environment of a vec, for drawing it or for taking its snapshot; it keeps the vec alive.
static PyObject* py_vec_structs(PyObject* self, PyObject* capsule) {
    VecHandle* vec = vec_from(capsule, READY);
    return vec ? structs_of_envs(&vec->envs) : NULL;
}

static PyObject* py_vec_put_structs(PyObject* self, PyObject* args) {
    PyObject* capsule;
    Py_buffer bytes;
    if (!PyArg_ParseTuple(args, "Oy*:vec_put_structs", &capsule, &bytes)) return NULL;
    VecHandle* vec = vec_from(capsule, READY);
    int status = vec ? put_structs(&vec->envs, bytes.buf, bytes.len) : -1;
    PyBuffer_Release(&bytes);
    return status == 0 ? Py_NewRef(Py_None) : NULL;
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

static PyObject* py_vec_env(PyObject* self, PyObject* args) {
    PyObject *capsule, *index_object;
    if (!PyArg_ParseTuple(args, "OO:vec_env", &capsule, &index_object)) return NULL;
    Py_ssize_t index = PyNumber_AsSsize_t(index_object, PyExc_IndexError);
    if (index == -1 && PyErr_Occurred()) return NULL;
    VecHandle* vec = vec_from(capsule, OPEN);
    if (vec == NULL) return NULL;
    if (index < 0 || index >= vec->envs.count) {
        PyErr_Format(PyExc_IndexError, ENV_NAME ": index must be from 0 to %d, got %zd", vec->envs.count - 1, index);
        return NULL;
    }
    EnvHandle* handle = calloc(1, sizeof(*handle));
    if (handle == NULL) return PyErr_NoMemory();
    handle->env = set_at(&vec->envs, (int)index);
    handle->owner = Py_NewRef(capsule);
    handle->vec = vec;
    PyObject* view = PyCapsule_New(handle, ENV_CAPSULE, env_delete);
    if (view == NULL) env_release(handle);
    return view;
}

static PyObject* py_vec_close(PyObject* self, PyObject* capsule) {
    VecHandle* vec = vec_from(capsule, EXISTING);
    if (vec == NULL || (!vec->vec.is_closed && !vec_meets(vec, OPEN))) return NULL;
    vec_close_handle(vec);
    Py_RETURN_NONE;
}

// ---------------------------------------------------------------------------------------------------- module table

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
