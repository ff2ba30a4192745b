// puffer_binding.h - the Python module of one environment, included once by its binding.c:
//
//     #include "squared.h"
//     #define ENV_NAME "squared"
//     typedef Squared Env;
//     #include "puffer_binding.h"
//
//     static int my_init(Env* env, PyObject* args, PyObject* kwargs) { return kwarg_int(kwargs, "size", 2, 128,
//     &env->size); } static int my_log(PyObject* dict, const Log* log) { return log_float(dict, "score", log->score); }
//
// my_init fills the zeroed struct from keyword arguments; my_log writes sums over episodes into a dict (`n` is added
// here). Both return 0, or -1 with a Python exception set. An environment that reads a table shared by all its
// instances also says `#define MY_SHARED` and `typedef ... Shared;` before the include, has a member `const Shared*
// shared`, and defines `static int my_shared(Shared* shared, PyObject* args, PyObject* kwargs)`.
//
// Order below: declarations, keyword arguments, arrays, handles, shared state, one environment, many, module table.
// Handles are named capsules. They hold their arrays, know whether they are closed, and are checked at every call; the
// environments themselves cannot fail, so nothing is checked inside a step.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "puffer_env.h"
#include "puffer_vec.h"

#define ENV_CAPSULE "pufferlib.ocean." ENV_NAME ".env"
#define SHARED_CAPSULE "pufferlib.ocean." ENV_NAME ".shared"

enum { MAX_ENVS = 1 << 24 };
enum { OBSERVATIONS, ACTIONS, REWARDS, TERMINALS, TRUNCATIONS, NUM_ARRAYS };

#ifndef MY_SHARED
typedef char Shared;  // no shared state: shared() returns None
#endif

static int my_init(Env* env, PyObject* args, PyObject* kwargs);
static int my_log(PyObject* dict, const Log* log);
#ifdef MY_SHARED
static int my_shared(Shared* shared, PyObject* args, PyObject* kwargs);
#endif

// ---------------------------------------------------------------------------------------------- keyword arguments
// Each helper removes the key it reads from kwargs, so that what is left over at the end is what nobody knows.

// Returns a new reference, or NULL with an exception set.
static PyObject* kwarg_pop(PyObject* kwargs, const char* name) {
    PyObject* value = PyDict_GetItemString(kwargs, name);
    if (value == NULL) {
        PyErr_Format(PyExc_TypeError, ENV_NAME " needs the keyword argument '%s'", name);
        return NULL;
    }
    Py_INCREF(value);
    if (PyDict_DelItemString(kwargs, name) < 0) Py_CLEAR(value);
    return value;
}

static inline int kwarg_int(PyObject* kwargs, const char* name, int low, int high, int* result) {
    PyObject* value = kwarg_pop(kwargs, name);
    if (value == NULL) return -1;
    int overflow = 0;
    PyObject* integer = PyBool_Check(value) ? NULL : PyNumber_Index(value);
    long number = integer ? PyLong_AsLongAndOverflow(integer, &overflow) : 0;
    bool is_valid = integer != NULL && overflow == 0 && number >= low && number <= high;
    PyErr_Clear();
    if (is_valid) {
        *result = (int)number;
    } else {
        PyErr_Format(integer ? PyExc_ValueError : PyExc_TypeError,
                     ENV_NAME ": %s must be an integer from %d to %d, got %R", name, low, high, value);
    }
    Py_XDECREF(integer);
    Py_DECREF(value);
    return is_valid ? 0 : -1;
}

static inline int kwarg_float(PyObject* kwargs, const char* name, double low, double high, float* result) {
    PyObject* value = kwarg_pop(kwargs, name);
    if (value == NULL) return -1;
    double number = PyBool_Check(value) ? -1.0 : PyFloat_AsDouble(value);
    bool is_number = !PyBool_Check(value) && !PyErr_Occurred();
    bool is_valid = is_number && number >= low && number <= high;
    PyErr_Clear();
    if (is_valid) {
        *result = (float)number;
    } else {
        char range[96];
        PyOS_snprintf(range, sizeof(range), "%g to %g", low, high);
        PyErr_Format(is_number ? PyExc_ValueError : PyExc_TypeError, ENV_NAME ": %s must be a number from %s, got %R",
                     name, range, value);
    }
    Py_DECREF(value);
    return is_valid ? 0 : -1;
}

static inline int kwarg_bool(PyObject* kwargs, const char* name, bool* result) {
    PyObject* value = kwarg_pop(kwargs, name);
    if (value == NULL) return -1;
    bool is_valid = PyBool_Check(value);
    if (is_valid) {
        *result = value == Py_True;
    } else {
        PyErr_Format(PyExc_TypeError, ENV_NAME ": %s must be True or False, got %R", name, value);
    }
    Py_DECREF(value);
    return is_valid ? 0 : -1;
}

