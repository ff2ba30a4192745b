// network.cpp - acting and learning of the policies in network.h, threaded over blocks of rows.
//
// Acting: forward and a decision for every row. Learning: forward, the loss of PPO, and backward for every segment of a
// minibatch. Threads take blocks from a counter, so that a slow one holds nobody up. Gradients are summed within a
// chunk of segments, and chunks do not depend on the threads, nor do results.
#include <atomic>

#include "network.h"
#include "ppo_row.h"

namespace {

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

// A single item is the caller's: nobody else need wake for it.
void run_items(const KernelThreads* threads, KernelTask* task, const void* context, int64_t items) {
    if (items == 1) {
        task((void*)context, 0, 1, 0);
    } else {
        threads->run(threads->pool, task, (void*)context, (int)items);
    }
}

void pack_shares(void* context, int begin, int end, int) {
    const Network& network = *(const Network*)context;
    for (int64_t share = begin; share < end; share++) network_pack(network, {share, network.pack_shares});
}

KERNEL_FN bool is_of_integers(const Observations& source) {
    return source.kind != OBSERVATION_FLOAT && source.kind != OBSERVATION_DOUBLE;
}

// Numbers of a row that lie `step` apart.
template <class Element>
KERNEL_FN void read_plane(const Element* first, int64_t step, const float* mean, int64_t count, float* target) {
    typedef Element __attribute__((aligned(1), may_alias)) Unaligned;  // rows of bytes begin anywhere
    const Unaligned* row = (const Unaligned*)first;
    INDEPENDENT_LANES
    for (int64_t i = 0; i < count; i++) {
        target[i] = (float)(mean == nullptr ? row[i * step] : row[i * step] - mean[i]);
    }
}

// A row of any type; of an image whose channels are last they come first in the target, as in `mean`.
template <class Element>
KERNEL_FN void read_row(const void* data, int64_t offset, const float* mean, int64_t channels, int64_t numbers,
                        float* target) {
    const Element* row = (const Element*)data + offset;
    if (channels == 1) return read_plane(row, 1, mean, numbers, target);
    int64_t pixels = numbers / channels;
    for (int64_t i = 0; i < channels; i++) {
        read_plane(row + i, channels, mean == nullptr ? nullptr : mean + i * pixels, pixels, target + i * pixels);
    }
}

KERNEL_FN void read_numbers(int64_t kind, const void* data, int64_t offset, const float* mean, int64_t channels,
                            int64_t numbers, float* target) {
    if (kind == OBSERVATION_BYTE) read_row<uint8_t>(data, offset, mean, channels, numbers, target);
    if (kind == OBSERVATION_SIGNED_BYTE) read_row<int8_t>(data, offset, mean, channels, numbers, target);
    if (kind == OBSERVATION_FLOAT) read_row<float>(data, offset, mean, channels, numbers, target);
    if (kind == OBSERVATION_DOUBLE) read_row<double>(data, offset, mean, channels, numbers, target);
    if (kind == OBSERVATION_SHORT) read_row<int16_t>(data, offset, mean, channels, numbers, target);
    if (kind == OBSERVATION_INTEGER) read_row<int32_t>(data, offset, mean, channels, numbers, target);
    if (kind == OBSERVATION_LONG) read_row<int64_t>(data, offset, mean, channels, numbers, target);
}

// An observation as the layers see it; NaN stays NaN.
KERNEL_FN void read_observation(const Network& network, const Observations& source, int64_t segment, int64_t step,
                                float* target) {
    int64_t offset = segment * source.segment_stride + step * source.step_stride, numbers = network.numbers;
    const float *mean = network.mean == nullptr ? nullptr : network.seen, *scale = network.seen + numbers;
    if (network.fields != nullptr) {
        for (int64_t i = 0; i < network.num_fields; i++) {
            const ObservationField& field = network.fields[i];
            const char* place = (const char*)source.data + offset + field.offset;
            read_numbers(field.kind, place, 0, nullptr, 1, field.count, target);
            target += field.count;
        }
        return;
    }
    read_numbers(source.kind, source.data, offset, mean, network.channels, numbers, target);
    if (is_of_integers(source) && network.divides_integers) {
        INDEPENDENT_LANES
        for (int64_t i = 0; i < numbers; i++) target[i] *= 1.0f / 255.0f;
    }
    if (mean == nullptr) return;
    float clip = network.clip;
    INDEPENDENT_LANES
    for (int64_t i = 0; i < numbers; i++) {
        float scaled = target[i] * scale[i];
        target[i] = scaled < -clip ? -clip : scaled > clip ? clip : scaled;
    }
}

template <class Element, class Sum>
KERNEL_FN void find_plane(const Network& network, const Element* row, int64_t step, int64_t start, int64_t count,
                          int32_t* columns) {
    const int32_t *lowest = network.lowest + start, *first = network.first_columns + start;
    const int32_t* last = network.last_columns + start;
    int32_t* target = columns + start;
    INDEPENDENT_LANES
    for (int64_t i = 0; i < count; i++) {
        Sum column = (Sum)first[i] + (int32_t)row[i * step] - lowest[i];
        target[i] = column < first[i] ? first[i] : column > last[i] ? last[i] : (int32_t)column;
    }
}

// Likewise.
template <class Element, class Sum>
KERNEL_FN void find_columns(const Network& network, const Element* row, int32_t* target) {
    int64_t channels = network.channels, pixels = network.numbers / channels;
    if (channels == 1) return find_plane<Element, Sum>(network, row, 1, 0, pixels, target);
    for (int64_t i = 0; i < channels; i++) {
        find_plane<Element, Sum>(network, row + i, channels, i * pixels, pixels, target);
    }
}

// The columns of the categories of an observation; of what lies beyond them, the nearest.
KERNEL_FN void read_categories(const Network& network, const Observations& source, int64_t segment, int64_t step,
                               int32_t* target) {
    int64_t offset = segment * source.segment_stride + step * source.step_stride;
    const void* data = source.data;
    if (source.kind == OBSERVATION_BYTE) find_columns<uint8_t, int32_t>(network, (uint8_t*)data + offset, target);
    if (source.kind == OBSERVATION_SIGNED_BYTE) find_columns<int8_t, int32_t>(network, (int8_t*)data + offset, target);
    if (source.kind == OBSERVATION_SHORT) find_columns<int16_t, int32_t>(network, (int16_t*)data + offset, target);
    if (source.kind == OBSERVATION_INTEGER) find_columns<int32_t, int64_t>(network, (int32_t*)data + offset, target);
    if (source.kind == OBSERVATION_LONG) find_columns<int64_t, int64_t>(network, (int64_t*)data + offset, target);
}

KERNEL_FN void read_into(const Network& network, const Observations& source, int64_t segment, int64_t step,
                         const NetworkScratch& scratch, int64_t row) {
    if (network.is_of_categories) {
        read_categories(network, source, segment, step, scratch.columns + row * network.numbers);
    } else {
        read_observation(network, source, segment, step, scratch.values[0] + row * network_observation_row(network));
    }
}

KERNEL_FN void clear_padding(const Network& network, const NetworkScratch& scratch, int64_t rows) {
    if (network.is_of_categories) return;
    for (int64_t row = 0; row < rows; row++) {
        float* observation = scratch.values[0] + row * network_observation_row(network);
        for (int64_t i = network.numbers; i < network_observation_row(network); i++) observation[i] = 0.0f;
    }
}

// --------------------------------------------------------------------------------------------------------- choices

KERNEL_FN bool is_all_zero(const uint8_t* bytes, int64_t count) {
    uint64_t any = 0, eight;
    for (int64_t i = 0; i < count; i += (int64_t)sizeof(eight)) {
        memcpy(&eight, bytes + i, sizeof(eight));
        any |= eight;
    }
    return any == 0;
}

// The highest bit of each of eight bytes that is not zero.
KERNEL_FN uint64_t nonzero_bytes(const uint8_t* bytes) {
    const uint64_t LOW_BITS = 0x7f7f7f7f7f7f7f7fu;
    uint64_t eight;
    memcpy(&eight, bytes, sizeof(eight));
    return (((eight & LOW_BITS) + LOW_BITS) | eight) & ~LOW_BITS;
}

// Finds what the mask of a row allows, many bytes at a time.
KERNEL_FN void find_choices(const Network& network, const uint8_t* mask, const Choices& row) {
    int64_t count = 0, first = 0;
    for (int64_t part = 0; part < network.num_parts; part++) {
        int64_t end = first + network.part_sizes[part], before = count;
        row.places[count] = (int32_t)first;
        for (int64_t i = first; i < end;) {
            if (i + 64 <= end && is_all_zero(mask + i, 64)) {
                i += 64;
            } else if (i + 8 <= end) {
                for (int64_t last = matmul_part(end - 7, i + 64); i < last; i += 8) {
                    for (uint64_t found = nonzero_bytes(mask + i); found != 0; found &= found - 1) {
                        row.places[count++] = (int32_t)(i + __builtin_ctzll(found) / 8);
                    }
                }
            } else {
                row.places[count] = (int32_t)i;
                count += mask[i++] != 0;
            }
        }
        if (count == before) row.places[count++] = (int32_t)first;
        row.ends[part] = (int32_t)count;
        first = end;
    }
}

// The allowed choices of a part, and their logits side by side.
struct Part {
    const int32_t* places;  // [count], as those of Choices; NULL where all are allowed
    int64_t count, first;   // the first number of the part in a decision
    float* logits;          // [count]

