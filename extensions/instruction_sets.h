// instruction_sets.h - one kernel compiled for several instruction sets, the best chosen when it is first called.
//
// A kernel is a template over one of the structs below, which say how its products are cut (matmul.h), and all it calls
// is KERNEL_FN. KERNEL_VARIANTS(kernel, Context) makes a function of every variant and `KernelRange* kernel_variant()`.
// KERNEL_ROUNDING_VARIANT(kernel, Context) makes one more, whose products round their factors to bfloat16, and
// `KernelRange* kernel_rounding_variant()`, to be called where kernel_has_bfloat16(). KERNEL_SETS(DEFINE) defines a
// function for every set, DEFINE(attribute, Set): what is not to be inlined wherever it is called. KERNEL_ROUNDING_SETS
// does so for those that round.
#pragma once

#include "kernel.h"

// COUNT floats in a register; a tile of ROWS x VECTORS registers leaves some for the operands. ROUNDS where the factors
// of products are rounded to bfloat16, and Exact then is the set that does not.
struct Baseline {
    using Exact = Baseline;
    static constexpr bool ROUNDS = false;
#if defined(__aarch64__)
    enum { COUNT = 4, ROWS = 6, VECTORS = 4 };  // NEON, 32 registers
#else
    enum { COUNT = 4, ROWS = 4, VECTORS = 2 };  // SSE2, 16 registers
#endif
};

struct Avx2 {
    using Exact = Avx2;
    static constexpr bool ROUNDS = false;
    enum { COUNT = 8, ROWS = 6, VECTORS = 2 };  // 16 registers
};

struct Avx512 {
    using Exact = Avx512;
    static constexpr bool ROUNDS = false;
    enum { COUNT = 16, ROWS = 6, VECTORS = 4 };  // 32 registers
};

struct Avx512Bfloat16 : Avx512 {
    static constexpr bool ROUNDS = true;
};

// While one lives, its thread takes numbers below the smallest normal one for 0. On Intel's processors each of them
// costs as much as a hundred others, and a GELU of large inputs makes thousands.
struct FlushedDenormals {
#if defined(__x86_64__)
    enum : unsigned { RESULTS = 1u << 15, OPERANDS = 1u << 6 };
    unsigned before = __builtin_ia32_stmxcsr();
    FlushedDenormals() { __builtin_ia32_ldmxcsr(before | RESULTS | OPERANDS); }
    ~FlushedDenormals() { __builtin_ia32_ldmxcsr(before); }
#else
    FlushedDenormals() {}  // one that is used, to compilers
#endif
};

#define KERNEL_VARIANT(attribute, kernel, Context, Set)                               \
    attribute static void kernel##_##Set(int64_t begin, int64_t end, void* context) { \
        FlushedDenormals flushed;                                                     \
        kernel<Set>(*(const Context*)context, begin, end);                            \
    }

// KERNEL_BASELINE and KERNEL_NO_AVX512 leave the better ones out, for tests.
#if defined(__x86_64__) && !defined(KERNEL_BASELINE)
#define KERNEL_AVX512_SETS "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma"
#if defined(__clang__)
#define KERNEL_FULL_WIDTH(sets) __attribute__((target(sets), min_vector_width(512)))
#else  // GCC thinks the full width too costly for short loops
#define KERNEL_FULL_WIDTH(sets) __attribute__((target(sets ",prefer-vector-width=512")))
#endif
#define KERNEL_AVX512 KERNEL_FULL_WIDTH(KERNEL_AVX512_SETS)
#define KERNEL_AVX512_BFLOAT16 KERNEL_FULL_WIDTH(KERNEL_AVX512_SETS ",avx512bf16")
#define KERNEL_AVX2 __attribute__((target("avx2,fma")))

// KERNEL_NO_TILES leaves them out, for tests.
#if defined(__linux__) && !defined(KERNEL_NO_TILES) && (defined(__clang__) ? __clang_major__ >= 12 : __GNUC__ >= 11)
#define KERNEL_TILES
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

static inline bool kernel_has_avx512() {
#if defined(KERNEL_NO_AVX512)
    return false;
#endif
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
}

static inline bool kernel_has_bfloat16() { return kernel_has_avx512() && __builtin_cpu_supports("avx512bf16"); }

// Asks Linux for the tile registers of Intel's AMX, which a process may use from then on.
static inline bool kernel_take_tiles() {
#if defined(KERNEL_TILES)
    const unsigned int PRODUCTS = 1u << 22, TILES = 1u << 24;  // of bfloat16
    const long ASK = 0x1023, TILE_DATA = 18;                   // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    unsigned int a, b, c, d;
    bool has = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & PRODUCTS) && (d & TILES) && kernel_has_bfloat16();
    return has && syscall(SYS_arch_prctl, ASK, TILE_DATA) == 0;
#else
    return false;
#endif
}

static inline bool kernel_has_tiles() {
    static const bool has = kernel_take_tiles();
    return has;
}

static inline bool kernel_is_faster_in_bfloat16() {
    return kernel_has_tiles() || (kernel_has_bfloat16() && __builtin_cpu_is("amd"));
}

static inline bool kernel_has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

#define KERNEL_SETS(DEFINE)       \
    DEFINE(KERNEL_AVX512, Avx512) \
    DEFINE(KERNEL_AVX2, Avx2)     \
    DEFINE(, Baseline)

#define KERNEL_ROUNDING_SETS(DEFINE) DEFINE(KERNEL_AVX512_BFLOAT16, Avx512Bfloat16)

#define KERNEL_VARIANTS(kernel, Context)                              \
    KERNEL_VARIANT(KERNEL_AVX512, kernel, Context, Avx512)            \
    KERNEL_VARIANT(KERNEL_AVX2, kernel, Context, Avx2)                \
    KERNEL_VARIANT(, kernel, Context, Baseline)                       \
    static KernelRange* kernel##_variant() {                          \
        if (kernel_has_avx512()) return kernel##_Avx512;              \
        return kernel_has_avx2() ? kernel##_Avx2 : kernel##_Baseline; \
    }

#define KERNEL_ROUNDING_VARIANT(kernel, Context)                            \
    KERNEL_VARIANT(KERNEL_AVX512_BFLOAT16, kernel, Context, Avx512Bfloat16) \
    static KernelRange* kernel##_rounding_variant() { return kernel##_Avx512Bfloat16; }
#else
static inline bool kernel_has_bfloat16() { return false; }

static inline bool kernel_has_tiles() { return false; }

static inline bool kernel_is_faster_in_bfloat16() { return false; }

#define KERNEL_SETS(DEFINE) DEFINE(, Baseline)

#define KERNEL_ROUNDING_SETS(DEFINE)

#define KERNEL_VARIANTS(kernel, Context)        \
    KERNEL_VARIANT(, kernel, Context, Baseline) \
    static KernelRange* kernel##_variant() { return kernel##_Baseline; }

#define KERNEL_ROUNDING_VARIANT(kernel, Context) \
    static KernelRange* kernel##_rounding_variant() { return kernel##_variant(); }
#endif
