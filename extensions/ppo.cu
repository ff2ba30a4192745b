// ppo.cu - what an update of PPO computes beside the policy and the optimizer: it draws the segments of a minibatch
// and differentiates the loss. See pufferlib/ppo/advantages.py and losses.py, which are two hundred small kernels.
#include "ppo_row.h"
#include "warp.h"

// Of each segment its priority, (sum |A|)^alpha, and the mean of its advantages with the sum of their squared distances
// from it. `advantages` are [segments][columns], the last column is no step. A warp for each segment.
extern "C" __global__ void puffer_segments(const float* advantages, float* priorities, float* means, float* squares,
                                           long long segments, long long columns, float alpha) {
    long long segment = (long long)blockIdx.x * blockDim.y + threadIdx.y;
    if (segment >= segments) return;  // the whole warp leaves together
    const float* row = advantages + segment * columns;
    long long steps = columns - 1;
    float size = 0.0f, sum = 0.0f, square = 0.0f;
    for (long long step = threadIdx.x; step < steps; step += WARP) {
        size += fabsf(row[step]);
        sum += row[step];
    }
    size = sum_of_warp(size);
    float mean = __shfl_sync(ALL_LANES, sum_of_warp(sum), 0) / (float)steps;
    for (long long step = threadIdx.x; step < steps; step += WARP) square += (row[step] - mean) * (row[step] - mean);
    square = sum_of_warp(square);
    if (threadIdx.x != 0) return;
    float priority = powf(size, alpha);
    priorities[segment] = priority - priority == 0.0f ? priority : 0.0f;  // NaN and infinity have none
    means[segment] = mean;
    squares[segment] = square;
}

typedef struct {
    Pair of_warps[BLOCK / WARP];
    unsigned long long sums[BLOCK];
    unsigned bins[256];
    unsigned found_bin;
    unsigned long long found_before;
} DrawMemory;

// The sum of the numbers of all threads before this one.
static __device__ unsigned long long sum_before(unsigned long long x, unsigned long long* sums) {
    unsigned thread = threadIdx.x;
    __syncthreads();  // all have read the sums before
    sums[thread] = x;
    __syncthreads();
    for (unsigned reach = 1; reach < BLOCK; reach *= 2) {
        unsigned long long before = thread >= reach ? sums[thread - reach] : 0;
        __syncthreads();
        sums[thread] += before;
        __syncthreads();
    }
    return sums[thread] - x;
}

static __device__ unsigned bits_of(float x) {  // in the order of the numbers, which are not negative
    unsigned bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

// Finds the `wanted`th smallest clock, counted from 1: eight bits at a time, by how many clocks have which. Returns its
// bits; `wanted` becomes how many of those with the same bits are among the smallest.
static __device__ unsigned find_smallest(const float* clocks, long long count, unsigned long long* wanted,
                                         DrawMemory* memory) {
    unsigned found = 0, decided = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        if (threadIdx.x < 256) memory->bins[threadIdx.x] = 0;
        __syncthreads();
        for (long long i = threadIdx.x; i < count; i += BLOCK) {
            unsigned bits = bits_of(clocks[i]);
            if ((bits & decided) == found) atomicAdd(&memory->bins[bits >> shift & 255], 1u);
        }
        __syncthreads();
        unsigned long long here = threadIdx.x < 256 ? memory->bins[threadIdx.x] : 0;
        unsigned long long before = sum_before(here, memory->sums);
        if (before < *wanted && *wanted <= before + here) {
            memory->found_bin = threadIdx.x;
            memory->found_before = before;
        }
        __syncthreads();
        found |= memory->found_bin << shift;
        decided |= 255u << shift;
        *wanted -= memory->found_before;
    }
    return found;
}

// The time by which `count` clocks are expected to have rung, see inclusion_probabilities in advantages.py.
static __device__ float find_time(const float* priorities, float scale, long long segments, long long count,
                                  DrawMemory* memory) {
    float left = (float)(segments - count), time = (float)segments * logf((float)segments / left);
    for (int newton = 0; newton < 8; newton++) {
        Pair sums = {0.0f, 0.0f};
        for (long long i = threadIdx.x; i < segments; i += BLOCK) {
            float rate = (priorities[i] + 1e-6f) * scale, late = expf(-rate * time) / left;
            sums.first += late;
            sums.second += rate * late;
        }
        sums = sum_of_block(sums, memory->of_warps);
        time += sums.first * logf(sums.first) / sums.second;
    }
    return time;
}