    KERNEL_METHOD int32_t choice(int64_t index) const {
        return (int32_t)(places == nullptr ? index : places[index] - first);
    }

    // How many are allowed below a choice.
    KERNEL_METHOD int32_t find(int64_t choice) const {
        int64_t below = 0;
        if (places == nullptr) return (int32_t)choice;
        while (below < count && places[below] - first < choice) below++;
        return (int32_t)below;
    }
};

// Calls `call` with the number of every part of a row's decision and what is in it.
template <class Call>
KERNEL_FN void visit_parts(const Network& network, const Choices& row, float* logits, const Call& call) {
    int64_t first = 0, begin = 0;
    for (int64_t part = 0; part < network.num_parts; part++) {
        int64_t size = network.part_sizes[part];
        if (row.places == nullptr) {
            call(part, Part{nullptr, size, first, logits + first});
        } else {
            call(part, Part{row.places + begin, row.ends[part] - begin, first, logits + begin});
            begin = row.ends[part];
        }
        first += size;
    }
}

// ---------------------------------------------------------------------------------------------------------- acting

struct Choose {
    const float* uniforms;
    const uint8_t* mask;  // of the row, or NULL
    int32_t* actions;
    float* logprob;  // added to; NaN where nothing is allowed

    KERNEL_METHOD void operator()(int64_t index, const Part& part) const {
        ppo_log_softmax(part.logits, part.count);
        int32_t chosen = ppo_sample(part.logits, part.count, uniforms[index]);
        actions[index] = part.choice(chosen);
        bool is_allowed = mask == nullptr || mask[part.first + actions[index]] != 0;
        *logprob += is_allowed ? part.logits[chosen] : NAN;
    }
};

KERNEL_FN float sample_numbers(const Network& network, const float* noise, const float* means, float* actions) {
    PpoNormal normal = network_normal(network);
    for (int64_t i = 0; i < normal.size; i++) actions[i] = means[i] + normal.deviations[i] * noise[i];
    return ppo_evaluate_normal(normal, actions, means).logprob;
}

KERNEL_FN const uint8_t* mask_of(const Act& call, int64_t row) {
    return call.masks == nullptr ? nullptr : call.masks + row * call.network->decision_numbers;
}

KERNEL_FN void decide_row(const Act& call, int64_t row, const Choices& choices, NetworkOutput output) {
    const Network& network = *call.network;
    int64_t place = row * call.action_stride;
    bool is_present = call.present == nullptr || call.present[row * call.present_stride] != 0;
    call.values[row * call.value_stride] = is_present ? *output.value : 0.0f;
    if (call.noise == nullptr) return;
    if (!is_present) {
        memset((int32_t*)call.actions + place, 0, network.num_parts * sizeof(int32_t));  // or float
        call.logprobs[row * call.logprob_stride] = 0.0f;
        return;
    }
    const float* noise = call.noise + row * network.num_parts;
    float logprob = 0.0f;
    if (network.log_std == nullptr) {
        Choose choose = {noise, mask_of(call, row), (int32_t*)call.actions + place, &logprob};
        visit_parts(network, choices, output.decision, choose);
    } else {
        logprob = sample_numbers(network, noise, output.decision, (float*)call.actions + place);
    }
    call.logprobs[row * call.logprob_stride] = logprob;
    if (logprob != logprob) __atomic_store_n(call.has_nan, 1, __ATOMIC_RELAXED);  // any thread may
}

KERNEL_FN void store_observations(const Act& call, int64_t row) {
    static const int64_t SIZES[] = {4, 1, 1, 8, 2, 4, 8};  // bytes of a number, by kind
    const Network& network = *call.network;
    int64_t size = SIZES[call.observations.kind];
    int64_t row_bytes = network.fields == nullptr ? network.numbers * size : network.row_bytes;
    const char* source = (const char*)call.observations.data + row * call.observations.segment_stride * size;
    memcpy((char*)call.stored + row * row_bytes, source, row_bytes);
}

template <class Set>
KERNEL_FN void act_block(const Act& call, int64_t first, float* memory) {
    const Network& network = *call.network;
    int64_t rows = call.rows - first < call.block ? call.rows - first : call.block;
    LayerMemory pieces = {memory, 0};
    NetworkScratch scratch = network_scratch(network, rows, 1, call.masks != nullptr, pieces);
    for (int64_t row = 0; row < rows; row++) {
        read_into(network, call.observations, first + row, 0, scratch, row);
        if (call.masks != nullptr) find_choices(network, mask_of(call, first + row), scratch.choices.from(row));
        if (call.stored != nullptr) store_observations(call, first + row);
    }
    clear_padding(network, scratch, rows);
    network_begin_step(network, call.states, first, scratch);
    network_forward_of(Set{}, network, scratch);
    network_end_step(network, call.states, first, scratch);
    bool is_gathered = call.masks != nullptr && !network_is_by_choices(network, scratch);
    for (int64_t row = 0; row < rows; row++) {
        NetworkOutput output = network_output(network, scratch.values, row);
        Choices choices = scratch.choices.from(row);
        if (is_gathered) choices.gather(output.decision);
        decide_row(call, first + row, choices, output);
    }
}

template <class Set>
KERNEL_FN void act(const Shared<Act>& shared, int64_t begin, int64_t end) {
    const Act& call = *shared.call;
    int64_t blocks = (call.rows - 1) / call.block + 1;
    for (int64_t slot = begin; slot < end; slot++) {
        float* scratch = call.scratch + slot * call.scratch_size;
        int64_t i;
        while ((i = shared.next->fetch_add(1, std::memory_order_relaxed)) < blocks) {
            act_block<Set>(call, i * call.block, scratch);
        }
    }
}

// -------------------------------------------------------------------------------------------------------- learning

KERNEL_FN const uint8_t* mask_of(const Learn& call, int64_t index, int64_t step) {
    return call.masks + call.segments[index] * call.mask_segment_stride + step * call.mask_step_stride;
}

// A mask comes from memory, at another place for each step: asked for so that it is there when it is read.
KERNEL_FN void ask_for_mask(const Learn& call, int64_t index, int64_t step) {
    const uint8_t* mask = mask_of(call, index, step);
    for (int64_t i = 0; i < call.network->decision_numbers; i += 64) __builtin_prefetch(mask + i);
}

KERNEL_FN void read_segment(const Learn& call, int64_t index, int64_t sequence, const NetworkScratch& scratch) {
    const Network& network = *call.network;
    for (int64_t step = 0; step < call.steps; step++) {
        int64_t row = sequence * scratch.sequence_rows + step * scratch.step_rows;
        read_into(network, call.observations, call.segments[index], step, scratch, row);
        scratch.reset[row] = call.reset[index * call.steps + step];
        if (call.masks == nullptr) continue;
        if (step + 1 < call.steps) ask_for_mask(call, index, step + 1);
        find_choices(network, mask_of(call, index, step), scratch.choices.from(row));
    }
}

// Of the actions that were taken. One that a mask forbids counts as the next that it allows.
struct EvaluateChoice {
    const int32_t* actions;
    PpoDecision* decision;  // added to

