// puffer_final.h - the rows for the last observations of episodes, borrowed where they are wanted; part of
// puffer_binding.h.
//
// They are no part of a snapshot: a row tells of the step in which its agent's flag was set, and of no other.
#pragma once

#include "puffer_arrays.h"
#include "puffer_snapshot.h"

static bool blocks_overlap(Block one, Block other) {
    uintptr_t begin = (uintptr_t)one.address, other_begin = (uintptr_t)other.address;
    return begin < other_begin + (uintptr_t)other.size && other_begin < begin + (uintptr_t)one.size;
}

static bool final_overlaps(Block rows, const EnvSet* envs, const PufferLayout* layout) {
    Py_ssize_t action_bytes =
        (Py_ssize_t)layout->num_agents * layout->action_size * ARRAY_TYPES[layout->action_type].item_size;
    for (int i = 0; i < envs->count; i++) {
        const Env* env = set_at(envs, i);
        Block blocks[NUM_BLOCKS];
        env_blocks(env, layout, blocks);
        if (blocks_overlap(rows, (Block){(void*)env->actions, action_bytes})) return true;
        for (int j = 0; j < NUM_BLOCKS; j++) {
            if (blocks_overlap(rows, blocks[j])) return true;
        }
    }
    return false;
}

// Checks the memoryview of an array, which must be one like that of the observations, and apart from the others.
static int final_check(PyObject* rows, PyObject* array, const EnvSet* envs) {
    PufferLayout layout = c_layout(set_at(envs, 0));
    ArraySpec specs[NUM_ARRAYS];
    array_specs(&layout, specs);
    ArraySpec spec = specs[OBSERVATIONS];
    spec.name = "final_observations";
    const Py_buffer* view = PyMemoryView_GET_BUFFER(rows);
    Py_ssize_t num_rows = (Py_ssize_t)envs->count * layout.num_agents;
    if (!array_fits(view, &spec, num_rows)) {
        raise_array_mismatch(array, view, &spec, num_rows);
        return -1;
    }
    if (!final_overlaps((Block){view->buf, view->len}, envs, &layout)) return 0;
    PyErr_SetString(PyExc_ValueError,
                    ENV_NAME ": final_observations must not share memory with the other arrays; pass a separate one");
    return -1;
}

// Points the environments at other rows, NULL for none, and lets go of those that they had.
static void final_exchange(PyObject** held, const EnvSet* envs, PyObject* rows) {
    char* at = rows ? PyMemoryView_GET_BUFFER(rows)->buf : NULL;
    for (int i = 0; i < envs->count && (rows != NULL || *held != NULL); i++) {
        Env* env = set_at(envs, i);
        PufferLayout layout = c_layout(env);
        env->final_observations = at ? (void*)(at + i * env_observation_bytes(&layout)) : NULL;
    }
    Py_XSETREF(*held, rows);
}
