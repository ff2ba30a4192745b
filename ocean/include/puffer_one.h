// puffer_one.h - the functions of a binding for one environment; part of puffer_binding.h.
#pragma once

#include "puffer_handles.h"

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

// Borrows `count` arguments, as many as there are arrays and a few more.
static bool unpack_arguments(PyObject* args, const char* name, PyObject** objects, Py_ssize_t count) {
    Py_ssize_t found = PyTuple_GET_SIZE(args);
    if (found != count) {
        PyErr_Format(PyExc_TypeError, ENV_NAME ": %s() takes exactly %zd arguments (%zd given)", name, count, found);
        return false;
    }
    for (Py_ssize_t i = 0; i < count; i++) objects[i] = PyTuple_GET_ITEM(args, i);
    return true;
}

static PyObject* env_init(PyObject* self, PyObject* args, PyObject* kwargs) {
    PyObject* objects[NUM_ARRAYS + 1];  // and the seed
    if (!unpack_arguments(args, "env_init", objects, NUM_ARRAYS + 1)) return NULL;
    uint64_t seed = 0;
    if (parse_seed(objects[NUM_ARRAYS], &seed) < 0) return NULL;
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
    const void* sources[NUM_ARRAYS];
    env_rows(env, sources);
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
