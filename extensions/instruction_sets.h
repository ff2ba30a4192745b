// instruction_sets.h - one kernel compiled for several instruction sets, the best chosen when it is first called.
//
// A kernel is a template over one of the structs below, which say how its products are cut (matmul.h), and all it calls
// is KERNEL_FN. KERNEL_VARIANTS(kernel, Context) makes a function of every variant and `KernelRange* kernel_variant()`.
#pragma once

#include "kernel.h"

// COUNT floats in a register; a tile of ROWS x VECTORS registers leaves some for the operands.
struct Baseline {
#if defined(__aarch64__)
    enum { COUNT = 4, ROWS = 6, VECTORS = 4 };  // NEON, 32 registers
#else
    enum { COUNT = 4, ROWS = 4, VECTORS = 2 };  // SSE2, 16 registers
#endif
};

struct Avx2 {
    enum { COUNT = 8, ROWS = 6, VECTORS = 2 };  // 16 registers
};

struct Avx512 {
    enum { COUNT = 16, ROWS = 6, VECTORS = 4 };  // 32 registers
};

#define KERNEL_VARIANT(attribute, kernel, Context, Set)                               \
    attribute static void kernel##_##Set(int64_t begin, int64_t end, void* context) { \
        kernel<Set>(*(const Context*)context, begin, end);                            \
    }

#if defined(__x86_64__)
#if defined(__clang__)
#define KERNEL_AVX512 __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma"), min_vector_width(512)))
#else  // GCC thinks the full width too costly for short loops
#define KERNEL_AVX512 __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma,prefer-vector-width=512")))
#endif
#define KERNEL_AVX2 __attribute__((target("avx2,fma")))

static inline bool kernel_has_avx512() {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
}

static inline bool kernel_has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

#define KERNEL_VARIANTS(kernel, Context)                              \
    KERNEL_VARIANT(KERNEL_AVX512, kernel, Context, Avx512)            \
    KERNEL_VARIANT(KERNEL_AVX2, kernel, Context, Avx2)                \
    KERNEL_VARIANT(, kernel, Context, Baseline)                       \
    static KernelRange* kernel##_variant() {                          \
        if (kernel_has_avx512()) return kernel##_Avx512;              \
        return kernel_has_avx2() ? kernel##_Avx2 : kernel##_Baseline; \
    }
#else
#define KERNEL_VARIANTS(kernel, Context)        \
    KERNEL_VARIANT(, kernel, Context, Baseline) \
    static KernelRange* kernel##_variant() { return kernel##_Baseline; }
#endif