    KERNEL_METHOD void operator()(int64_t index, const Part& part) const {
        int32_t chosen = part.find(actions[index]);
        PpoDecision found = ppo_evaluate_choices(&part.count, 1, &chosen, part.logits);
        decision->logprob += found.logprob;
        decision->entropy += found.entropy;
    }
};

struct DifferentiateChoice {
    const int32_t* actions;
    PpoDecision gradient;

    KERNEL_METHOD void operator()(int64_t index, const Part& part) const {
        int32_t chosen = part.find(actions[index]);
        ppo_differentiate_choices(&part.count, 1, &chosen, gradient, part.logits);
    }
};

// Replaces the output by the gradient of the loss.
KERNEL_FN void differentiate_loss(const Learn& call, int64_t row, const Choices& choices, NetworkOutput output,
                                  float* grad_log_std, double* metrics) {
    const Network& network = *call.network;
    bool are_choices = network.log_std == nullptr;
    const int32_t* chosen = (const int32_t*)call.actions + row * network.num_parts;
    const float* numbers = (const float*)call.actions + row * network.num_parts;
    PpoNormal normal = network_normal(network);
    PpoDecision decision = {0.0f, 0.0f};
    if (are_choices) {
        visit_parts(network, choices, output.decision, EvaluateChoice{chosen, &decision});
    } else {
        decision = ppo_evaluate_normal(normal, numbers, output.decision);
    }
    float share = 1.0f / (float)(call.count * call.steps);
    PpoStep step = {};
    step.logprob = decision.logprob;
    step.entropy = decision.entropy;
    step.value = *output.value;
    step.old_logprob = call.old_logprobs[row];
    step.old_value = call.old_values[row];
    step.advantage = call.advantages[row];
    step.ret = call.returns[row];
    step.weight = call.weights == nullptr ? share : share * call.weights[row];
    PpoGradient gradient = ppo_differentiate(call.coefficients, &step, metrics);
    call.ratios[row] = step.ratio;
    call.values[row] = step.value;
    *output.value = gradient.value;
    if (are_choices) {
        visit_parts(network, choices, output.decision, DifferentiateChoice{chosen, gradient.decision});
    } else {
        ppo_differentiate_normal(normal, numbers, gradient.decision, output.decision, grad_log_std);
    }
}

template <class Set>
KERNEL_FN void learn_block(const Learn& call, float* gradients, bool is_first, int64_t first, int64_t end,
                           double* metrics, float* memory) {
    const Network& network = *call.network;
    int64_t sequences = end - first;
    LayerMemory pieces = {memory, 0};
    NetworkScratch scratch = network_scratch(network, sequences, call.steps, call.masks != nullptr, pieces);
    for (int64_t i = 0; i < sequences; i++) read_segment(call, first + i, i, scratch);
    clear_padding(network, scratch, sequences * call.steps);
    network_read_states(network, call.initial, first, scratch);
    network_forward_of(Set{}, network, scratch);
    network_copy_outputs(network, scratch);
    bool is_gathered = call.masks != nullptr && !network_is_by_choices(network, scratch);
    for (int64_t i = 0; i < sequences; i++) {
        for (int64_t step = 0; step < call.steps; step++) {
            int64_t row = i * scratch.sequence_rows + step * scratch.step_rows;
            NetworkOutput output = network_output(network, scratch.gradients, row);
            float* grad_log_std = gradients + network.log_std_gradients;
            Choices choices = scratch.choices.from(row);
            if (is_gathered) choices.gather(output.decision);
            differentiate_loss(call, (first + i) * call.steps + step, choices, output, grad_log_std, metrics);
            if (is_gathered) choices.scatter(output.decision);
        }
    }
    network_backward<Set>(network, scratch, gradients, is_first);
}

template <class Set>
KERNEL_FN void learn_chunk(const Learn& call, int64_t chunk, float* scratch) {
    float* gradients = call.chunk_gradients + chunk * call.gradient_size;
    double* metrics = call.chunk_metrics + chunk * PPO_METRICS;
    network_clear_gradients(*call.network, gradients);
    memset(metrics, 0, PPO_METRICS * sizeof(double));
    int64_t begin = call.count * chunk / call.chunks, end = call.count * (chunk + 1) / call.chunks;
    for (int64_t first = begin; first < end; first += call.block) {
        int64_t last = end - first < call.block ? end : first + call.block;
        learn_block<Set>(call, gradients, first == begin, first, last, metrics, scratch);
    }
}

template <class Set>
KERNEL_FN void learn(const Shared<Learn>& shared, int64_t begin, int64_t end) {
    const Learn& call = *shared.call;
    for (int64_t slot = begin; slot < end; slot++) {
        float* scratch = call.scratch + slot * call.scratch_size;
        int64_t chunk;
        while ((chunk = shared.next->fetch_add(1, std::memory_order_relaxed)) < call.chunks) {
            learn_chunk<Set>(call, chunk, scratch);
        }
    }
}

KERNEL_VARIANTS(act, Shared<Act>)
KERNEL_VARIANTS(learn, Shared<Learn>)
KERNEL_ROUNDING_VARIANT(act, Shared<Act>)
KERNEL_ROUNDING_VARIANT(learn, Shared<Learn>)

bool rounds(const Network& network) { return network.products == PRODUCTS_BFLOAT16; }

enum { SUM_NUMBERS = 1 << 14 };  // of the gradients, an item

// Adds up the gradients of all chunks, in their order, behind them: the next minibatch writes what nobody wrote since.
void add_chunks(void* context, int begin, int end, int) {
    const Learn& call = *(const Learn*)context;
    for (int64_t item = begin; item < end; item++) {
        const float* added = call.chunk_gradients + item * SUM_NUMBERS;
        float* sums = call.chunk_gradients + call.chunks * call.gradient_size + item * SUM_NUMBERS;
        int64_t count = matmul_part(call.gradient_size - item * SUM_NUMBERS, SUM_NUMBERS);
        for (int64_t chunk = 0; chunk < call.chunks; chunk++, added += call.gradient_size) {
            INDEPENDENT_LANES
            for (int64_t i = 0; i < count; i++) sums[i] = chunk == 0 ? added[i] : sums[i] + added[i];
        }
    }
}

void sum_results(const Learn& call, const KernelThreads* threads) {
    run_items(threads, add_chunks, &call, (call.gradient_size - 1) / SUM_NUMBERS + 1);
    network_write_gradients(*call.network, call.chunk_gradients + call.chunks * call.gradient_size);
    for (int64_t i = 0; i < PPO_METRICS; i++) {
        double sum = 0.0;
        for (int64_t chunk = 0; chunk < call.chunks; chunk++) sum += call.chunk_metrics[chunk * PPO_METRICS + i];
        call.metrics[i] = (float)sum;
    }
}

// From a part of a batch to the one behind it.
void move_on(Learn& call) {
    int64_t rows = call.count * call.steps, numbers = rows * call.network->num_parts;
    call.segments += call.count;
    call.actions = (const char*)call.actions + numbers * (int64_t)sizeof(int32_t);  // or float
    call.reset += rows;
    call.old_logprobs += rows;
    call.old_values += rows;
    call.advantages += rows;
    call.returns += rows;
}

// As losses.normalize.
void normalize(float* advantages, int64_t count) {
    double sum = 0.0, squares = 0.0;
    for (int64_t i = 0; i < count; i++) sum += advantages[i];
    double center = sum / (double)count;
    for (int64_t i = 0; i < count; i++) squares += (advantages[i] - center) * (advantages[i] - center);
    // LaTeX: \frac{x - \mu}{\sigma + 10^{-8}} ; x = advantages, \mu = center, \sigma = deviation
    double deviation = sqrt(squares / (double)count);
    for (int64_t i = 0; i < count; i++) advantages[i] = (float)((advantages[i] - center) / (deviation + 1e-8));
}

}  // namespace