static int kwargs_are_used_up(PyObject* kwargs) {
    if (PyDict_Size(kwargs) == 0) return 0;
    PyObject* names = PyDict_Keys(kwargs);
    if (names != NULL) PyErr_Format(PyExc_TypeError, ENV_NAME " does not know the keyword argument(s) %R", names);
    Py_XDECREF(names);
    return -1;
}

static inline int log_float(PyObject* dict, const char* name, float value) {
    PyObject* number = PyFloat_FromDouble((double)value);
    if (number == NULL) return -1;
    int status = PyDict_SetItemString(dict, name, number);
    Py_DECREF(number);
    return status;
}

// ---------------------------------------------------------------------------------------------------------- arrays

typedef struct {
    const char* name;
    const char* formats;  // buffer protocol letters that mean this type
    Py_ssize_t item_size;
} ArrayType;

static const ArrayType ARRAY_TYPES[] = {
    [PUFFER_UINT8] = {"uint8", "B", 1},
    [PUFFER_INT8] = {"int8", "b", 1},
    [PUFFER_INT32] = {"int32", "il", 4},
    [PUFFER_FLOAT32] = {"float32", "f", 4},
};
static const ArrayType FLAG_TYPE = {"bool", "?B", 1};

// What one of the five arrays must be; a row has row_size elements, and without_columns means shape (rows,).
typedef struct {
    const char* name;
    ArrayType type;
    Py_ssize_t row_size;
    bool without_columns;
} ArraySpec;

static void array_specs(const PufferLayout* layout, ArraySpec specs[NUM_ARRAYS]) {
    ArrayType observation = ARRAY_TYPES[layout->observation_type], action = ARRAY_TYPES[layout->action_type];
    specs[OBSERVATIONS] = (ArraySpec){"observations", observation, layout->observation_size, false};
    specs[ACTIONS] = (ArraySpec){"actions", action, layout->action_size, false};
    specs[REWARDS] = (ArraySpec){"rewards", ARRAY_TYPES[PUFFER_FLOAT32], 1, true};
    specs[TERMINALS] = (ArraySpec){"terminals", FLAG_TYPE, 1, true};
    specs[TRUNCATIONS] = (ArraySpec){"truncations", FLAG_TYPE, 1, true};
}

typedef struct {
    Py_buffer views[NUM_ARRAYS];
    int num_held;
} Arrays;

static void arrays_release(Arrays* arrays) {
    while (arrays->num_held > 0) PyBuffer_Release(&arrays->views[--arrays->num_held]);
}

static bool array_fits(const Py_buffer* view, const ArraySpec* spec, Py_ssize_t rows) {
    const char* format = view->format ? view->format : "B";
    if (*format == '<' || *format == '=' || *format == '@') format++;
    if (strlen(format) != 1 || strchr(spec->type.formats, *format) == NULL) return false;
    if (view->itemsize != spec->type.item_size || view->readonly || !PyBuffer_IsContiguous(view, 'C')) return false;
    if (view->ndim < 1 || view->shape[0] != rows || (spec->without_columns && view->ndim != 1)) return false;
    return view->len == rows * spec->row_size * spec->type.item_size;
}

static void raise_array_mismatch(PyObject* array, const Py_buffer* view, const ArraySpec* spec, Py_ssize_t rows) {
    PyObject* dtype = PyObject_GetAttrString(array, "dtype");
    PyObject* shape = PyObject_GetAttrString(array, "shape");
    PyErr_Clear();
    const char* flaw = view->readonly ? "read-only " : PyBuffer_IsContiguous(view, 'C') ? "" : "non-contiguous ";
    PyErr_Format(PyExc_ValueError,
                 ENV_NAME
                 ": %s must be a writable C-contiguous %s array of %zd rows of %zd element(s), got a %s%S array "
                 "of shape %S",
                 spec->name, spec->type.name, rows, spec->row_size, flaw, dtype ? dtype : Py_None,
                 shape ? shape : Py_None);
    Py_XDECREF(dtype);
    Py_XDECREF(shape);
}

// Takes hold of the five arrays (released by arrays_release), checked against what the environment will touch.
static int arrays_borrow(Arrays* arrays, PyObject* const objects[NUM_ARRAYS], const PufferLayout* layout,
                         Py_ssize_t num_envs) {
    ArraySpec specs[NUM_ARRAYS];
    array_specs(layout, specs);
    Py_ssize_t rows = num_envs * layout->num_agents;
    for (int i = 0; i < NUM_ARRAYS; i++) {
        Py_buffer* view = &arrays->views[i];
        if (PyObject_GetBuffer(objects[i], view, PyBUF_FULL_RO) < 0) {
            PyErr_Format(PyExc_TypeError, ENV_NAME ": %s must be a %s array, got %s", specs[i].name, specs[i].type.name,
                         Py_TYPE(objects[i])->tp_name);
            return -1;
        }
        arrays->num_held = i + 1;
        if (!array_fits(view, &specs[i], rows)) {
            raise_array_mismatch(objects[i], view, &specs[i], rows);
            return -1;
        }
    }
    return 0;
}