// Draws `count` distinct segments by their priorities, in the order of their numbers: those whose clocks ring first.
// `clocks` are exponential random numbers, and worked in. `importance`, NULL where it is not wanted, gets the weights
// that make up for uneven draws; `moments` the mean of all advantages of the segments drawn, and what divides them.
extern "C" __global__ void __launch_bounds__(BLOCK)
    puffer_draw(const float* priorities, const float* means, const float* squares, float* clocks, const float* beta,
                long long* rows, float* importance, float* moments, long long segments, long long count,
                long long steps) {
    __shared__ DrawMemory memory;
    int thread = threadIdx.x;
    Pair sum = {0.0f, 0.0f};
    for (long long i = thread; i < segments; i += BLOCK) sum.first += priorities[i] + 1e-6f;
    float scale = 1.0f / sum_of_block(sum, memory.of_warps).first;
    for (long long i = thread; i < segments; i += BLOCK) clocks[i] /= (priorities[i] + 1e-6f) * scale;
    __syncthreads();

    unsigned long long num_last = count;
    unsigned last = find_smallest(clocks, segments, &num_last, &memory);
    long long share = (segments + BLOCK - 1) / BLOCK, begin = thread * share;
    long long end = begin + share < segments ? begin + share : segments;
    unsigned long long before = 0;  // earlier clocks in the lower half, those that ring with the last in the upper
    for (long long i = begin; i < end; i++) {
        unsigned bits = bits_of(clocks[i]);
        before += bits < last ? 1ull : bits == last ? 1ull << 32 : 0ull;
    }
    before = sum_before(before, memory.sums);
    unsigned long long num_earlier = before & 0xffffffffull, num_same = before >> 32;
    for (long long i = begin; i < end; i++) {
        unsigned bits = bits_of(clocks[i]);
        if (bits < last || (bits == last && num_same < num_last))
            rows[num_earlier + (num_same < num_last ? num_same : num_last)] = i;
        num_earlier += bits < last;
        num_same += bits == last;
    }

    float time = importance == nullptr ? 0.0f : find_time(priorities, scale, segments, count, &memory);
    __syncthreads();  // all rows are written
    sum.first = 0.0f;
    for (long long i = thread; i < count; i += BLOCK) {
        long long row = rows[i];
        sum.first += means[row];
        if (importance == nullptr) continue;
        float inclusion = -expm1f(-(priorities[row] + 1e-6f) * scale * time);
        importance[i] = powf(inclusion * ((float)segments / (float)count), -*beta);
    }
    float center = sum_of_block(sum, memory.of_warps).first / (float)count;
    sum.first = 0.0f;
    for (long long i = thread; i < count; i += BLOCK) {
        float distance = means[rows[i]] - center;
        sum.first += squares[rows[i]] + (float)steps * distance * distance;
    }
    float variance = sum_of_block(sum, memory.of_warps).first / ((float)count * (float)steps);
    if (thread != 0) return;
    moments[0] = center;
    moments[1] = sqrtf(variance) + 1e-8f;
}

// The steps of the segments drawn, [count][steps], a thread for each: where episodes begin, values, returns, and the
// advantages ready for the loss. `importance` and `moments` are of puffer_draw, NULL where they do not count.
extern "C" __global__ void puffer_gather(const long long* rows, const float* importance, const float* moments,
                                         const float* advantages, const float* values, const unsigned char* resets,
                                         unsigned char* chosen_resets, float* old_values, float* returns, float* ready,
                                         long long count, long long steps) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count * steps) return;
    long long row = rows[i / steps], cell = row * steps + i % steps, cell_of_columns = cell + row;
    float advantage = advantages[cell_of_columns], value = values[cell_of_columns];
    chosen_resets[i] = resets[cell];
    old_values[i] = value;
    returns[i] = advantage + value;
    if (moments != nullptr) advantage = (advantage - moments[0]) / moments[1];
    ready[i] = importance == nullptr ? advantage : advantage * importance[i / steps];
}

// BEGIN DECLARATIONS

// What the loss of a minibatch takes and gives but for its decisions: see Minibatch and Rollout.
struct PpoBatch {
    const float* outputs;  // [count][width]: logits or means, and then the value
    float* gradients;      // likewise, results
    const int64_t* rows;   // [count / horizon] of the rollout
    const float* old_logprobs;
    const float *old_values, *advantages, *returns, *weights;  // of the steps; weights NULL where all count alike
    float *ratios, *values;                                    // of the rollout, results
    float* sums;  // [warps][PPO_METRICS], results: metrics, whose sums are the means over the minibatch
    int64_t width, count, horizon;
};

