// cuda_on_cpu.h - just enough of CUDA to run the kernels' own source on a CPU, for machines with no GPU.
//
// The threads of a block are coroutines, blocks follow one another. A lane that shuffles posts its value and steps
// aside; when it is its turn again every lane of its warp has posted. Posts alternate between two boards, because a
// lane may post its next value before its neighbour has read the last one. A thread that waits for its block steps
// aside until all others have come or ended. Shared memory is filled with NaN before each block, and so that a missing
// __syncthreads is not covered up by the order in which threads happen to run, every other block runs them backwards.
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#include <functional>
#include <utility>
#include <vector>

#define __CUDACC__
#define __global__
#define __device__
#define __host__
#define __shared__
#define __forceinline__ inline
#define __launch_bounds__(...)

struct Index {
    unsigned x, y;
};
static Index threadIdx, blockIdx, blockDim;

struct alignas(16) float4 {
    float x, y, z, w;
};

struct alignas(8) ushort4 {
    unsigned short x, y, z, w;
};

namespace cuda_on_cpu {

constexpr int WARP = 32;
constexpr int STACK_BYTES = 1 << 16;
constexpr size_t SHARED_BYTES = 227 * 1024;  // what a block may have on an H100

struct Lane {
    ucontext_t context;
    std::vector<char> stack = std::vector<char>(STACK_BYTES);
    Index thread;
    int num_posts, num_waits;
    bool is_running;
};

struct Boards {
    float values[2][WARP];
};

static std::vector<Lane> lanes;
static std::vector<Boards> boards;  // of each warp
static ucontext_t scheduler;
static int current;
static std::function<void()> body;

static void run_lane() {
    body();
    lanes[current].is_running = false;
}

static void step_aside() { swapcontext(&lanes[current].context, &scheduler); }

static void begin_lane(Lane& lane, unsigned thread) {
    lane.thread = {thread % blockDim.x, thread / blockDim.x};
    lane.num_posts = lane.num_waits = 0;
    lane.is_running = true;
    getcontext(&lane.context);
    lane.context.uc_stack.ss_sp = lane.stack.data();
    lane.context.uc_stack.ss_size = lane.stack.size();
    lane.context.uc_link = &scheduler;
    makecontext(&lane.context, run_lane, 0);
}

static void run_block(int num_threads, bool is_backward) {
    for (int i = 0; i < num_threads; i++) begin_lane(lanes[i], i);
    for (bool any_left = true; any_left;) {
        any_left = false;
        for (int i = 0; i < num_threads; i++) {
            current = is_backward ? num_threads - 1 - i : i;
            if (!lanes[current].is_running) continue;
            threadIdx = lanes[current].thread;
            swapcontext(&scheduler, &lanes[current].context);
            any_left |= lanes[current].is_running;
        }
    }
}

static float exchange(float value, int source) {
    int self = current % WARP;
    float* board = boards[current / WARP].values[lanes[current].num_posts++ % 2];
    board[self] = value;
    step_aside();
    return board[source < WARP ? source : self];
}

static bool is_awaited(int num_waits) {
    for (Lane& lane : lanes)
        if (lane.is_running && lane.num_waits < num_waits) return true;
    return false;
}

static void wait_for_block() {
    int num_waits = ++lanes[current].num_waits;
    while (is_awaited(num_waits)) step_aside();
}

// Whether a predicate holds for any thread of the block: all have read the last answer, all have cleared it, all have
// said theirs.
static bool is_any(bool predicate) {
    static bool found;
    wait_for_block();
    found = false;
    wait_for_block();
    found |= predicate;
    wait_for_block();
    return found;
}

template <class... Arguments, size_t... I>
void call(void (*kernel)(Arguments...), void** arguments, std::index_sequence<I...>) {
    kernel(*static_cast<Arguments*>(arguments[I])...);
}

// As cuLaunchKernel: arguments[i] points at the i-th argument.
template <class... Arguments>
void launch(void (*kernel)(Arguments...), unsigned grid, unsigned block_x, unsigned block_y, void** arguments,
            void* shared = nullptr) {
    body = [=] { call(kernel, arguments, std::index_sequence_for<Arguments...>()); };
    blockDim = {block_x, block_y};
    int num_threads = (int)(block_x * block_y);
    lanes.resize(num_threads);
    boards.resize((num_threads + WARP - 1) / WARP);
    for (unsigned block = 0; block < grid; block++) {
        blockIdx = {block, 0};
        if (shared != nullptr) memset(shared, 0xFF, SHARED_BYTES);
        run_block(num_threads, block % 2 == 1);
    }
}

}  // namespace cuda_on_cpu

static inline void __syncthreads() { cuda_on_cpu::wait_for_block(); }

static inline int __syncthreads_or(int predicate) { return cuda_on_cpu::is_any(predicate != 0); }

static inline float __shfl_sync(unsigned, float value, int source) { return cuda_on_cpu::exchange(value, source); }

static inline float __shfl_down_sync(unsigned, float value, int distance) {
    return cuda_on_cpu::exchange(value, cuda_on_cpu::current % cuda_on_cpu::WARP + distance);
}

// Lanes change only where they exchange or wait.
static inline unsigned atomicAdd(unsigned* place, unsigned number) {
    unsigned before = *place;
    *place += number;
    return before;
}

static inline int __ffsll(long long bits) { return __builtin_ffsll(bits); }
static inline int __clzll(long long bits) { return bits == 0 ? 64 : __builtin_clzll((unsigned long long)bits); }
