// network.h - the policies that are one kernel on a CPU: from what the environments give to decisions and values.
//
// The actor's layers lead from the observation to the logits of choices or to the means of numbers, whose deviations
// are parameters. The value is one more output of the same layers, or that of layers of its own, the critic's.
#pragma once

#include "network_chain.h"
#include "ppo_row.h"

KERNEL_FN bool network_is_one_hot(const Network& network) { return network.chains[0].cells > 0; }

// Of an observation.
KERNEL_FN int64_t network_numbers(const Network& network) {
    const Chain& chain = network.chains[0];
    if (chain_has_convolutions(chain)) return convolution_observation(chain);
    return network_is_one_hot(network) ? chain.cells : chain.inputs;
}

KERNEL_FN int64_t network_observation_row(const Network& network) { return matmul_padded(network_numbers(network)); }

// Whether bytes are divided by 255, as convolutions see them.
KERNEL_FN bool network_scales_bytes(const Network& network) {
    return chain_has_convolutions(network.chains[0]) && !network_is_one_hot(network) && network.mean == nullptr;
}

KERNEL_FN PpoNormal network_normal(const Network& network) {
    return {network.num_parts, network.normal, network.normal + network.num_parts};
}

KERNEL_FN void network_pack(const Network& network) {
    for (int64_t i = 0; i < network.num_chains; i++) chain_pack(network.chains[i]);
    for (int64_t i = 0; network.log_std != nullptr && i < network.num_parts; i++) {
        network.normal[i] = network.log_std[i];
        network.normal[network.num_parts + i] = expf(network.log_std[i]);
    }
    int64_t numbers = network_numbers(network);
    for (int64_t i = 0; network.mean != nullptr && i < numbers; i++) {
        network.seen[i] = (float)network.mean[i];
        network.seen[numbers + i] = (float)(1.0 / sqrt(network.variance[i] + network.epsilon));
    }
}

struct NetworkPacked {
    ChainPacked chains[NETWORK_MAX_CHAINS];
};

KERNEL_FN NetworkPacked network_packed(const Network& network) {
    NetworkPacked packed = {};
    for (int64_t i = 0; i < network.num_chains; i++) {
        ChainMemory memory = {network.chains[i].packed, 0};
        packed.chains[i] = chain_packed(network.chains[i], memory);
    }
    return packed;
}

// Of all parameters.
struct NetworkGradients {
    ChainGradients chains[NETWORK_MAX_CHAINS];
    float* log_std;
};

KERNEL_FN NetworkGradients network_gradients(const Network& network, ChainMemory& memory) {
    NetworkGradients gradients = {};
    for (int64_t i = 0; i < network.num_chains; i++) gradients.chains[i] = chain_gradients(network.chains[i], memory);
    gradients.log_std = memory.take(network.log_std == nullptr ? 0 : network.num_parts);
    return gradients;
}

// What a block of rows needs.
struct NetworkScratch {
    int64_t sequence_rows, step_rows;  // from a row to that of the next sequence, and of the next step
    float* observations;               // [rows, padded_inputs], or where the first layer sees categories:
    int32_t* columns;                  // [rows, cells], those of its weights
    ChainScratch chains[NETWORK_MAX_CHAINS];
};

KERNEL_FN NetworkScratch network_scratch(const Network& network, int64_t sequences, int64_t steps,
                                         ChainMemory& memory) {
    NetworkScratch scratch = {};
    int64_t rows = sequences * steps;
    bool is_step_by_step = chain_is_lstm(network.chains[0]);
    scratch.sequence_rows = is_step_by_step ? 1 : steps;
    scratch.step_rows = is_step_by_step ? sequences : 1;
    if (network_is_one_hot(network)) {
        scratch.columns = (int32_t*)memory.take(rows * network_numbers(network));
    } else {
        scratch.observations = memory.take(rows * network_observation_row(network));
    }
    for (int64_t i = 0; i < network.num_chains; i++) {
        scratch.chains[i] = chain_scratch(network.chains[i], sequences, steps, memory);
        scratch.chains[i].observations = scratch.observations;
        scratch.chains[i].columns = scratch.columns;
    }
    return scratch;
}

template <class Set>
KERNEL_FN void network_forward(const Network& network, const NetworkPacked& packed, const NetworkScratch& scratch) {
    for (int64_t i = 0; i < network.num_chains; i++) {
        chain_forward<Set>(network.chains[i], packed.chains[i], scratch.chains[i]);
    }
}

// From the gradients in the outputs to the sums of `gradients`.
template <class Set>
KERNEL_FN void network_backward(const Network& network, const NetworkPacked& packed, const NetworkScratch& scratch,
                                const NetworkGradients& gradients) {
    for (int64_t i = 0; i < network.num_chains; i++) {
        chain_backward<Set>(network.chains[i], packed.chains[i], scratch.chains[i], gradients.chains[i]);
    }
}

// Of one row: logits or means, and where the value lies.
struct NetworkOutput {
    float *decision, *value;
};

KERNEL_FN NetworkOutput network_output(const Network& network, const NetworkScratch& scratch, int64_t row) {
    int64_t last = network.num_chains - 1;
    float* values = scratch.chains[last].output + row * network.chains[last].padded_outputs;
    float* decision = scratch.chains[0].output + row * network.chains[0].padded_outputs;
    return {decision, values + network.chains[last].outputs - 1};
}

// Writes the results from `gradients`, which are those of the first chunk.
KERNEL_FN void network_sum(const Network& network, const NetworkGradients& gradients, const GradientChunks& chunks) {
    for (int64_t i = 0; i < network.num_chains; i++) chain_sum(network.chains[i], gradients.chains[i], chunks);
    if (network.log_std == nullptr) return;
    sum_chunks(chunks, gradients.log_std, 1, network.num_parts, 0, network.log_std_results);
}