// Points an environment at its rows; index counts environments within the arrays.
static void env_attach(Env* env, const Arrays* arrays, const PufferLayout* layout, Py_ssize_t index) {
    ArraySpec specs[NUM_ARRAYS];
    array_specs(layout, specs);
    char* rows[NUM_ARRAYS];
    for (int i = 0; i < NUM_ARRAYS; i++) {
        Py_ssize_t env_bytes = layout->num_agents * specs[i].row_size * specs[i].type.item_size;
        rows[i] = (char*)arrays->views[i].buf + index * env_bytes;
    }
    env->observations = (void*)rows[OBSERVATIONS];
    env->actions = (void*)rows[ACTIONS];
    env->rewards = (void*)rows[REWARDS];
    env->terminals = (void*)rows[TERMINALS];
    env->truncations = (void*)rows[TRUNCATIONS];
}

// --------------------------------------------------------------------------------------------------------- handles

typedef struct VecHandle VecHandle;

typedef struct {
    Env* env;          // owned unless `owner` is set
    Arrays arrays;     // held, empty when `owner` is set
    PyObject* shared;  // held
    PyObject* owner;   // held: the vec capsule that this handle is a view into, or NULL
    VecHandle* vec;    // borrowed: the open vec that steps this environment, or NULL
    bool is_closed;
} EnvHandle;

struct VecHandle {
    PufferVec vec;        // first: all that other modules see
    Env* envs;            // owned, [num_envs]; NULL when made by vectorize
    EnvHandle** singles;  // owned list of handles, [num_envs]; NULL when made by vec_init
    PyObject* capsules;   // held: the tuple of capsules behind `singles`
    Arrays arrays;        // held, empty when made by vectorize
    PyObject* shared;     // held
};

static inline Env* vec_at(const VecHandle* vec, int index) {
    return vec->envs ? &vec->envs[index] : vec->singles[index]->env;
}

static void vec_close_handle(VecHandle* vec) {
    if (vec->vec.is_closed) return;
    vec->vec.is_closed = 1;
    if (vec->singles) {
        for (int i = 0; i < vec->vec.num_envs && vec->singles[i]; i++) vec->singles[i]->vec = NULL;
    }
    arrays_release(&vec->arrays);
}

static void vec_release(VecHandle* vec) {
    vec_close_handle(vec);
    Py_XDECREF(vec->shared);
    Py_XDECREF(vec->capsules);
    free(vec->singles);
    free(vec->envs);
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

static int vec_is_usable(const VecHandle* vec) {
    if (vec->vec.is_closed) {
        PyErr_SetString(PyExc_ValueError, ENV_NAME ": the vec handle is closed; make a new one with vec_init");
        return 0;
    }
    if (vec->vec.is_busy) {
        PyErr_SetString(PyExc_RuntimeError, ENV_NAME ": the vec is being stepped by another thread; wait for it first");
        return 0;
    }
    return 1;
}

static void vec_step_range(PufferVec* vec, int begin, int end);

// The vec behind a capsule, or NULL with an exception set; a vec of another environment's module is refused.
static VecHandle* vec_from(PyObject* capsule, bool may_be_closed) {
    VecHandle* vec = NULL;
    if (PyCapsule_IsValid(capsule, PUFFER_VEC_CAPSULE)) vec = PyCapsule_GetPointer(capsule, PUFFER_VEC_CAPSULE);
    if (vec == NULL || vec->vec.step_range != vec_step_range) {
        PyErr_Format(PyExc_TypeError, ENV_NAME ": expected a vec handle from " ENV_NAME ".vec_init, got %s",
                     vec ? "one of another environment" : Py_TYPE(capsule)->tp_name);
        return NULL;
    }
    return may_be_closed || vec_is_usable(vec) ? vec : NULL;
}

static EnvHandle* env_from(PyObject* capsule, bool may_be_closed) {
    if (!PyCapsule_IsValid(capsule, ENV_CAPSULE)) {
        PyErr_Format(PyExc_TypeError, ENV_NAME ": expected an environment handle from " ENV_NAME ".env_init, got %s",
                     Py_TYPE(capsule)->tp_name);
        return NULL;
    }
    EnvHandle* handle = PyCapsule_GetPointer(capsule, ENV_CAPSULE);
    if (may_be_closed) return handle;
    if (handle->is_closed) {
        PyErr_SetString(PyExc_ValueError, ENV_NAME ": the environment handle is closed; make a new one with env_init");
        return NULL;
    }
    return handle->vec == NULL || vec_is_usable(handle->vec) ? handle : NULL;
}

// ---------------------------------------------------------------------------------------------------- shared state

static void shared_delete(PyObject* capsule) { free(PyCapsule_GetPointer(capsule, SHARED_CAPSULE)); }

static PyObject* shared_new(PyObject* args, PyObject* kwargs) {
#ifdef MY_SHARED
    Shared* shared = calloc(1, sizeof(*shared));
    if (shared == NULL) return PyErr_NoMemory();
    PyObject* rest = kwargs ? PyDict_Copy(kwargs) : PyDict_New();
    PyObject* capsule = NULL;
    if (rest != NULL && my_shared(shared, args, rest) == 0 && kwargs_are_used_up(rest) == 0) {
        capsule = PyCapsule_New(shared, SHARED_CAPSULE, shared_delete);
    }
    if (capsule == NULL) free(shared);
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
        return shared_new(NULL, NULL);
    }
    PyObject* capsule = kwarg_pop(kwargs, "shared");
#ifdef MY_SHARED
    bool is_valid = PyCapsule_IsValid(capsule, SHARED_CAPSULE);
#else
    bool is_valid = capsule == Py_None;
#endif
    if (!is_valid) {
        PyErr_Format(PyExc_TypeError, ENV_NAME ": shared must be the result of " ENV_NAME ".shared(), got %s",
                     Py_TYPE(capsule)->tp_name);
        Py_CLEAR(capsule);
    }
    return capsule;
}

