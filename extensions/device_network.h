// device_network.h - a policy's layers on a GPU: one block of threads computes them for the agents that it has.
//
// Who includes it has said before, by macros, what the layers are:
//
//     NETWORK_INPUTS       numbers of an observation
//     NETWORK_WIDTH        of every layer
//     NETWORK_ENCODERS     linear layers, each with NETWORK_ACTIVATION, such as activation_gelu
//     NETWORK_RECURRENT    MinGRU layers behind them
//     NETWORK_PARTS        the logits of every part of a decision, such as 3, 2
//     NETWORK_NUMBERS      1 where the parts are numbers of normal distributions, one logit each; 0 for choices
//     NETWORK_ROUNDS       1 where weights and what a layer gives are rounded to bfloat16; sums are float32
//     NETWORK_AGENTS       of a block, a multiple of 4
//
// What a layer takes and gives lies in shared memory as [numbers][NETWORK_AGENTS]. A thread has four outputs of four
// agents: what it reads at once, four agents' number and four weights, makes sixteen products. Weights stay in global
// memory, and are read through the cache of the multiprocessor, so that a policy may be larger than shared memory. They
// lie as [gates][padded] biases of float32 and then [numbers][gates][padded] weights, layer after layer.
#pragma once

#include "activation_row.h"
#include "decision_row.h"

enum {
    NETWORK_THREADS = 128,
    NETWORK_PADDED_WIDTH = (NETWORK_WIDTH + 3) / 4 * 4,
    NETWORK_LARGEST = NETWORK_INPUTS > NETWORK_PADDED_WIDTH ? NETWORK_INPUTS : NETWORK_PADDED_WIDTH,
    NETWORK_STATES = NETWORK_RECURRENT > 0 ? NETWORK_RECURRENT : 1,  // C++ has no empty arrays
};

__device__ static constexpr int network_parts[] = {NETWORK_PARTS};
enum { NETWORK_NUM_PARTS = sizeof(network_parts) / sizeof(network_parts[0]) };

__host__ __device__ constexpr int network_num_logits() {
    const int parts[] = {NETWORK_PARTS};
    int sum = 0;
    for (int size : parts) sum += size;
    return sum;
}

enum {
    NETWORK_LOGITS = network_num_logits(),
    NETWORK_OUTPUTS = NETWORK_LOGITS + 1,  // the last one is the value
    NETWORK_PADDED_OUTPUTS = (NETWORK_OUTPUTS + 3) / 4 * 4,
};

#if NETWORK_NUMBERS
typedef float NetworkAction;
#else
typedef int NetworkAction;
#endif

// In shared memory.
typedef struct {
    float seen[NETWORK_LARGEST][NETWORK_AGENTS];  // an observation, then what every second layer gives
    float hidden[NETWORK_PADDED_WIDTH][NETWORK_AGENTS];
    float states[NETWORK_STATES][NETWORK_PADDED_WIDTH][NETWORK_AGENTS];
    float outputs[NETWORK_PADDED_OUTPUTS][NETWORK_AGENTS];
    unsigned char begins[NETWORK_AGENTS];  // whose state counts as zero
} NetworkMemory;

#if NETWORK_ROUNDS
typedef unsigned short NetworkWeight;  // the upper half of a float
enum { NETWORK_WEIGHTS_OF_A_FLOAT = 2 };
#else
typedef float NetworkWeight;
enum { NETWORK_WEIGHTS_OF_A_FLOAT = 1 };
#endif

// Four outputs of four agents.
typedef struct {
    float at[4][4];
} NetworkTile;

// The nearest bfloat16, of two as near the even one, where what a layer takes is rounded.
__device__ static inline float network_factor(float x) {
#if NETWORK_ROUNDS
    unsigned bits;
    memcpy(&bits, &x, sizeof(bits));
    bits += 0x7FFFu + (bits >> 16 & 1u);
    bits &= 0xFFFF0000u;
    float rounded;
    memcpy(&rounded, &bits, sizeof(rounded));
    return x == x ? rounded : x;
#else
    return x;
#endif
}

// Where the weights of a layer begin, behind its biases, and where the next layer does.
__device__ static inline const NetworkWeight* network_weights(const float* layer, int gates, int padded) {
    return (const NetworkWeight*)(layer + gates * padded);
}

