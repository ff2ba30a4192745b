// cuda_on_cpu.h - just enough of CUDA to run the kernels' own source on a CPU, for machines with no GPU.
//
// The lanes of a warp are coroutines. A lane that shuffles posts its value and steps aside; when it is its turn again
// every lane of the warp has posted. Posts alternate between two boards, because a lane may post its next value before
// its neighbour has read the last one. Warps and blocks follow one another: there is no shared memory to share.
#pragma once

#include <math.h>
#include <stdint.h>
#include <ucontext.h>

#include <functional>
#include <utility>
#include <vector>

#define __CUDACC__
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline

struct Index {
    unsigned x, y;
};
static Index threadIdx, blockIdx, blockDim;

namespace cuda_on_cpu {

constexpr int WARP = 32;
constexpr int STACK_BYTES = 1 << 16;

struct Lane {
    ucontext_t context;
    std::vector<char> stack = std::vector<char>(STACK_BYTES);
    Index thread;
    int num_posts;
    bool is_running;
};

static Lane lanes[WARP];
static ucontext_t scheduler;
static float boards[2][WARP];
static int current;
static std::function<void()> body;

static void run_lane() {
    body();
    lanes[current].is_running = false;
}

static void run_warp(unsigned first_thread, int num_lanes) {
    for (int i = 0; i < num_lanes; i++) {
        Lane& lane = lanes[i];
        unsigned thread = first_thread + i;
        lane.thread = {thread % blockDim.x, thread / blockDim.x};
        lane.num_posts = 0;
        lane.is_running = true;
        getcontext(&lane.context);
        lane.context.uc_stack.ss_sp = lane.stack.data();
        lane.context.uc_stack.ss_size = lane.stack.size();
        lane.context.uc_link = &scheduler;
        makecontext(&lane.context, run_lane, 0);
    }
    for (bool any_left = true; any_left;) {
        any_left = false;
        for (current = 0; current < num_lanes; current++) {
            if (!lanes[current].is_running) continue;
            threadIdx = lanes[current].thread;
            swapcontext(&scheduler, &lanes[current].context);
            any_left |= lanes[current].is_running;
        }
    }
}

static float exchange(float value, int source) {
    int self = current;
    float* board = boards[lanes[self].num_posts++ % 2];
    board[self] = value;
    swapcontext(&lanes[self].context, &scheduler);
    return board[source < WARP ? source : self];
}

template <class... Arguments, size_t... I>
void call(void (*kernel)(Arguments...), void** arguments, std::index_sequence<I...>) {
    kernel(*static_cast<Arguments*>(arguments[I])...);
}

// As cuLaunchKernel: arguments[i] points at the i-th argument.
template <class... Arguments>
void launch(void (*kernel)(Arguments...), unsigned grid, unsigned block_x, unsigned block_y, void** arguments) {
    body = [=] { call(kernel, arguments, std::index_sequence_for<Arguments...>()); };
    blockDim = {block_x, block_y};
    unsigned num_threads = block_x * block_y;
    for (unsigned block = 0; block < grid; block++) {
        blockIdx = {block, 0};
        for (unsigned first = 0; first < num_threads; first += WARP)
            run_warp(first, num_threads - first < WARP ? (int)(num_threads - first) : WARP);
    }
}

}  // namespace cuda_on_cpu

static inline float __shfl_sync(unsigned, float value, int source) { return cuda_on_cpu::exchange(value, source); }

static inline float __shfl_down_sync(unsigned, float value, int distance) {
    return cuda_on_cpu::exchange(value, cuda_on_cpu::current + distance);
}

static inline int __ffsll(long long bits) { return __builtin_ffsll(bits); }
