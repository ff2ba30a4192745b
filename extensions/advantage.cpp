// advantage.cpp - the advantage of every row on a CPU.
//
// Delta and decay depend on their own column only, so the compiler vectorises them along the row. What is left is a
// chain of one multiply-add per column, whose latency is hidden by running the chains of several rows side by side. A
// row is computed the same way wherever it falls, so the result does not depend on the number of threads.
#include "advantage_row.h"
#include "cpu_kernels.h"

namespace {

constexpr int ROWS = 4;                      // chains side by side: enough to cover the latency of a multiply-add
constexpr int COLUMNS = 64;                  // columns per pass: the scratch below stays in the first cache
constexpr int64_t GRAIN_ELEMENTS = 1 << 17;  // 0.1 ms: less work than this does not repay waking a thread

struct Advantage {
    const float *values, *rewards, *terminals, *ratio;  // [segments, columns], borrowed, as is the next one
    const float* present;                               // NULL where all agents are
    float* advantages;                                  // [segments, columns], borrowed
    int64_t segments, columns;
    AdvantageSettings settings;
};

struct Scratch {
    float delta[ROWS][COLUMNS], decay[ROWS][COLUMNS];
};

void prepare(const Advantage& call, int64_t offset, int count, float* __restrict delta, float* __restrict decay) {
    const float *values = call.values + offset, *rewards = call.rewards + offset;
    const float *terminals = call.terminals + offset, *ratio = call.ratio + offset;
    AdvantageSettings settings = call.settings;
    for (int t = 0; t < count; t++) {
        AdvantageStep step =
            advantage_step(settings, values[t], values[t + 1], rewards[t + 1], terminals[t + 1], ratio[t]);
        delta[t] = step.delta;
        decay[t] = step.decay;
    }
}

template <int NUM_ROWS>
void advantage_rows(const Advantage& call, int64_t first_row) {
    Scratch scratch;
    float carry[NUM_ROWS] = {};
    float* advantages = call.advantages + first_row * call.columns;
    for (int row = 0; row < NUM_ROWS; row++) advantages[(row + 1) * call.columns - 1] = 0.0f;
    for (int64_t end = call.columns - 1; end > 0; end -= COLUMNS) {
        int count = end < COLUMNS ? (int)end : COLUMNS;
        int64_t begin = end - count;
        for (int row = 0; row < NUM_ROWS; row++)
            prepare(call, (first_row + row) * call.columns + begin, count, scratch.delta[row], scratch.decay[row]);
        for (int t = count - 1; t >= 0; t--) {
            for (int row = 0; row < NUM_ROWS; row++) {
                carry[row] = scratch.delta[row][t] + scratch.decay[row][t] * carry[row];
                advantages[row * call.columns + begin + t] = carry[row];
            }
        }
    }
}

void advantage_row_of_absent(const Advantage& call, int64_t row) {
    int64_t offset = row * call.columns, last = offset + call.columns - 1;
    AdvantageCarry carry = advantage_last(call.values[last], call.present[last]);
    call.advantages[last] = 0.0f;
    for (int64_t t = last - 1; t >= offset; t--) {
        carry = advantage_carry(call.settings, carry, call.present[t], call.values[t], call.rewards[t + 1],
                                call.terminals[t + 1], call.ratio[t]);
        call.advantages[t] = carry.advantage;
    }
}

void advantage_range(int64_t begin, int64_t end, void* context) {
    const Advantage& call = *(const Advantage*)context;
    int64_t row = begin;
    for (; call.present != nullptr && row < end; row++) advantage_row_of_absent(call, row);
    for (; row + ROWS <= end; row += ROWS) advantage_rows<ROWS>(call, row);
    for (; row < end; row++) advantage_rows<1>(call, row);
}

}  // namespace

extern "C" void puffer_advantage(const float* values, const float* rewards, const float* terminals, const float* ratio,
                                 const float* present, float* advantages, int64_t segments, int64_t columns,
                                 float gamma, float gae_lambda, float rho_clip, float c_clip,
                                 KernelParallelFor* parallel_for) {
    Advantage call = {values,   rewards, terminals,
                      ratio,    present, advantages,
                      segments, columns, {gamma, gae_lambda, rho_clip, c_clip}};
    kernel_run(parallel_for, segments, GRAIN_ELEMENTS / columns + 1, advantage_range, &call);
}
