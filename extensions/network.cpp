// network.cpp - acting and learning of the policies in network.h, threaded over blocks of rows.
//
// Acting: forward and a decision for every row. Learning: forward, the loss of PPO, and backward for every segment of a
// minibatch. Threads take blocks from a counter, so that a slow one holds nobody up. Gradients are summed within a
// chunk of segments, and chunks do not depend on the threads, nor do results.
#include <atomic>

#include "network.h"
#include "ppo_row.h"

namespace {

// Rows of observations, float or bytes, anywhere in memory; strides in elements.
struct Observations {
    const void* data;
    int64_t is_bytes;
    int64_t segment_stride, step_stride;
};

// Made by network.py, as are the other calls; all pointers are borrowed.
struct Act {
    const Network* network;
    Observations observations;  // one step
    void* stored;               // [rows, inputs] of the observations' type, where a copy is left; or NULL
    int64_t rows, block;        // rows in a block
    float* const* states;       // [recurrent_layers] of [rows, width], overwritten
    const float* uniforms;      // [rows, num_parts], in [0, 1); NULL when no decision is wanted
    int32_t* actions;           // [rows, num_parts]; rows of results lie some elements apart
    int64_t action_stride;
    float* logprobs;  // [rows]
    int64_t logprob_stride;
    float* values;  // [rows]
    int64_t value_stride;
    float* scratch;  // [slots, scratch_size]
    int64_t slots, scratch_size;
    int32_t* has_nan;  // set to 1 when a logit is NaN
};

struct Learn {
    const Network* network;
    Observations observations;
    const int64_t* segments;  // [count], rows of the observations
    int64_t count, steps;
    int64_t block, chunks;        // segments in a block; groups of segments with gradients of their own
    const int32_t* actions;       // [count, steps, num_parts]
    const uint8_t* reset;         // [count, steps]
    const float* const* initial;  // [recurrent_layers] of [count, width]
    const float *old_logprobs, *old_values, *advantages, *returns;  // [count, steps]
    const float* weights;                                           // [count, steps] with mean 1, or NULL
    PpoCoefficients coefficients;
    float *ratios, *values;  // [count, steps], results
    double* metrics;         // [chunks, PPO_METRICS], 0 at first
    float* gradients;        // [chunks, gradient_size], 0 at first
    int64_t gradient_size;
    float* scratch;  // [slots, scratch_size]
    int64_t slots, scratch_size;
};

template <class Call>
struct Shared {
    const Call* call;
    std::atomic<int64_t>* next;  // the first block or chunk that nobody has taken
    KernelRange* run;
};

template <class Call>
void run_slots(void* context, int begin, int end, int) {
    ((const Shared<Call>*)context)->run(begin, end, context);
}

KERNEL_FN void read_observations(const Observations& source, int64_t segment, int64_t step, int64_t inputs,
                                 float* target) {
    int64_t offset = segment * source.segment_stride + step * source.step_stride;
    if (source.is_bytes) {
        const uint8_t* row = (const uint8_t*)source.data + offset;
        INDEPENDENT_LANES
        for (int64_t i = 0; i < inputs; i++) target[i] = (float)row[i];
    } else {
        memcpy(target, (const float*)source.data + offset, inputs * sizeof(float));
    }
}

KERNEL_FN void clear_padding(const Network& network, const NetworkScratch& scratch) {
    for (int64_t row = 0; row < scratch.sequences * scratch.steps; row++) {
        float* observation = scratch.observations + row * network.padded_inputs;
        for (int64_t i = network.inputs; i < network.padded_inputs; i++) observation[i] = 0.0f;
    }
}

// ---------------------------------------------------------------------------------------------------------- acting

KERNEL_FN void decide_row(const Act& call, int64_t row, float* output) {
    const Network& network = *call.network;
    call.values[row * call.value_stride] = output[network.outputs - 1];
    if (call.uniforms == nullptr) return;
    const float* uniforms = call.uniforms + row * network.num_parts;
    int32_t* actions = call.actions + row * call.action_stride;
    float logprob = 0.0f;
    for (int64_t part = 0; part < network.num_parts; part++) {
        int64_t size = network.part_sizes[part];
        ppo_log_softmax(output, size);
        actions[part] = ppo_draw(output, size, uniforms[part]);
        logprob += output[actions[part]];
        output += size;
    }
    call.logprobs[row * call.logprob_stride] = logprob;
    if (logprob != logprob) __atomic_store_n(call.has_nan, 1, __ATOMIC_RELAXED);  // any thread may
}

KERNEL_FN void store_observations(const Act& call, int64_t row) {
    int64_t size = call.observations.is_bytes ? 1 : sizeof(float), row_bytes = call.network->inputs * size;
    const char* source = (const char*)call.observations.data + row * call.observations.segment_stride * size;
    memcpy((char*)call.stored + row * row_bytes, source, row_bytes);
}

template <class Set>
KERNEL_FN void act_block(const Act& call, const NetworkPacked& packed, int64_t first, float* memory) {
    const Network& network = *call.network;
    int64_t rows = call.rows - first < call.block ? call.rows - first : call.block;
    NetworkMemory pieces = {memory, 0};
    NetworkScratch scratch = network_scratch(network, rows, 1, pieces);
    for (int64_t row = 0; row < rows; row++) {
        float* target = scratch.observations + row * network.padded_inputs;
        read_observations(call.observations, first + row, 0, network.inputs, target);
        if (call.stored != nullptr) store_observations(call, first + row);
    }
    scratch.reset = nullptr;
    for (int64_t i = 0; i < network.recurrent_layers; i++) {
        scratch.initial[i] = scratch.states[i] = call.states[i] + first * network.width;
    }
    network_forward<Set>(network, packed, scratch);
    for (int64_t row = 0; row < rows; row++) {
        decide_row(call, first + row, scratch.output + row * network.padded_outputs);
    }
}

template <class Set>
KERNEL_FN void act(const Shared<Act>& shared, int64_t begin, int64_t end) {
    const Act& call = *shared.call;
    NetworkMemory weights = {call.network->packed, 0};
    NetworkPacked packed = network_packed(*call.network, weights);
    int64_t blocks = (call.rows - 1) / call.block + 1;
    for (int64_t slot = begin; slot < end; slot++) {
        float* scratch = call.scratch + slot * call.scratch_size;
        int64_t i;
        while ((i = shared.next->fetch_add(1, std::memory_order_relaxed)) < blocks) {
            act_block<Set>(call, packed, i * call.block, scratch);
        }
    }
}

// -------------------------------------------------------------------------------------------------------- learning

KERNEL_FN void read_segment(const Learn& call, int64_t index, int64_t sequence, const NetworkScratch& scratch) {
    const Network& network = *call.network;
    for (int64_t step = 0; step < call.steps; step++) {
        float* target = scratch.observations + (sequence * call.steps + step) * network.padded_inputs;
        read_observations(call.observations, call.segments[index], step, network.inputs, target);
    }
}

KERNEL_FN void differentiate_loss(const Learn& call, int64_t row, float* output, double* metrics) {
    const Network& network = *call.network;
    float share = 1.0f / (float)(call.count * call.steps);
    PpoStep step = {};
    step.actions = call.actions + row * network.num_parts;
    step.old_logprob = call.old_logprobs[row];
    step.old_value = call.old_values[row];
    step.advantage = call.advantages[row];
    step.ret = call.returns[row];
    step.weight = call.weights == nullptr ? share : share * call.weights[row];
    ppo_differentiate(call.coefficients, network.part_sizes, network.num_parts, output, &step, metrics);
    call.ratios[row] = step.ratio;
    call.values[row] = step.value;
}

template <class Set>
KERNEL_FN void learn_block(const Learn& call, const NetworkPacked& packed, const NetworkGradients& gradients,
                           int64_t first, int64_t end, double* metrics, float* memory) {
    const Network& network = *call.network;
    int64_t sequences = end - first, rows = sequences * call.steps, first_row = first * call.steps;
    NetworkMemory pieces = {memory, 0};
    NetworkScratch scratch = network_scratch(network, sequences, call.steps, pieces);
    for (int64_t i = 0; i < sequences; i++) read_segment(call, first + i, i, scratch);
    clear_padding(network, scratch);
    memcpy(scratch.reset, call.reset + first_row, rows);
    for (int64_t i = 0; i < network.recurrent_layers; i++) {
        const float* initial = call.initial[i] + first * network.width;
        memcpy(scratch.initial[i], initial, sequences * network.width * sizeof(float));
    }
    network_forward<Set>(network, packed, scratch);
    for (int64_t row = 0; row < rows; row++) {
        differentiate_loss(call, first_row + row, scratch.output + row * network.padded_outputs, metrics);
    }
    network_backward<Set>(network, scratch, gradients);
}

template <class Set>
KERNEL_FN void learn_chunk(const Learn& call, const NetworkPacked& packed, int64_t chunk, float* scratch) {
    NetworkMemory memory = {call.gradients + chunk * call.gradient_size, 0};
    NetworkGradients gradients = network_gradients(*call.network, memory);
    int64_t end = call.count * (chunk + 1) / call.chunks;
    for (int64_t first = call.count * chunk / call.chunks; first < end; first += call.block) {
        int64_t last = end - first < call.block ? end : first + call.block;
        learn_block<Set>(call, packed, gradients, first, last, call.metrics + chunk * PPO_METRICS, scratch);
    }
}

template <class Set>
KERNEL_FN void learn(const Shared<Learn>& shared, int64_t begin, int64_t end) {
    const Learn& call = *shared.call;
    NetworkMemory weights = {call.network->packed, 0};
    NetworkPacked packed = network_packed(*call.network, weights);
    for (int64_t slot = begin; slot < end; slot++) {
        float* scratch = call.scratch + slot * call.scratch_size;
        int64_t chunk;
        while ((chunk = shared.next->fetch_add(1, std::memory_order_relaxed)) < call.chunks) {
            learn_chunk<Set>(call, packed, chunk, scratch);
        }
    }
}

KERNEL_VARIANTS(act, Shared<Act>)
KERNEL_VARIANTS(learn, Shared<Learn>)

void pack(float* target, float* target_bias, const float* weights, const float* bias, int64_t inputs, int64_t outputs,
          int64_t padded) {
    for (int64_t input = 0; input < inputs; input++) {
        for (int64_t i = 0; i < padded; i++) {
            target[input * padded + i] = i < outputs ? weights[i * inputs + input] : 0.0f;
        }
    }
    if (target_bias == nullptr) return;
    for (int64_t i = 0; i < padded; i++) target_bias[i] = bias != nullptr && i < outputs ? bias[i] : 0.0f;
}

}  // namespace