static void env_set_shared(Env* env, PyObject* capsule) {
#ifdef MY_SHARED
    env->shared = PyCapsule_GetPointer(capsule, SHARED_CAPSULE);
#endif
}

static PyObject* py_shared(PyObject* self, PyObject* args, PyObject* kwargs) { return shared_new(args, kwargs); }

// ------------------------------------------------------------------------------------------------- one environment

static int parse_seed(PyObject* object, uint64_t* seed) {
    PyObject* integer = PyNumber_Index(object);
    if (integer != NULL) *seed = PyLong_AsUnsignedLongLong(integer);
    Py_XDECREF(integer);
    if (!PyErr_Occurred()) return 0;
    PyErr_Clear();
    PyErr_Format(PyExc_ValueError, ENV_NAME ": seed must be an integer from 0 to 2**64 - 1, got %R", object);
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

static PyObject* env_reset(PyObject* self, PyObject* args) {
    PyObject *capsule, *seed_object = Py_None;
    if (!PyArg_ParseTuple(args, "O|O:env_reset", &capsule, &seed_object)) return NULL;
    EnvHandle* handle = env_from(capsule, false);
    if (handle == NULL) return NULL;
    uint64_t seed = 0;
    if (seed_object != Py_None) {
        if (parse_seed(seed_object, &seed) < 0) return NULL;
        handle->env->rng = rng_seed(seed, 0);
    }
    c_reset(handle->env);
    Py_RETURN_NONE;
}

static PyObject* env_step(PyObject* self, PyObject* capsule) {
    EnvHandle* handle = env_from(capsule, false);
    if (handle == NULL) return NULL;
    c_step(handle->env);
    Py_RETURN_NONE;
}

static PyObject* env_render(PyObject* self, PyObject* capsule) {
    if (env_from(capsule, false) == NULL) return NULL;
    PyObject* rendering = PyImport_ImportModule("pufferlib.ocean.rendering");
    if (rendering == NULL) return NULL;
    PyObject* frame = PyObject_CallMethod(rendering, "render", "sO", ENV_NAME, capsule);
    Py_DECREF(rendering);
    return frame;
}

static PyObject* env_close(PyObject* self, PyObject* capsule) {
    EnvHandle* handle = env_from(capsule, true);
    if (handle == NULL) return NULL;
    if (handle->vec != NULL && handle->owner == NULL) {
        PyErr_SetString(PyExc_RuntimeError, ENV_NAME ": the environment is part of a vec; call vec_close first");
        return NULL;
    }
    handle->is_closed = true;
    arrays_release(&handle->arrays);
    Py_RETURN_NONE;
}

// -------------------------------------------------------------------------------------------------------- snapshots
// A snapshot is this header, then for each environment its struct (borrowed pointers set to NULL) and its rows.

typedef struct {
    char magic[8];
    uint64_t checksum;  // of all that follows the header
    int64_t env_size, num_envs;
    int64_t num_agents, observation_size, observation_type, action_size, action_type;
} SnapshotHeader;

static SnapshotHeader snapshot_header(const PufferLayout* layout, int num_envs) {
    SnapshotHeader header = {"PUFSNAP",
                             0,
                             sizeof(Env),
                             num_envs,
                             layout->num_agents,
                             layout->observation_size,
                             layout->observation_type,
                             layout->action_size,
                             layout->action_type};
    return header;
}

// FNV-1a over 8-byte words (the tail byte by byte): finds damage, not malice.
static uint64_t snapshot_checksum(const char* bytes, Py_ssize_t size) {
    uint64_t hash = 0xCBF29CE484222325ull;
    Py_ssize_t i = 0;
    for (; i + 8 <= size; i += 8) {
        uint64_t word;
        memcpy(&word, bytes + i, 8);
        hash = (hash ^ word) * 0x100000001B3ull;
    }
    for (; i < size; i++) hash = (hash ^ (uint8_t)bytes[i]) * 0x100000001B3ull;
    return hash;
}

typedef struct {
    void* address;
    Py_ssize_t size;
} Block;

enum { NUM_BLOCKS = 4 };

// The rows an environment writes; what it reads (actions) is no part of its state.
static void env_blocks(const Env* env, const PufferLayout* layout, Block blocks[NUM_BLOCKS]) {
    Py_ssize_t agents = layout->num_agents;
    Py_ssize_t observation_bytes = layout->observation_size * ARRAY_TYPES[layout->observation_type].item_size;
    blocks[0] = (Block){(void*)env->observations, agents * observation_bytes};
    blocks[1] = (Block){env->rewards, agents * (Py_ssize_t)sizeof(float)};
    blocks[2] = (Block){env->terminals, agents};
    blocks[3] = (Block){env->truncations, agents};
}

static Py_ssize_t env_snapshot_size(const Env* env, const PufferLayout* layout) {
    Block blocks[NUM_BLOCKS];
    env_blocks(env, layout, blocks);
    Py_ssize_t size = sizeof(Env);
    for (int i = 0; i < NUM_BLOCKS; i++) size += blocks[i].size;
    return size;
}

static void env_copy_pointers(Env* to, const Env* from) {
    to->observations = from->observations;
    to->actions = from->actions;
    to->rewards = from->rewards;
    to->terminals = from->terminals;
    to->truncations = from->truncations;
#ifdef MY_SHARED
    to->shared = from->shared;
#endif
}

static void env_clear_pointers(Env* env) {
    env->observations = NULL;
    env->actions = NULL;
    env->rewards = NULL;
    env->terminals = env->truncations = NULL;
#ifdef MY_SHARED
    env->shared = NULL;
#endif
}

// Writes one environment and returns the end of what it wrote; scratch is any struct to work in.
static char* env_write_snapshot(const Env* env, const PufferLayout* layout, Env* scratch, char* at) {
    memcpy(scratch, env, sizeof(Env));
    env_clear_pointers(scratch);
    memcpy(at, scratch, sizeof(Env));
    at += sizeof(Env);
    Block blocks[NUM_BLOCKS];
    env_blocks(env, layout, blocks);
    for (int i = 0; i < NUM_BLOCKS; i++) {
        memcpy(at, blocks[i].address, (size_t)blocks[i].size);
        at += blocks[i].size;
    }
    return at;
}

static const char* env_read_snapshot(Env* env, const PufferLayout* layout, Env* scratch, const char* at) {
    memcpy(scratch, at, sizeof(Env));
    env_copy_pointers(scratch, env);
    memcpy(env, scratch, sizeof(Env));
    at += sizeof(Env);
    Block blocks[NUM_BLOCKS];
    env_blocks(env, layout, blocks);
    for (int i = 0; i < NUM_BLOCKS; i++) {
        memcpy(blocks[i].address, at, (size_t)blocks[i].size);
        at += blocks[i].size;
    }
    return at;
}

// The environments of a snapshot call: a vec's, or the single one of an environment handle.
typedef struct {
    const VecHandle* vec;
    Env* single;
    int count;
} EnvSet;

static Env* set_at(const EnvSet* set, int index) { return set->vec ? vec_at(set->vec, index) : set->single; }

static PyObject* snapshot_envs(EnvSet set) {
    PufferLayout layout = c_layout(set_at(&set, 0));
    SnapshotHeader header = snapshot_header(&layout, set.count);
    Py_ssize_t size = set.count * env_snapshot_size(set_at(&set, 0), &layout);
    Env* scratch = malloc(sizeof(Env));
    if (scratch == NULL) return PyErr_NoMemory();
    PyObject* bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)sizeof(header) + size);
    if (bytes != NULL) {
        char* at = PyBytes_AS_STRING(bytes) + sizeof(header);
        for (int i = 0; i < set.count; i++) at = env_write_snapshot(set_at(&set, i), &layout, scratch, at);
        header.checksum = snapshot_checksum(PyBytes_AS_STRING(bytes) + sizeof(header), size);
        memcpy(PyBytes_AS_STRING(bytes), &header, sizeof(header));
    }
    free(scratch);
    return bytes;
}

