// drive.h - an environment as drive.c sees it, whatever its struct is: what each object file of drive_env.c holds one
// of.
#pragma once

#include "puffer_env.h"

// The arrays of one environment, and the table that it reads, NULL where it has none; all borrowed.
typedef struct {
    void* observations;
    void* actions;
    float* rewards;
    uint8_t* terminals;
    uint8_t* truncations;
    uint8_t* action_masks;  // for an environment that has them, as the next one
    uint8_t* masks;
    void* final_observations;  // or NULL: not wanted
    const void* shared;
} Rows;

typedef struct {
    const char* name;
    size_t env_bytes, shared_bytes;
    PufferLayout (*layout)(const void* env);
    void (*attach)(void* env, const Rows* rows);
    void (*seed)(void* env, uint64_t seed, uint64_t index);
    void (*reset)(void* env);
    void (*step)(void* env);
    bool (*accepts)(const void* env, const void* saved);
} DrivenEnv;