// Bytes of the structures that network.py makes.
extern "C" void puffer_network_structures(int64_t* sizes) {
    sizes[0] = sizeof(Network);
    sizes[1] = sizeof(Act);
    sizes[2] = sizeof(Learn);
}

// Floats that `packed`, the gradients of a chunk, and the scratch memory of a slot take.
extern "C" void puffer_network_sizes(const Network* network, int64_t sequences, int64_t steps, int64_t* sizes) {
    NetworkMemory packed = {}, gradients = {}, scratch = {};
    network_packed(*network, packed);
    network_gradients(*network, gradients);
    network_scratch(*network, sequences, steps, scratch);
    sizes[0] = packed.used;
    sizes[1] = gradients.used;
    sizes[2] = scratch.used;
}

// Copies the parameters as they are now; the calls below use the copy for forward.
extern "C" void puffer_network_pack(const Network* network) {
    NetworkMemory memory = {network->packed, 0};
    NetworkPacked packed = network_packed(*network, memory);
    int64_t width = network->width, encoder = network->encoder_layers, recurrent = network->recurrent_layers;
    for (int64_t i = 0; i < encoder; i++) {
        int64_t inputs = network_encoder_inputs(*network, i);
        pack(packed.encoder[i], packed.encoder_bias[i], network->weights[i], network->biases[i], inputs, width, width);
    }
    for (int64_t i = 0; i < recurrent; i++) {
        const float* weights = network->weights[encoder + i];
        pack(packed.recurrent[i], nullptr, weights, nullptr, width, 3 * width, 3 * width);
    }
    pack(packed.head, packed.head_bias, network->weights[encoder + recurrent], network->biases[encoder], width,
         network->outputs, network->padded_outputs);
}

// Every item is a slot: a thread's scratch memory, with which it works until nothing is left.
extern "C" void puffer_network_act(const Act* call, const KernelThreads* threads) {
    std::atomic<int64_t> next(0);
    Shared<Act> shared = {call, &next, act_variant()};
    threads->run(threads->pool, run_slots<Act>, &shared, (int)call->slots);
}

extern "C" void puffer_network_learn(const Learn* call, const KernelThreads* threads) {
    std::atomic<int64_t> next(0);
    Shared<Learn> shared = {call, &next, learn_variant()};
    threads->run(threads->pool, run_slots<Learn>, &shared, (int)call->slots);
}
