// matmul.cpp - one product by itself.
#include "matmul.h"

#include <vector>

#include "packed_matrix.h"

namespace {

struct Multiply {
    Matmul product;
    bool is_packed;
};

template <class Set>
KERNEL_FN void multiply(const Multiply& call, int64_t, int64_t) {
    if (call.is_packed) {
        matmul_packed<Set, true>(call.product);
    } else {
        matmul<Set, true>(call.product);
    }
}

KERNEL_VARIANTS(multiply, Multiply)
KERNEL_ROUNDING_VARIANT(multiply, Multiply)

}  // namespace

extern "C" void puffer_multiply(const float* left, int64_t left_row, int64_t left_inner, const float* right,
                                float* result, int64_t rows, int64_t columns, int64_t inner, int64_t products,
                                int64_t is_packed) {
    bool is_rounded = products == PRODUCTS_BFLOAT16;
    std::vector<float> memory(packed_size(inner, columns));
    PackedMatrix packed = {memory.data(), inner, columns, is_rounded};
    for (int64_t k = 0; k < inner; k++) {
        for (int64_t i = 0; i < columns; i++) packed_set(packed, k, i, right[k * columns + i]);
    }
    const float* factors = is_packed ? packed.memory : right;
    Multiply call = {{left, left_row, left_inner, factors, columns, result, columns, rows, columns, inner},
                     is_packed != 0};
    (is_rounded ? multiply_rounding_variant() : multiply_variant())(0, 1, &call);
}

extern "C" void puffer_has_bfloat16(int32_t* result, int32_t* is_faster) {
    *result = kernel_has_bfloat16();
    *is_faster = kernel_is_faster_in_bfloat16();
}