__host__ __device__ constexpr int network_layer_size(int numbers, int gates, int padded) {
    return gates * padded + numbers * gates * padded / NETWORK_WEIGHTS_OF_A_FLOAT;
}

__device__ static inline float network_weight(NetworkWeight weight) {
#if NETWORK_ROUNDS
    unsigned bits = (unsigned)weight << 16;
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
#else
    return weight;
#endif
}

// Four that follow each other, read at once.
__device__ static inline float4 network_four_weights(const NetworkWeight* weights) {
#if NETWORK_ROUNDS
    ushort4 four = *(const ushort4*)weights;
    return {network_weight(four.x), network_weight(four.y), network_weight(four.z), network_weight(four.w)};
#else
    return *(const float4*)weights;
#endif
}

// One tile for each gate, of the agents at which `input` begins and of the outputs from `output` on.
template <int GATES>
__device__ static inline void network_multiply(const float* input, int numbers, const float* layer, int output,
                                               int padded, NetworkTile* tiles) {
    for (int gate = 0; gate < GATES; gate++)
        for (int i = 0; i < 4; i++)
            for (int agent = 0; agent < 4; agent++) tiles[gate].at[i][agent] = layer[gate * padded + output + i];
    const NetworkWeight* weights = network_weights(layer, GATES, padded) + output;
    for (int number = 0; number < numbers; number++, weights += GATES * padded) {
        float4 x = *(const float4*)(input + number * NETWORK_AGENTS);
        const float factors[4] = {x.x, x.y, x.z, x.w};
        for (int gate = 0; gate < GATES; gate++) {
            float4 weight = network_four_weights(weights + gate * padded);
            for (int agent = 0; agent < 4; agent++) {
                tiles[gate].at[0][agent] = fmaf(weight.x, factors[agent], tiles[gate].at[0][agent]);
                tiles[gate].at[1][agent] = fmaf(weight.y, factors[agent], tiles[gate].at[1][agent]);
                tiles[gate].at[2][agent] = fmaf(weight.z, factors[agent], tiles[gate].at[2][agent]);
                tiles[gate].at[3][agent] = fmaf(weight.w, factors[agent], tiles[gate].at[3][agent]);
            }
        }
    }
}

// The tiles of this thread: first agent and first output of each.
#define FOR_TILES(padded)                                                                                      \
    for (int tile = threadIdx.x, agent, output;                                                                \
         agent = tile % (NETWORK_AGENTS / 4) * 4, output = tile / (NETWORK_AGENTS / 4) * 4, output < (padded); \
         tile += NETWORK_THREADS)

__device__ static inline void network_encode(const float (*input)[NETWORK_AGENTS], int numbers, const float* weights,
                                             float (*result)[NETWORK_AGENTS]) {
    FOR_TILES(NETWORK_PADDED_WIDTH) {
        NetworkTile sums;
        network_multiply<1>(&input[0][agent], numbers, weights, output, NETWORK_PADDED_WIDTH, &sums);
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++)
                result[output + i][agent + j] = network_factor(NETWORK_ACTIVATION(sums.at[i][j]).value);
    }
}

__device__ static inline void network_recur(const float (*input)[NETWORK_AGENTS], const float* weights,
                                            const unsigned char* begins, float (*states)[NETWORK_AGENTS],
                                            float (*result)[NETWORK_AGENTS]) {
    FOR_TILES(NETWORK_PADDED_WIDTH) {
        NetworkTile gates[3];  // candidate, gate, highway
        network_multiply<3>(&input[0][agent], NETWORK_WIDTH, weights, output, NETWORK_PADDED_WIDTH, gates);
        for (int i = 0; i < 4; i++) {
            for (int j = 0; j < 4; j++) {
                float* state = &states[output + i][agent + j];
                float before = begins[agent + j] ? 0.0f : *state;
                *state = mingru_state(gates[0].at[i][j], gates[1].at[i][j], before);
                float x = input[output + i][agent + j];
                result[output + i][agent + j] = network_factor(mingru_output(gates[2].at[i][j], *state, x));
            }
        }
    }
}