static int raise_snapshot_mismatch(const SnapshotHeader* expected, const SnapshotHeader* found) {
    PyErr_Format(PyExc_ValueError,
                 ENV_NAME
                 ": expected a snapshot of %lld environment(s) of %lld bytes with %lld x %lld observation "
                 "elements, got one of %lld environment(s) of %lld bytes with %lld x %lld; restore it into "
                 "environments made with the arguments it was taken with",
                 (long long)expected->num_envs, (long long)expected->env_size, (long long)expected->num_agents,
                 (long long)expected->observation_size, (long long)found->num_envs, (long long)found->env_size,
                 (long long)found->num_agents, (long long)found->observation_size);
    return -1;
}

static int snapshot_check(const EnvSet* set, const char* bytes, Py_ssize_t size) {
    PufferLayout layout = c_layout(set_at(set, 0));
    SnapshotHeader expected = snapshot_header(&layout, set->count), found;
    Py_ssize_t body = set->count * env_snapshot_size(set_at(set, 0), &layout);
    if (size >= (Py_ssize_t)sizeof(found)) memcpy(&found, bytes, sizeof(found));
    if (size < (Py_ssize_t)sizeof(found) || memcmp(found.magic, expected.magic, sizeof(found.magic)) != 0) {
        PyErr_SetString(PyExc_ValueError, ENV_NAME ": expected a snapshot, got other bytes");
        return -1;
    }
    expected.checksum = found.checksum;
    if (memcmp(&expected, &found, sizeof(found)) != 0) return raise_snapshot_mismatch(&expected, &found);
    const char* content = bytes + sizeof(found);
    if (size != (Py_ssize_t)sizeof(found) + body || snapshot_checksum(content, body) != found.checksum) {
        PyErr_SetString(PyExc_ValueError, ENV_NAME ": the snapshot is damaged; its checksum does not match");
        return -1;
    }
    return 0;
}

