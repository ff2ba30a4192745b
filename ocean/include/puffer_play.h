// puffer_play.h - the kernel that plays a whole rollout: environments and the policy of their agents.
//
// A block of threads has some environments for all steps of a rollout, and what it needs of them and of the policy
// stays with it: observations and recurrent states lie in its shared memory. In every step all threads compute the
// policy, one for each agent draws its action, and one for each environment steps it. No block waits for another.
//
// It is included behind the environment's header, with the macros that device_network.h names and
//
//     PLAY_ENV_AGENTS   of every environment
//     PLAY_ENVS         environments of a block, whose agents are NETWORK_AGENTS or, as these come in fours, fewer
//     PLAY_NUMBER       the type of an observation's numbers
//     PLAY_BYTES        of shared memory, as the caller reckons them
//     PLAY_FINALS       1 where what agents saw last in an episode that a limit cut has a value; else 0
#pragma once

#include "device_network.h"
#include "puffer_device.h"

typedef PLAY_NUMBER PlayNumber;

enum {
    PLAY_ROW_BYTES = NETWORK_INPUTS * sizeof(PlayNumber),
    // Odd, so that threads of a warp, each at its environment, use different banks of the memory.
    PLAY_ENV_WORDS = (PLAY_ENV_AGENTS * PLAY_ROW_BYTES + 3) / 4 | 1,
};

typedef struct {
    NetworkMemory network;
    unsigned rows[PLAY_ENVS][PLAY_ENV_WORDS];  // observations
} PlayMemory;

static_assert(sizeof(PlayMemory) == PLAY_BYTES, "the caller reckons with another size of shared memory");
static_assert(PLAY_ENVS * PLAY_ENV_AGENTS <= NETWORK_AGENTS && NETWORK_AGENTS <= NETWORK_THREADS,
              "a thread for each agent");

__device__ static inline PlayNumber* play_row_of(PlayMemory* memory, int agent) {
    return (PlayNumber*)memory->rows[agent / PLAY_ENV_AGENTS] + agent % PLAY_ENV_AGENTS * NETWORK_INPUTS;
}

// Rows of observations in shared memory from those of the environments, or back.
__device__ static inline void play_move_rows(PlayMemory* memory, PlayNumber* rows, int num_agents, bool is_back) {
    for (int i = threadIdx.x; i < num_agents * NETWORK_INPUTS; i += NETWORK_THREADS) {
        PlayNumber* here = play_row_of(memory, i / NETWORK_INPUTS) + i % NETWORK_INPUTS;
        if (is_back) rows[i] = *here;
        if (!is_back) *here = rows[i];
    }
}

// Recurrent states in shared memory from those of the agents, or back: [NETWORK_WIDTH] of each agent, by layer.
__device__ static inline void play_move_states(PlayMemory* memory, float* const* states, long long first_agent,
                                               int num_agents, bool is_back) {
    for (int layer = 0; layer < NETWORK_RECURRENT; layer++) {
        float* rows = states[layer] + first_agent * NETWORK_WIDTH;
        for (int i = threadIdx.x; i < NETWORK_AGENTS * NETWORK_WIDTH; i += NETWORK_THREADS) {
            int agent = i / NETWORK_WIDTH;
            float* here = &memory->network.states[layer][i % NETWORK_WIDTH][agent];
            if (is_back && agent < num_agents) rows[i] = *here;
            if (!is_back) *here = agent < num_agents ? rows[i] : 0.0f;
        }
    }
}

// What the agents see, for the network, and in the rollout's column.
__device__ static inline void play_see(PlayMemory* memory, PlayNumber* column, const long long* place, int num_agents) {
    for (int i = threadIdx.x; i < NETWORK_AGENTS * NETWORK_INPUTS; i += NETWORK_THREADS) {
        int agent = i % NETWORK_AGENTS, number = i / NETWORK_AGENTS;
        float seen = agent < num_agents ? (float)play_row_of(memory, agent)[number] : 0.0f;
        memory->network.seen[number][agent] = network_factor(seen);
    }
    for (int i = threadIdx.x; i < num_agents * NETWORK_INPUTS; i += NETWORK_THREADS) {
        int agent = i / NETWORK_INPUTS, number = i % NETWORK_INPUTS;
        column[place[agent] * NETWORK_INPUTS + number] = play_row_of(memory, agent)[number];
    }
}

// Values what the agents saw last, [agents][NETWORK_INPUTS], for all threads of the block. `values` has one for each
// agent's `place`, which means something where a limit cut its episode. States stay as they are, and lie meanwhile
// where they came from.
__device__ static inline void play_value_finals(PlayMemory* memory, const float* weights, const PlayNumber* finals,
                                                float* values, const long long* place, float* const* states,
                                                long long first_agent, int num_agents) {
    play_move_states(memory, states, first_agent, num_agents, true);
    for (int i = threadIdx.x; i < NETWORK_AGENTS * NETWORK_INPUTS; i += NETWORK_THREADS) {
        int agent = i % NETWORK_AGENTS, number = i / NETWORK_AGENTS;
        float seen = agent < num_agents ? (float)finals[agent * NETWORK_INPUTS + number] : 0.0f;
        memory->network.seen[number][agent] = network_factor(seen);
    }
    if (threadIdx.x < NETWORK_AGENTS) memory->network.begins[threadIdx.x] = 0;
    __syncthreads();
    network_forward(&memory->network, weights);
    if ((int)threadIdx.x < num_agents)
        values[place[threadIdx.x]] = memory->network.outputs[NETWORK_LOGITS][threadIdx.x];
    play_move_states(memory, states, first_agent, num_agents, false);
}