// A head of few outputs has fewer tiles than there are threads, which then have an output of an agent each.
__device__ static inline void network_conclude(const float (*input)[NETWORK_AGENTS], const float* layer,
                                               float (*result)[NETWORK_AGENTS]) {
    if constexpr (NETWORK_PADDED_OUTPUTS / 4 * (NETWORK_AGENTS / 4) < NETWORK_THREADS) {
        const NetworkWeight* weights = network_weights(layer, 1, NETWORK_PADDED_OUTPUTS);
        for (int i = threadIdx.x; i < NETWORK_OUTPUTS * NETWORK_AGENTS; i += NETWORK_THREADS) {
            int output = i / NETWORK_AGENTS, agent = i % NETWORK_AGENTS;
            float sum = layer[output];
            for (int number = 0; number < NETWORK_WIDTH; number++)
                sum =
                    fmaf(network_weight(weights[number * NETWORK_PADDED_OUTPUTS + output]), input[number][agent], sum);
            result[output][agent] = sum;
        }
    } else {
        FOR_TILES(NETWORK_PADDED_OUTPUTS) {
            NetworkTile sums;
            network_multiply<1>(&input[0][agent], NETWORK_WIDTH, layer, output, NETWORK_PADDED_OUTPUTS, &sums);
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++) result[output + i][agent + j] = sums.at[i][j];
        }
    }
}

#undef FOR_TILES

// From `seen` to `outputs`, for all threads of the block. The weights of all layers follow each other.
__device__ static inline void network_forward(NetworkMemory* memory, const float* weights) {
    float (*input)[NETWORK_AGENTS] = memory->seen;
    float (*result)[NETWORK_AGENTS] = memory->hidden;
    int numbers = NETWORK_INPUTS;
    for (int layer = 0; layer < NETWORK_ENCODERS + NETWORK_RECURRENT; layer++) {
        int gates = layer < NETWORK_ENCODERS ? 1 : 3;
        if (gates == 1) network_encode(input, numbers, weights, result);
        if (gates == 3) network_recur(input, weights, memory->begins, memory->states[layer - NETWORK_ENCODERS], result);
        weights += network_layer_size(numbers, gates, NETWORK_PADDED_WIDTH);
        numbers = NETWORK_WIDTH;
        float (*given)[NETWORK_AGENTS] = result;
        result = input;
        input = given;
        __syncthreads();
    }
    network_conclude(input, weights, memory->outputs);
    __syncthreads();
}

// Draws one agent's actions from its logits, which become log-probabilities; returns that of the actions. `deviations`
// are the standard deviations of numbers, behind their logarithms: [2][NETWORK_NUM_PARTS].
__device__ static inline float network_decide(float* logits, const float* noise, const float* deviations,
                                              NetworkAction* actions) {
#if NETWORK_NUMBERS
    PpoNormal normal = {NETWORK_NUM_PARTS, deviations, deviations + NETWORK_NUM_PARTS};
    for (int part = 0; part < NETWORK_NUM_PARTS; part++)
        actions[part] = logits[part] + normal.deviations[part] * noise[part];
    return ppo_evaluate_normal(normal, actions, logits).logprob;
#else
    float logprob = 0.0f;
    for (int part = 0; part < NETWORK_NUM_PARTS; part++) {
        ppo_log_softmax(logits, network_parts[part]);
        actions[part] = ppo_sample(logits, network_parts[part], noise[part]);
        logprob += logits[actions[part]];
        logits += network_parts[part];
    }
    return logprob;
#endif
}

// Of weights of all layers, to where the deviations begin.
__device__ static inline const float* network_deviations(const float* weights) {
    const int first = network_layer_size(NETWORK_INPUTS, 1, NETWORK_PADDED_WIDTH);
    const int encoders = first + (NETWORK_ENCODERS - 1) * network_layer_size(NETWORK_WIDTH, 1, NETWORK_PADDED_WIDTH);
    const int recurrent = NETWORK_RECURRENT * network_layer_size(NETWORK_WIDTH, 3, NETWORK_PADDED_WIDTH);
    return weights + encoders + recurrent + network_layer_size(NETWORK_WIDTH, 1, NETWORK_PADDED_OUTPUTS);
}
