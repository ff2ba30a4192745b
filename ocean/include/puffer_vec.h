// puffer_vec.h - the C interface between an environment module and whoever steps its environments.
//
// A vec handle is a PyCapsule named PUFFER_VEC_CAPSULE that points at a PufferVec. Ranges that do not overlap may be
// stepped from different threads at the same time; the arrays underneath stay alive while the capsule does.
#pragma once

#include <stdint.h>

#define PUFFER_VEC_CAPSULE "pufferlib.vec"
#define PUFFER_VEC_VERSION 1u

typedef struct PufferVec PufferVec;
struct PufferVec {
    uint32_t version;      // PUFFER_VEC_VERSION of the module that made it; check before anything else
    int num_envs;          // environments, not agents
    volatile int is_busy;  // 1 while somebody steps it; changed under the GIL only
    int is_closed;         // no call but its destruction is allowed any more
    void (*step_range)(PufferVec* vec, int begin, int end);  // steps the environments [begin, end)
};