extern "C" void puffer_network_plan(Network* network, int64_t* sizes) {
    NetworkSizes found = network_plan(*network);
    sizes[0] = found.packed;
    sizes[1] = found.gradients;
}

extern "C" void puffer_network_scratch(const Network* network, int64_t sequences, int64_t steps, int64_t* size) {
    LayerMemory memory = {};
    network_scratch(*network, sequences, steps, network->part_sizes != nullptr, memory);
    *size = memory.used;
}

extern "C" void puffer_network_pack(const Network* network, const KernelThreads* threads) {
    run_items(threads, pack_shares, network, network->pack_shares);
}

// Every item is a slot: a thread's scratch memory, with which it works until nothing is left.
extern "C" void puffer_network_act(const Act* call, const KernelThreads* threads) {
    std::atomic<int64_t> next(0);
    KernelRange* variant = rounds(*call->network) ? act_rounding_variant() : act_variant();
    Shared<Act> shared = {call, &next, variant};
    run_items(threads, run_slots<Act>, &shared, call->slots);
}

extern "C" void puffer_network_learn(const Learn* call, const KernelThreads* threads) {
    for (int64_t i = 0; i < call->count; i++) {
        int64_t segment = call->segments[i];
        if (segment < 0 || segment >= call->all_segments) *call->is_outside = 1;
    }
    if (*call->is_outside) return;
    std::atomic<int64_t> next(0);
    KernelRange* variant = rounds(*call->network) ? learn_rounding_variant() : learn_variant();
    Shared<Learn> shared = {call, &next, variant};
    run_items(threads, run_slots<Learn>, &shared, call->slots);
    sum_results(*call, threads);
}

extern "C" void puffer_network_train(const Learn* all, const LearnParts* parts, const KernelThreads* threads) {
    Learn call = *all;
    AdamParameter whole = {};
    whole.gradient = parts->gradient;
    whole.size = parts->gradient_size;
    memset(parts->sums, 0, PPO_METRICS * sizeof(float));
    for (int64_t part = 0; part < parts->parts; part++) {
        call.count = parts->counts[part];
        call.chunks = parts->chunks[part];
        if (call.count > 0) {
            if (parts->advantages != nullptr) {
                normalize(parts->advantages + (call.advantages - all->advantages), call.count * call.steps);
            }
            puffer_network_pack(call.network, threads);
            puffer_network_learn(&call, threads);
            if (*call.is_outside) return;
            for (int64_t i = 0; i < PPO_METRICS; i++) parts->sums[i] += call.metrics[i];
        } else {
            memset(parts->gradient, 0, parts->gradient_size * sizeof(float));
        }
        puffer_clip_gradients(&whole, 1, parts->max_norm);
        puffer_adam_step(parts->parameters, parts->num_parameters, parts->settings);
        move_on(call);
    }
}
