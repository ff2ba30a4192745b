// puffer_device.h - the kernels that step the environments of one header on a GPU, one thread for each of them.
//
// It is included where a binding.c includes puffer_binding.h: after the environment's header and `typedef ... Env`. The
// environments are an array of the very structs that the binding has, and their rows lie in the GPU's memory in the
// order that puffer_env.h describes. So a struct that is copied from there to here, or back, goes on with the same
// episode, once its pointers lead to where it is now.
//
// A header has to know nothing of this. What it must do it does for the sake of threads already: keep all its state in
// its struct, and call nothing but functions of its own.
#pragma once

#include "puffer_env.h"

enum { LOG_FLOATS = sizeof(Log) / sizeof(float) };

// The index of this thread's environment, and whether there is one.
__device__ static inline bool has_env(long long num_envs, long long* index) {
    *index = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    return *index < num_envs;
}

template <class Element>
__device__ static inline void point_at(Element*& pointer, const void* rows) {
    pointer = (Element*)rows;
}

__device__ static inline const void* rows_of(const void* array, long long index, long long bytes_per_env) {
    return array == NULL ? NULL : (const unsigned char*)array + index * bytes_per_env;
}

// Points all environments at their rows, and at the table that they share where they have one. `final_observations` is
// NULL where nobody wants them, `action_masks` and `masks` where the environments have none.
extern "C" __global__ void puffer_env_attach(Env* envs, const void* observations, const void* actions,
                                             const void* rewards, const void* terminals, const void* truncations,
                                             const void* final_observations, const void* action_masks,
                                             const void* masks, const void* shared, long long num_envs,
                                             long long observation_bytes, long long action_bytes) {
    long long index;
    if (!has_env(num_envs, &index)) return;
    Env* env = &envs[index];
    long long agents = c_layout(env).num_agents;
    point_at(env->observations, rows_of(observations, index, agents * observation_bytes));
    point_at(env->final_observations, rows_of(final_observations, index, agents * observation_bytes));
    point_at(env->actions, rows_of(actions, index, agents * action_bytes));
    point_at(env->rewards, rows_of(rewards, index, agents * (long long)sizeof(float)));
    point_at(env->terminals, rows_of(terminals, index, agents));
    point_at(env->truncations, rows_of(truncations, index, agents));
#ifdef ENV_ACTION_MASKS
    point_at(env->action_masks, rows_of(action_masks, index, agents * c_layout(env).num_choices));
#endif
#ifdef ENV_TURNS
    point_at(env->masks, rows_of(masks, index, agents));
#endif
#ifdef MY_SHARED
    point_at(env->shared, shared);
#endif
}

// One step of every environment. What it gave each agent is stored where the agent's `place` says, an index into the
// columns of a rollout; `begins` tells whose next observation is the first of an episode.
extern "C" __global__ void puffer_env_step(Env* envs, long long num_envs, const long long* place, float* rewards,
                                           unsigned char* terminals, unsigned char* truncations,
                                           unsigned char* begins) {
    long long index;
    if (!has_env(num_envs, &index)) return;
    Env* env = &envs[index];
    c_step(env);
    int agents = c_layout(env).num_agents;
    for (int agent = 0; agent < agents; agent++) {
        long long row = index * agents + agent;
        rewards[place[row]] = env->rewards[agent];
        terminals[place[row]] = env->terminals[agent];
        truncations[place[row]] = env->truncations[agent];
        begins[row] = env->terminals[agent] | env->truncations[agent];
    }
}

// Copies what every environment has to report, `(num_envs, LOG_FLOATS)`, and clears it there.
extern "C" __global__ void puffer_env_take_logs(Env* envs, float* logs, long long num_envs) {
    long long index;
    if (!has_env(num_envs, &index)) return;
    memcpy(logs + index * LOG_FLOATS, &envs[index].log, sizeof(Log));
    memset(&envs[index].log, 0, sizeof(Log));
}
