// advantage.cu - the advantage of every row on a GPU, one warp per row.
//
// A step is the map x -> delta + decay * x, and such maps compose, so 32 columns are solved together in five exchanges
// within the warp, from the last column to the first, instead of one after the other. Neighbouring lanes read
// neighbouring columns, which needs no transposition and keeps memory at full width.
#include "advantage_row.h"
#include "warp.h"

// The map "lane first, then every lane up to `reach` behind it" grows until it reaches the end of the chunk.
static __device__ AdvantageStep compose_to_the_right(AdvantageStep step, int lane) {
    for (int reach = 1; reach < WARP; reach *= 2) {
        float delta = __shfl_down_sync(ALL_LANES, step.delta, reach);
        float decay = __shfl_down_sync(ALL_LANES, step.decay, reach);
        if (lane + reach < WARP) {
            step.delta += step.decay * delta;
            step.decay *= decay;
        }
    }
    return step;
}

// Arrays are contiguous [segments, columns]. Blocks are (32, rows per block) threads, and there are enough of them.
extern "C" __global__ void puffer_advantage(const float* values, const float* rewards, const float* terminals,
                                            const float* ratio, float* advantages, long long segments,
                                            long long columns, AdvantageSettings settings) {
    long long row = (long long)blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= segments) return;  // the whole warp leaves together
    int lane = (int)threadIdx.x;
    long long offset = row * columns;
    if (lane == 0) advantages[offset + columns - 1] = 0.0f;
    float carry = 0.0f;  // the advantage just behind the chunk
    for (long long end = columns - 1; end > 0; end -= WARP) {
        long long column = end - WARP + lane;
        AdvantageStep step = {0.0f, 1.0f};  // columns in front of the row: the identity
        if (column >= 0) {
            long long here = offset + column, next = here + 1;
            step = advantage_step(settings, values[here], values[next], rewards[next], terminals[next], ratio[here]);
        }
        step = compose_to_the_right(step, lane);
        float advantage = step.delta + step.decay * carry;
        if (column >= 0) advantages[offset + column] = advantage;
        carry = __shfl_sync(ALL_LANES, advantage, 0);
    }
}

// The same where agents are absent, see advantage_row.h: a thread for each row, as a step then depends on two numbers
// of the next one. `present` is [segments, columns].
extern "C" __global__ void puffer_advantage_of_absent(const float* values, const float* rewards, const float* terminals,
                                                      const float* ratio, const float* present, float* advantages,
                                                      long long segments, long long columns,
                                                      AdvantageSettings settings) {
    long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= segments) return;
    long long offset = row * columns, last = offset + columns - 1;
    AdvantageCarry carry = advantage_last(values[last], present[last]);
    advantages[last] = 0.0f;
    for (long long t = last - 1; t >= offset; t--) {
        carry = advantage_carry(settings, carry, present[t], values[t], rewards[t + 1], terminals[t + 1], ratio[t]);
        advantages[t] = carry.advantage;
    }
}