// END DECLARATIONS

typedef struct {
    bool is_here;
    long long index, row, cell;  // of the minibatch, of the rollout, and of [segments][horizon]
    float* outputs;              // which become their gradients
} PpoPlace;

static __device__ inline PpoPlace ppo_place(const PpoBatch& batch) {
    PpoPlace place = {};
    place.index = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    place.is_here = place.index < batch.count;
    if (!place.is_here) return place;
    place.row = batch.rows[place.index / batch.horizon];
    place.cell = place.row * batch.horizon + place.index % batch.horizon;
    place.outputs = batch.gradients + place.index * batch.width;
    for (long long i = 0; i < batch.width; i++) place.outputs[i] = batch.outputs[place.index * batch.width + i];
    return place;
}

static __device__ inline PpoDecision ppo_lose(const PpoBatch& batch, const PpoPlace& place, PpoDecision decision,
                                              const PpoCoefficients& coefficients, float share, double* metrics) {
    float* value = place.outputs + batch.width - 1;
    long long i = place.index;
    PpoStep step = {};
    step.logprob = decision.logprob;
    step.entropy = decision.entropy;
    step.value = *value;
    step.old_logprob = batch.old_logprobs[place.cell];
    step.old_value = batch.old_values[i];
    step.advantage = batch.advantages[i];
    step.ret = batch.returns[i];
    step.weight = batch.weights == nullptr ? share : share * batch.weights[i];
    PpoGradient gradient = ppo_differentiate(coefficients, &step, metrics);
    batch.ratios[place.cell + place.row] = step.ratio;
    batch.values[place.cell + place.row] = step.value;
    *value = gradient.value;
    return gradient.decision;
}

static __device__ inline void ppo_sum(const PpoBatch& batch, const double* metrics) {
    long long warp = ((long long)blockIdx.x * blockDim.x + threadIdx.x) / WARP;
    for (int i = 0; i < PPO_METRICS; i++) {
        float sum = sum_of_warp((float)metrics[i]);
        if (threadIdx.x % WARP == 0) batch.sums[warp * PPO_METRICS + i] = sum;
    }
}

// Decisions that are choices. `actions` are [segments][horizon][num_parts] of the rollout; `share` of a step is one
// over their number in the whole minibatch.
extern "C" __global__ void puffer_ppo_choices(const int32_t* actions, const int64_t* part_sizes, long long num_parts,
                                              PpoBatch batch, PpoCoefficients coefficients, float share) {
    double metrics[PPO_METRICS] = {0.0};
    PpoPlace place = ppo_place(batch);
    if (place.is_here) {
        const int32_t* chosen = actions + place.cell * num_parts;
        PpoDecision decision = ppo_evaluate_choices(part_sizes, num_parts, chosen, place.outputs);
        PpoDecision gradient = ppo_lose(batch, place, decision, coefficients, share, metrics);
        ppo_differentiate_choices(part_sizes, num_parts, chosen, gradient, place.outputs);
    }
    ppo_sum(batch, metrics);
}

// Decisions that are numbers of normal distributions. `deviations` are [2][num_parts], their logarithms first;
// `grad_log_deviations`, [steps][num_parts], is to be summed over the steps.
extern "C" __global__ void puffer_ppo_numbers(const float* actions, const float* deviations, float* grad_log_deviations,
                                              long long num_parts, PpoBatch batch, PpoCoefficients coefficients,
                                              float share) {
    double metrics[PPO_METRICS] = {0.0};
    PpoPlace place = ppo_place(batch);
    if (place.is_here) {
        const float* chosen = actions + place.cell * num_parts;
        float* grad_deviations = grad_log_deviations + place.index * num_parts;
        for (long long i = 0; i < num_parts; i++) grad_deviations[i] = 0.0f;
        PpoNormal normal = {num_parts, deviations, deviations + num_parts};
        PpoDecision decision = ppo_evaluate_normal(normal, chosen, place.outputs);
        PpoDecision gradient = ppo_lose(batch, place, decision, coefficients, share, metrics);
        ppo_differentiate_normal(normal, chosen, gradient, place.outputs, grad_deviations);
    }
    ppo_sum(batch, metrics);
}