static PyObject* restore_envs(EnvSet set, PyObject* object) {
    char* bytes;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(object, &bytes, &size) < 0 || snapshot_check(&set, bytes, size) < 0) return NULL;
    Env* scratch = malloc(sizeof(Env));
    if (scratch == NULL) return PyErr_NoMemory();
    PufferLayout layout = c_layout(set_at(&set, 0));
    const char* at = bytes + sizeof(SnapshotHeader);
    for (int i = 0; i < set.count; i++) at = env_read_snapshot(set_at(&set, i), &layout, scratch, at);
    free(scratch);
    Py_RETURN_NONE;
}

static PyObject* env_get(PyObject* self, PyObject* capsule) {
    EnvHandle* handle = env_from(capsule, false);
    return handle ? snapshot_envs((EnvSet){NULL, handle->env, 1}) : NULL;
}

static PyObject* env_put(PyObject* self, PyObject* args) {
    PyObject *capsule, *bytes;
    if (!PyArg_ParseTuple(args, "OO:env_put", &capsule, &bytes)) return NULL;
    EnvHandle* handle = env_from(capsule, false);
    return handle ? restore_envs((EnvSet){NULL, handle->env, 1}, bytes) : NULL;
}

// ----------------------------------------------------------------------------------------------- many environments

static void vec_step_range(PufferVec* vec, int begin, int end) {
    VecHandle* handle = (VecHandle*)vec;
    if (handle->envs) {
        for (int i = begin; i < end; i++) c_step(&handle->envs[i]);
    } else {
        for (int i = begin; i < end; i++) c_step(handle->singles[i]->env);
    }
}