// Plays `horizon` steps of all environments. `place` is the segment of each agent; `noise` is what its actions are
// drawn by, [horizon][noise_row], whose first numbers are those of the first agent. The other arrays are the rows of
// agents: what they see, do, whether an episode begins, and their states by layer; and a rollout's, see rollout.py, the
// observations by column, as rewards, terminals and truncations. Where they are wanted, `finals` are the environments'
// final observations, and `final_values` are by column what those of truncated episodes are worth.
extern "C" __global__ void __launch_bounds__(NETWORK_THREADS, 2)
    puffer_env_play(Env* envs, long long num_envs, long long horizon, long long segments, const float* weights,
                    const float* noise, long long noise_row, const long long* place, PlayNumber* observations,
                    NetworkAction* actions, unsigned char* begins, float* const* states, PlayNumber* seen,
                    NetworkAction* chosen, float* logprobs, float* values, float* rewards, unsigned char* terminals,
                    unsigned char* truncations, const PlayNumber* finals, float* final_values) {
    extern __shared__ float4 block_memory[];
    PlayMemory* memory = (PlayMemory*)block_memory;
    long long first_env = (long long)blockIdx.x * PLAY_ENVS, first_agent = first_env * PLAY_ENV_AGENTS;
    int num_here = num_envs - first_env < PLAY_ENVS ? (int)(num_envs - first_env) : PLAY_ENVS;
    int num_agents = num_here * PLAY_ENV_AGENTS, thread = threadIdx.x;
    bool has_agent = thread < num_agents;
    Env* env = thread < num_here ? &envs[first_env + thread] : NULL;
    const float* deviations = network_deviations(weights);
    place += first_agent;
    noise += first_agent * NETWORK_NUM_PARTS;
    observations += first_agent * NETWORK_INPUTS;
    actions += first_agent * NETWORK_NUM_PARTS;

    play_move_rows(memory, observations, num_agents, false);
    play_move_states(memory, states, first_agent, num_agents, false);
    if (thread < NETWORK_AGENTS) memory->network.begins[thread] = has_agent && begins[first_agent + thread];
    if (env != NULL) point_at(env->observations, memory->rows[thread]);
    __syncthreads();
    for (long long step = 0; step < horizon; step++) {
        play_see(memory, seen + step * segments * NETWORK_INPUTS, place, num_agents);
        __syncthreads();
        network_forward(&memory->network, weights);
        if (has_agent) {
            float logits[NETWORK_LOGITS];
            for (int i = 0; i < NETWORK_LOGITS; i++) logits[i] = memory->network.outputs[i][thread];
            NetworkAction* action = actions + thread * NETWORK_NUM_PARTS;
            const float* drawn_by = noise + step * noise_row + thread * NETWORK_NUM_PARTS;
            long long cell = place[thread] * horizon + step;
            logprobs[cell] = network_decide(logits, drawn_by, deviations, action);
            values[cell + place[thread]] = memory->network.outputs[NETWORK_LOGITS][thread];  // T + 1 columns
            for (int i = 0; i < NETWORK_NUM_PARTS; i++) chosen[cell * NETWORK_NUM_PARTS + i] = action[i];
        }
        __syncthreads();
        bool is_cut = false;
        if (env != NULL) {
            c_step(env);
            for (int i = 0; i < PLAY_ENV_AGENTS; i++) {
                int agent = thread * PLAY_ENV_AGENTS + i;
                long long cell = (step + 1) * segments + place[agent];
                rewards[cell] = env->rewards[i];
                terminals[cell] = env->terminals[i];
                truncations[cell] = env->truncations[i];
                memory->network.begins[agent] = env->terminals[i] | env->truncations[i];
                is_cut |= env->truncations[i] && !env->terminals[i];
            }
        }
        if (PLAY_FINALS && __syncthreads_or(is_cut)) {
            play_value_finals(memory, weights, finals + first_agent * NETWORK_INPUTS,
                              final_values + (step + 1) * segments, place, states, first_agent, num_agents);
            for (int i = 0; env != NULL && i < PLAY_ENV_AGENTS; i++)
                memory->network.begins[thread * PLAY_ENV_AGENTS + i] = env->terminals[i] | env->truncations[i];
        }
        __syncthreads();
    }
    play_move_rows(memory, observations, num_agents, true);
    play_move_states(memory, states, first_agent, num_agents, true);
    if (has_agent) begins[first_agent + thread] = memory->network.begins[thread];
    if (env != NULL) point_at(env->observations, observations + thread * PLAY_ENV_AGENTS * NETWORK_INPUTS);
}
