// warp.h - sums over the threads of a warp and of a block, for CUDA alone.
#pragma once

constexpr int WARP = 32;
constexpr unsigned ALL_LANES = 0xffffffffu;
constexpr int BLOCK = 1024;  // threads of those kernels that sum over a block

typedef struct {
    float first, second;
} Pair;

// The sum over the lanes of a warp, in its first lane.
static __device__ inline float sum_of_warp(float x) {
    for (int reach = WARP / 2; reach > 0; reach /= 2) x += __shfl_down_sync(ALL_LANES, x, reach);
    return x;
}

// Two sums over a block of BLOCK threads, for all of them; `of_warps` is shared, [BLOCK / WARP].
static __device__ inline Pair sum_of_block(Pair x, Pair* of_warps) {
    x.first = sum_of_warp(x.first);
    x.second = sum_of_warp(x.second);
    __syncthreads();  // all have read the sums before
    if (threadIdx.x % WARP == 0) of_warps[threadIdx.x / WARP] = x;
    __syncthreads();
    Pair sum = {0.0f, 0.0f};
    for (int i = 0; i < BLOCK / WARP; i++) {
        sum.first += of_warps[i].first;
        sum.second += of_warps[i].second;
    }
    return sum;
}
