// kernel.h - what the row headers and the CPU kernels stand on.
//
// A `*_row.h` header holds the arithmetic of one recurrence and is compiled three ways: by the C++ compiler into the
// CPU library, by nvcc at build time, and by NVRTC at first use, for which cuda_sources.py has stdint.h.
#pragma once

#include <stdint.h>

#if defined(__CUDACC__)
#define KERNEL_FN static __host__ __device__ __forceinline__
#elif defined(KERNEL_OUTLINED) && (defined(KERNEL_BASELINE) || defined(__AVX512BF16__))
#define KERNEL_FN static inline  // for sanitizers, whose checks in a policy inlined whole take minutes to compile
#else
#define KERNEL_FN static inline __attribute__((always_inline))
#endif

// The same for member functions.
#if defined(KERNEL_OUTLINED) && (defined(KERNEL_BASELINE) || defined(__AVX512BF16__))
#define KERNEL_METHOD inline
#else
#define KERNEL_METHOD inline __attribute__((always_inline))
#endif

#if defined(__clang__)
#define INDEPENDENT_LANES _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT_LANES _Pragma("GCC ivdep")
#endif

// torch's own parallel loop, in its C ABI (torch_parallel_for, torch 2.10): its threads are awake where torch has just
// used them, so no second set of threads fights them for the cores. NULL runs the whole range on the calling thread.
typedef void KernelRange(int64_t begin, int64_t end, void* context);
typedef int32_t KernelParallelFor(int64_t begin, int64_t end, int64_t grain, KernelRange* range, void* context);

// The thread pool of cpu_library.py.
typedef void KernelTask(void* context, int begin, int end, int thread);
typedef void KernelRun(void* pool, KernelTask* task, void* context, int count);

#if !defined(__CUDACC_RTC__)
static inline void kernel_run(KernelParallelFor* parallel_for, int64_t count, int64_t grain, KernelRange* range,
                              void* context) {
    if (parallel_for == nullptr || parallel_for(0, count, grain, range, context) != 0) range(0, count, context);
}
#endif
