// puffer_many.h - the functions of a binding for many environments, a vec; part of puffer_binding.h.
#pragma once

#include "puffer_one.h"

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
    PyObject* objects[NUM_ARRAYS + 2];  // then their count and the seed
    if (!unpack_arguments(args, "vec_init", objects, NUM_ARRAYS + 2)) return NULL;
    int num_envs = 0;
    if (integer_from(objects[NUM_ARRAYS], "num_envs", 1, MAX_ENVS, &num_envs) < 0) return NULL;
    uint64_t seed = 0;
    if (parse_seed(objects[NUM_ARRAYS + 1], &seed) < 0) return NULL;
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
    bool is_seeded = seed_object != Py_None;
    vec->vec.is_busy = 1;
    PyThreadState* thread = PyEval_SaveThread();
    for (int i = 0; i < vec->envs.count; i++) {
        Env* env = set_at(&vec->envs, i);
        if (is_seeded) env->rng = rng_seed(seed, (uint64_t)i);
        env_begin(env);
    }
    PyEval_RestoreThread(thread);
    vec->vec.is_busy = 0;
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

// A handle to one environment of a vec, for drawing it or for taking its snapshot; it keeps the vec alive.
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