static VecHandle* vec_new(int num_envs) {
    VecHandle* vec = calloc(1, sizeof(*vec));
    if (vec == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    vec->vec.version = PUFFER_VEC_VERSION;
    vec->vec.num_envs = num_envs;
    vec->vec.step_range = vec_step_range;
    return vec;
}

static int vec_add_singles(VecHandle* vec, PyObject* capsules) {
    vec->singles = calloc((size_t)vec->vec.num_envs, sizeof(*vec->singles));
    if (vec->singles == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (int i = 0; i < vec->vec.num_envs; i++) {
        EnvHandle* single = env_from(PyTuple_GET_ITEM(capsules, i), false);
        if (single == NULL) return -1;
        if (single->vec != NULL) {
            PyErr_Format(PyExc_ValueError, ENV_NAME ": environment %d is already part of a vec", i);
            return -1;
        }
        PufferLayout first = c_layout(i ? vec->singles[0]->env : single->env), layout = c_layout(single->env);
        if (memcmp(&first, &layout, sizeof(layout)) != 0) {
            PyErr_Format(PyExc_ValueError, ENV_NAME ": environment %d has other array shapes than the first", i);
            return -1;
        }
        vec->singles[i] = single;
        single->vec = vec;
    }
    vec->capsules = Py_NewRef(capsules);
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
    if (vec == NULL) return NULL;
    PyObject* capsule = NULL;
    if (vec_add_singles(vec, capsules) == 0) capsule = PyCapsule_New(vec, PUFFER_VEC_CAPSULE, vec_delete);
    if (capsule == NULL) vec_release(vec);
    return capsule;
}

// Makes the environments: the first from the keyword arguments, the others as copies of it.
static int vec_make_envs(VecHandle* vec, PyObject* const objects[NUM_ARRAYS], uint64_t seed, PyObject* args,
                         PyObject* kwargs) {
    int num_envs = vec->vec.num_envs;
    vec->envs = calloc((size_t)num_envs, sizeof(Env));
    if (vec->envs == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    vec->shared = shared_pop(kwargs, true);
    if (vec->shared == NULL || env_configure(&vec->envs[0], args, kwargs, vec->shared) < 0) return -1;
    PufferLayout layout = c_layout(&vec->envs[0]);
    if (arrays_borrow(&vec->arrays, objects, &layout, num_envs) < 0) return -1;
    for (int i = 0; i < num_envs; i++) {
        if (i > 0) memcpy(&vec->envs[i], &vec->envs[0], sizeof(Env));
        env_attach(&vec->envs[i], &vec->arrays, &layout, i);
    }
    for (int i = 0; i < num_envs; i++) vec->envs[i].rng = rng_seed(seed, (uint64_t)i);
    return 0;
}

static PyObject* py_vec_init(PyObject* self, PyObject* args, PyObject* kwargs) {
    PyObject *objects[NUM_ARRAYS], *seed_object;
    int num_envs;
    if (!PyArg_ParseTuple(args, "OOOOOiO:vec_init", &objects[0], &objects[1], &objects[2], &objects[3], &objects[4],
                          &num_envs, &seed_object)) {
        return NULL;
    }
    if (num_envs < 1 || num_envs > MAX_ENVS) {
        PyErr_Format(PyExc_ValueError, ENV_NAME ": num_envs must be from 1 to %d, got %d", MAX_ENVS, num_envs);
        return NULL;
    }
    uint64_t seed = 0;
    if (parse_seed(seed_object, &seed) < 0) return NULL;
    PyObject* rest = kwargs ? PyDict_Copy(kwargs) : PyDict_New();
    if (rest == NULL) return NULL;
    PyObject* capsule = NULL;
    VecHandle* vec = vec_new(num_envs);
    if (vec != NULL && vec_make_envs(vec, objects, seed, args, rest) == 0) {
        capsule = PyCapsule_New(vec, PUFFER_VEC_CAPSULE, vec_delete);
    }
    if (capsule == NULL && vec != NULL) vec_release(vec);
    Py_DECREF(rest);
    return capsule;
}

static PyObject* py_vec_reset(PyObject* self, PyObject* args) {
    PyObject *capsule, *seed_object = Py_None;
    if (!PyArg_ParseTuple(args, "O|O:vec_reset", &capsule, &seed_object)) return NULL;
    VecHandle* vec = vec_from(capsule, false);
    uint64_t seed = 0;
    if (vec == NULL || (seed_object != Py_None && parse_seed(seed_object, &seed) < 0)) return NULL;
    for (int i = 0; i < vec->vec.num_envs; i++) {
        Env* env = vec_at(vec, i);
        if (seed_object != Py_None) env->rng = rng_seed(seed, (uint64_t)i);
        int agents = c_layout(env).num_agents;
        memset(env->rewards, 0, (size_t)agents * sizeof(float));
        memset(env->terminals, 0, (size_t)agents);
        memset(env->truncations, 0, (size_t)agents);
        c_reset(env);
    }
    Py_RETURN_NONE;
}

static PyObject* py_vec_step(PyObject* self, PyObject* capsule) {
    VecHandle* vec = vec_from(capsule, false);
    if (vec == NULL) return NULL;
    vec->vec.is_busy = 1;
    Py_BEGIN_ALLOW_THREADS
        ;
        vec_step_range(&vec->vec, 0, vec->vec.num_envs);
    Py_END_ALLOW_THREADS;
    vec->vec.is_busy = 0;
    Py_RETURN_NONE;
}

// Sums the logs of all environments and clears them.
static PyObject* py_vec_log(PyObject* self, PyObject* capsule) {
    VecHandle* vec = vec_from(capsule, false);
    if (vec == NULL) return NULL;
    enum { NUM_FLOATS = sizeof(Log) / sizeof(float) };
    double sums[NUM_FLOATS] = {0};
    for (int i = 0; i < vec->vec.num_envs; i++) {
        Env* env = vec_at(vec, i);
        if (env->log.n == 0.0f) continue;
        float values[NUM_FLOATS];
        memcpy(values, &env->log, sizeof(values));
        for (int j = 0; j < NUM_FLOATS; j++) sums[j] += (double)values[j];
        memset(&env->log, 0, sizeof(env->log));
    }
    float values[NUM_FLOATS];
    for (int j = 0; j < NUM_FLOATS; j++) values[j] = (float)sums[j];
    Log total;
    memcpy(&total, values, sizeof(total));
    PyObject* dict = PyDict_New();
    if (dict != NULL && (my_log(dict, &total) < 0 || log_float(dict, "n", total.n) < 0)) Py_CLEAR(dict);
    return dict;
}

static PyObject* py_vec_snapshot(PyObject* self, PyObject* capsule) {
    VecHandle* vec = vec_from(capsule, false);
    return vec ? snapshot_envs((EnvSet){vec, NULL, vec->vec.num_envs}) : NULL;
}

static PyObject* py_vec_restore(PyObject* self, PyObject* args) {
    PyObject *capsule, *bytes;
    if (!PyArg_ParseTuple(args, "OO:vec_restore", &capsule, &bytes)) return NULL;
    VecHandle* vec = vec_from(capsule, false);
    return vec ? restore_envs((EnvSet){vec, NULL, vec->vec.num_envs}, bytes) : NULL;
}

// A handle to one environment of a vec, for drawing it or for taking its snapshot; it keeps the vec alive.
static PyObject* py_vec_env(PyObject* self, PyObject* args) {
    PyObject* capsule;
    int index;
    if (!PyArg_ParseTuple(args, "Oi:vec_env", &capsule, &index)) return NULL;
    VecHandle* vec = vec_from(capsule, false);
    if (vec == NULL) return NULL;
    if (index < 0 || index >= vec->vec.num_envs) {
        PyErr_Format(PyExc_IndexError, ENV_NAME ": index must be from 0 to %d, got %d", vec->vec.num_envs - 1, index);
        return NULL;
    }
    EnvHandle* handle = calloc(1, sizeof(*handle));
    if (handle == NULL) return PyErr_NoMemory();
    handle->env = vec_at(vec, index);
    handle->owner = Py_NewRef(capsule);
    handle->vec = vec;
    PyObject* view = PyCapsule_New(handle, ENV_CAPSULE, env_delete);
    if (view == NULL) env_release(handle);
    return view;
}

static PyObject* py_vec_close(PyObject* self, PyObject* capsule) {
    VecHandle* vec = vec_from(capsule, true);
    if (vec == NULL || (!vec->vec.is_closed && !vec_is_usable(vec))) return NULL;
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
    {"env_get", env_get, METH_O, "env_get(env) -> bytes: a snapshot"},
    {"env_put", env_put, METH_VARARGS, "env_put(env, bytes): restores a snapshot"},
    {"env_close", env_close, METH_O, "env_close(env): lets go of the arrays; twice is harmless"},
    {"vectorize", py_vectorize, METH_VARARGS, "vectorize(*envs) -> vec handle over environments made by env_init"},
    {"vec_init", (PyCFunction)(void (*)(void))py_vec_init, KEYWORDS,
     "vec_init(observations, actions, rewards, terminals, truncations, num_envs, seed, **kwargs) -> vec handle"},
    {"vec_reset", py_vec_reset, METH_VARARGS, "vec_reset(vec, seed=None): begins an episode in every environment"},
    {"vec_step", py_vec_step, METH_O, "vec_step(vec): steps every environment, without the GIL"},
    {"vec_log", py_vec_log, METH_O,
     "vec_log(vec) -> dict of sums over finished episodes and their count n; clears them"},
    {"vec_snapshot", py_vec_snapshot, METH_O, "vec_snapshot(vec) -> bytes: environments and their array rows"},
    {"vec_restore", py_vec_restore, METH_VARARGS, "vec_restore(vec, bytes): puts a snapshot back"},
    {"vec_env", py_vec_env, METH_VARARGS, "vec_env(vec, index) -> handle of one environment of the vec"},
    {"vec_close", py_vec_close, METH_O, "vec_close(vec): lets go of the arrays; twice is harmless"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "binding", "The C environments of " ENV_NAME ".", 0, METHODS, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_binding(void) { return PyModuleDef_Init(&MODULE); }
