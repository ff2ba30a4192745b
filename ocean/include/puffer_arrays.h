// puffer_arrays.h - the arrays of an environment, borrowed from Python and checked; part of puffer_binding.h.
//
// They are checked once, against all that the C side will ever touch, so that nothing is checked inside a step.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "puffer_env.h"

enum {
    OBSERVATIONS,
    ACTIONS,
    REWARDS,
    TERMINALS,
    TRUNCATIONS,
#ifdef ENV_ACTION_MASKS
    ACTION_MASKS,
#endif
#ifdef ENV_TURNS
    MASKS,
#endif
    NUM_ARRAYS
};

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

// What an array must be; a row has row_size elements, and without_columns means shape (rows,).
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
#ifdef ENV_ACTION_MASKS
    specs[ACTION_MASKS] = (ArraySpec){"action_masks", FLAG_TYPE, layout->num_choices, false};
#endif
#ifdef ENV_TURNS
    specs[MASKS] = (ArraySpec){"masks", FLAG_TYPE, 1, true};
#endif
}

typedef struct {
    Py_buffer views[NUM_ARRAYS];
    int num_held;
} Arrays;

static void arrays_release(Arrays* arrays) {
    while (arrays->num_held > 0) PyBuffer_Release(&arrays->views[--arrays->num_held]);
}

static bool array_is_aligned(const Py_buffer* view) { return (uintptr_t)view->buf % (size_t)view->itemsize == 0; }

static bool array_fits(const Py_buffer* view, const ArraySpec* spec, Py_ssize_t rows) {
    const char* format = view->format ? view->format : "B";
    if (*format == '<' || *format == '=' || *format == '@') format++;
    if (strlen(format) != 1 || strchr(spec->type.formats, *format) == NULL) return false;
    if (view->itemsize != spec->type.item_size || view->readonly || !PyBuffer_IsContiguous(view, 'C')) return false;
    if (view->ndim < 1 || view->shape[0] != rows || (spec->without_columns && view->ndim != 1)) return false;
    return view->len == rows * spec->row_size * spec->type.item_size && array_is_aligned(view);
}

static const char* array_flaw(const Py_buffer* view) {
    if (view == NULL) return "";
    if (view->readonly) return "read-only ";
    if (!PyBuffer_IsContiguous(view, 'C')) return "non-contiguous ";
    return view->itemsize > 0 && !array_is_aligned(view) ? "misaligned " : "";
}

// Says what was found in the words of NumPy where the object has them; view is NULL when it has no buffer at all.
static void raise_array_mismatch(PyObject* object, const Py_buffer* view, const ArraySpec* spec, Py_ssize_t rows) {
    PyErr_Clear();
    PyObject* dtype = PyObject_GetAttrString(object, "dtype");
    PyObject* shape = dtype ? PyObject_GetAttrString(object, "shape") : NULL;
    PyErr_Clear();
    PyObject* found = shape ? PyUnicode_FromFormat("a %s%S array of shape %S", array_flaw(view), dtype, shape)
                            : PyUnicode_FromFormat("%s%s", array_flaw(view), Py_TYPE(object)->tp_name);
    Py_XDECREF(dtype);
    Py_XDECREF(shape);
    if (found == NULL) return;
    char columns[64] = "";
    if (!spec->without_columns) {
        PyOS_snprintf(columns, sizeof(columns), " of %lld element(s)", (long long)spec->row_size);
    }
    PyErr_Format(view ? PyExc_ValueError : PyExc_TypeError,
                 ENV_NAME ": %s must be a writable C-contiguous %s array of %zd row(s)%s, got %S", spec->name,
                 spec->type.name, rows, columns, found);
    Py_DECREF(found);
}

// Two arrays that share memory would overwrite each other's rows.
static int arrays_check_overlap(const Arrays* arrays, const ArraySpec specs[NUM_ARRAYS]) {
    for (int i = 0; i < arrays->num_held; i++) {
        const char *begin = arrays->views[i].buf, *end = begin + arrays->views[i].len;
        for (int j = 0; j < i; j++) {
            const char *other_begin = arrays->views[j].buf, *other_end = other_begin + arrays->views[j].len;
            if ((uintptr_t)begin >= (uintptr_t)other_end || (uintptr_t)other_begin >= (uintptr_t)end) continue;
            PyErr_Format(PyExc_ValueError, ENV_NAME ": %s and %s must not share memory; pass separate arrays",
                         specs[j].name, specs[i].name);
            return -1;
        }
    }
    return 0;
}

// Takes hold of the arrays (released by arrays_release), checked against what the environment will touch.
static int arrays_borrow(Arrays* arrays, PyObject* const objects[NUM_ARRAYS], const PufferLayout* layout,
                         Py_ssize_t num_envs) {
    ArraySpec specs[NUM_ARRAYS];
    array_specs(layout, specs);
    Py_ssize_t rows = num_envs * layout->num_agents;
    for (int i = 0; i < NUM_ARRAYS; i++) {
        Py_buffer* view = &arrays->views[i];
        if (PyObject_GetBuffer(objects[i], view, PyBUF_FULL_RO) < 0) {
            raise_array_mismatch(objects[i], NULL, &specs[i], rows);
            return -1;
        }
        arrays->num_held = i + 1;
        if (!array_fits(view, &specs[i], rows)) {
            raise_array_mismatch(objects[i], view, &specs[i], rows);
            return -1;
        }
    }
    return arrays_check_overlap(arrays, specs);
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
#ifdef ENV_ACTION_MASKS
    env->action_masks = (void*)rows[ACTION_MASKS];
#endif
#ifdef ENV_TURNS
    env->masks = (void*)rows[MASKS];
#endif
}

// The first address of an environment's rows of every array.
static void env_rows(const Env* env, const void* rows[NUM_ARRAYS]) {
    rows[OBSERVATIONS] = env->observations;
    rows[ACTIONS] = env->actions;
    rows[REWARDS] = env->rewards;
    rows[TERMINALS] = env->terminals;
    rows[TRUNCATIONS] = env->truncations;
#ifdef ENV_ACTION_MASKS
    rows[ACTION_MASKS] = env->action_masks;
#endif
#ifdef ENV_TURNS
    rows[MASKS] = env->masks;
#endif
}
