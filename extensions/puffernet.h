// puffernet.h - the policies of PufferLib in plain C: what `puffer export ENV --format c` writes computes with this.
//
// One header for GCC and Clang, C11 or C++17, that needs libc's math.h and nothing else. It allocates nothing and keeps
// nothing: weights are constants, and all that changes lies in one struct that the caller owns. Beside it comes a
// header with the weights of one policy, here that of breakout:
//
//     #include "breakout_policy.h"
//
//     static BreakoutPolicy policy;                      // large, so not on the stack
//     breakout_policy_begin(&policy, 42);                // 42 seeds what it samples; all agents begin an episode
//     for (;;) {
//         breakout_policy_act(&policy, observations, agents, actions, true);    // false: the likeliest actions
//         ... step the environments ...
//         if (episode_ended) breakout_policy_forget(&policy, agent);    // its recurrent state begins anew
//     }
//
// observations is [agents][BREAKOUT_POLICY_OBSERVATION] and actions [agents][BREAKOUT_POLICY_ACTION], row by row, at
// most BREAKOUT_POLICY_AGENTS of them: a number that may be defined before the include. After each call policy.logits
// and policy.values tell what the decision was made from, and one struct serves one thread.
//
// A policy of an environment with action masks takes them as policy.masks, [agents][CONNECT4_POLICY_CHOICES] bytes of
// yours, 0 for what an agent may not do now: set the pointer once, after _begin, and fill the bytes before each _act.
//
// Compile with -O3 -march=native: a product then uses whole vector registers. A row costs the least in company: agents
// that act together are computed in blocks of PUFFERNET_BLOCK, through all layers while they are in the cache.
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define PUFFERNET_FN static inline
#define PUFFERNET_INLINE static inline __attribute__((always_inline))  // for sizes that a compiler must know
#define PUFFERNET_TABLE __attribute__((aligned(64))) static const float

// Before a loop whose rounds do not depend on each other, whatever its pointers look like.
#if defined(__clang__) && (defined(__SSE2__) || defined(__ARM_NEON) || defined(__wasm_simd128__))
#define PUFFERNET_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__clang__)
#define PUFFERNET_INDEPENDENT  // without vector registers it would warn that it cannot
#else
#define PUFFERNET_INDEPENDENT _Pragma("GCC ivdep")
#endif

// Rows computed together: a multiple of PUFFERNET_ROWS is quick. A policy's scratch memory grows with it, so where one
// agent acts and memory is scarce, compile with -DPUFFERNET_BLOCK=1.
#ifndef PUFFERNET_BLOCK
#define PUFFERNET_BLOCK 48
#endif

// Rows in memory are this many floats apart, or a multiple, padded with what nobody reads; so are layers' outputs.
enum { PUFFERNET_LANES = 16 };

// -------------------------------------------------------------------------------------------------------- products
//
// A tile of the result, PUFFERNET_ROWS x PUFFERNET_VECTORS registers, stays in registers while the inner dimension
// runs: each step loads one row of weights, and one number of the input for each row of the tile.

#if defined(__AVX512F__)
enum { PUFFERNET_FLOATS = 16, PUFFERNET_ROWS = 6, PUFFERNET_VECTORS = 4 };  // floats in a register; of 32 registers
#elif defined(__AVX__)
enum { PUFFERNET_FLOATS = 8, PUFFERNET_ROWS = 6, PUFFERNET_VECTORS = 2 };  // of 16
#elif defined(__aarch64__)
enum { PUFFERNET_FLOATS = 4, PUFFERNET_ROWS = 6, PUFFERNET_VECTORS = 4 };  // of 32
#else
enum { PUFFERNET_FLOATS = 4, PUFFERNET_ROWS = 4, PUFFERNET_VECTORS = 2 };  // of 16
#endif

typedef float PuffernetVector __attribute__((vector_size(4 * PUFFERNET_FLOATS), aligned(4), may_alias));

// result = start + left * right; all pointers are borrowed.
typedef struct {
    const float* left;   // [rows, inner]
    int left_row;        // floats from one row to the next, as below
    const float* right;  // [inner, columns]
    const float* start;  // [rows, columns], or one row for all with start_row 0; may be the result itself
    int start_row;
    float* result;             // [rows, columns], rows `columns` apart
    int rows, inner, columns;  // columns: a multiple of PUFFERNET_LANES
} PuffernetProduct;

PUFFERNET_INLINE void puffernet_tile(const PuffernetProduct* product, int row, int column, int rows, int vectors) {
    PuffernetVector sums[PUFFERNET_ROWS][PUFFERNET_VECTORS];
    int inner = product->inner, columns = product->columns, left_row = product->left_row;
    const float* left = product->left + (size_t)row * (size_t)left_row;
    const float* right = product->right + column;
    for (int r = 0; r < rows; r++) {
        const float* start = product->start + (size_t)(row + r) * (size_t)product->start_row + column;
        for (int v = 0; v < vectors; v++) sums[r][v] = ((const PuffernetVector*)start)[v];
    }
    for (int k = 0; k < inner; k++) {
        const PuffernetVector* weights = (const PuffernetVector*)(right + (size_t)k * (size_t)columns);
        for (int r = 0; r < rows; r++) {
            float factor = left[(size_t)r * (size_t)left_row + (size_t)k];
            for (int v = 0; v < vectors; v++) sums[r][v] += factor * weights[v];
        }
    }
    for (int r = 0; r < rows; r++) {
        PuffernetVector* result = (PuffernetVector*)(product->result + (size_t)(row + r) * (size_t)columns + column);
        for (int v = 0; v < vectors; v++) result[v] = sums[r][v];
    }
}

PUFFERNET_INLINE void puffernet_columns(const PuffernetProduct* product, int column, int vectors) {
    int row = 0;
    for (; row + PUFFERNET_ROWS <= product->rows; row += PUFFERNET_ROWS) {
        puffernet_tile(product, row, column, PUFFERNET_ROWS, vectors);
    }
    for (; row + 2 <= product->rows; row += 2) puffernet_tile(product, row, column, 2, vectors);
    for (; row < product->rows; row++) puffernet_tile(product, row, column, 1, vectors);
}

PUFFERNET_FN void puffernet_multiply(const PuffernetProduct* product) {
    int column = 0;
    for (; column + PUFFERNET_FLOATS * PUFFERNET_VECTORS <= product->columns;) {
        puffernet_columns(product, column, PUFFERNET_VECTORS);
        column += PUFFERNET_FLOATS * PUFFERNET_VECTORS;
    }
    for (; column < product->columns; column += PUFFERNET_FLOATS) puffernet_columns(product, column, 1);
}

// ------------------------------------------------------------------------------------------------------- functions
//
// Without a branch or a call, so that loops over them become vector instructions.

// e^x for x <= 0, to a relative error of 2e-7; below -87 it stays at e^-87, 1.6e-38; NaN gives NaN.
//
// x = n ln 2 + r with n an integer and |r| <= ln(2) / 2. Adding 1.5 * 2^23 leaves n in the low bits of the sum, from
// where it goes straight into the exponent of 2^n. ln 2 has two parts, the first short enough that n times it is exact.
// e^r = 1 + r + r^2 q(r), where q is fitted for the least relative error, 3e-9.
PUFFERNET_FN float puffernet_exp(float x) {
    const float shifter = 12582912.0f;
    x = x < -87.0f ? -87.0f : x;
    float shifted = x * 1.44269504f + shifter;
    float n = shifted - shifter;
    float r = (x - n * 0.693145752f) - n * 1.42860677e-6f;
    float q = 0.00138145401f;
    q = q * r + 0.00836874520f;
    q = q * r + 0.0416683908f;
    q = q * r + 0.166665204f;
    q = q * r + 0.499999934f;
    float result = q * (r * r) + (r + 1.0f);
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof(bits));
    bits = (bits + 127u) << 23;  // the bits of the shifter itself fall out
    float power;
    memcpy(&power, &bits, sizeof(power));
    return result * power;
}

PUFFERNET_FN float puffernet_sigmoid(float x) {
    float small = puffernet_exp(-fabsf(x));
    float large = 1.0f / (1.0f + small);
    small *= large;
    return x < 0.0f ? small : large;
}

// tanh(|x|) = (1 - e^-2|x|) / (1 + e^-2|x|); near 0, where that difference cancels, the series x - x^3/3 + 2x^5/15.
PUFFERNET_FN float puffernet_tanh(float x) {
    float size = fabsf(x), square = x * x;
    float small = puffernet_exp(-2.0f * size);
    float far = (1.0f - small) / (1.0f + small);
    float near = size * (1.0f - square * (0.333333333f - square * 0.133333333f));
    return copysignf(size < 0.1f ? near : far, x);
}

// x * Phi(x), Phi the normal distribution function, by 7.1.26 of Abramowitz and Stegun: erf to 1.5e-7.
PUFFERNET_FN float puffernet_gelu(float x) {
    float bell = puffernet_exp(-0.5f * x * x);  // e^(-u^2) for u = |x| / sqrt(2)
    float t = 1.0f / (1.0f + 0.3275911f * 0.70710678f * fabsf(x));
    float sum = 1.061405429f;
    sum = sum * t - 1.453152027f;
    sum = sum * t + 1.421413741f;
    sum = sum * t - 0.284496736f;
    sum = sum * t + 0.254829592f;
    float tail = 0.5f * sum * t * bell;  // 1 - Phi(|x|)
    float rest = 1.0f - tail;
    return x * (x < 0.0f ? tail : rest);
}

// e^x - 1 for x < 0.
PUFFERNET_FN float puffernet_elu(float x) { return x > 0.0f ? x : puffernet_exp(x < 0.0f ? x : 0.0f) - 1.0f; }

// log(1 + e^x), without an e^x that is too large.
PUFFERNET_FN float puffernet_softplus(float x) { return (x > 0.0f ? x : 0.0f) + logf(1.0f + puffernet_exp(-fabsf(x))); }

// Hendrycks and Gimpel's approximation: x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2.
PUFFERNET_FN float puffernet_gelu_tanh(float x) {
    return 0.5f * x * (1.0f + puffernet_tanh(0.797884561f * (x + 0.044715f * x * x * x)));
}

typedef enum {
    PUFFERNET_IDENTITY,
    PUFFERNET_RELU,
    PUFFERNET_TANH,
    PUFFERNET_GELU,
    PUFFERNET_SIGMOID,
    PUFFERNET_SILU,
    PUFFERNET_ELU,
    PUFFERNET_LEAKY_RELU,
    PUFFERNET_SOFTPLUS,
    PUFFERNET_GELU_TANH
} PuffernetActivation;

PUFFERNET_FN void puffernet_activate(PuffernetActivation activation, float* values, int count) {
    if (activation == PUFFERNET_RELU) {
        for (int i = 0; i < count; i++) values[i] = values[i] > 0.0f ? values[i] : 0.0f;
    } else if (activation == PUFFERNET_TANH) {
        for (int i = 0; i < count; i++) values[i] = puffernet_tanh(values[i]);
    } else if (activation == PUFFERNET_GELU) {
        for (int i = 0; i < count; i++) values[i] = puffernet_gelu(values[i]);
    } else if (activation == PUFFERNET_SIGMOID) {
        for (int i = 0; i < count; i++) values[i] = puffernet_sigmoid(values[i]);
    } else if (activation == PUFFERNET_SILU) {
        for (int i = 0; i < count; i++) values[i] *= puffernet_sigmoid(values[i]);
    } else if (activation == PUFFERNET_ELU) {
        for (int i = 0; i < count; i++) values[i] = puffernet_elu(values[i]);
    } else if (activation == PUFFERNET_LEAKY_RELU) {
        for (int i = 0; i < count; i++) values[i] *= values[i] > 0.0f ? 1.0f : 0.01f;
    } else if (activation == PUFFERNET_SOFTPLUS) {
        for (int i = 0; i < count; i++) values[i] = puffernet_softplus(values[i]);
    } else if (activation == PUFFERNET_GELU_TANH) {
        for (int i = 0; i < count; i++) values[i] = puffernet_gelu_tanh(values[i]);
    }
}

// ---------------------------------------------------------------------------------------------------------- layers

// All pointers are borrowed.
typedef struct {
    int inputs, outputs;  // outputs: a multiple of PUFFERNET_LANES
    PuffernetActivation activation;
    const float* weights;  // [inputs, outputs]
    const float* bias;     // [outputs]
} PuffernetLinear;

// Inputs [rows, inputs] lie `input_row` floats apart, outputs [rows, outputs] follow each other.
PUFFERNET_FN void puffernet_linear(const PuffernetLinear* layer, const float* input, int input_row, float* output,
                                   int rows) {
    PuffernetProduct product = {input,  input_row, layer->weights, layer->bias,   0,
                                output, rows,      layer->inputs,  layer->outputs};
    puffernet_multiply(&product);
    puffernet_activate(layer->activation, output, rows * layer->outputs);
}

// A linear layer on categories: for each that a cell of an observation may hold, it has a row of weights.
typedef struct {
    int cells, outputs;  // outputs: a multiple of PUFFERNET_LANES
    PuffernetActivation activation;
    const float* weights;         // [categories of all cells, outputs]
    const float* bias;            // [outputs]
    const int32_t* lowest;        // [cells], the value that a cell's first row is for
    const int32_t* first_inputs;  // [cells + 1], where the rows of each begin, and where those of the last end
} PuffernetOneHot;

// The row of weights for a value; for one that is no category of the cell, that of the nearest.
PUFFERNET_FN int32_t puffernet_category(const PuffernetOneHot* layer, int cell, int64_t value) {
    int32_t first = layer->first_inputs[cell], last = layer->first_inputs[cell + 1] - 1;
    int64_t lowest = layer->lowest[cell], highest = lowest + (last - first);
    return value < lowest ? first : value > highest ? last : (int32_t)(first + (value - lowest));
}

PUFFERNET_INLINE void puffernet_gather(const PuffernetOneHot* layer, const int32_t* inputs, float* output, int column,
                                       int vectors) {
    PuffernetVector sums[PUFFERNET_VECTORS];
    for (int v = 0; v < vectors; v++) sums[v] = ((const PuffernetVector*)(layer->bias + column))[v];
    for (int cell = 0; cell < layer->cells; cell++) {
        const float* weights = layer->weights + (size_t)inputs[cell] * (size_t)layer->outputs + column;
        for (int v = 0; v < vectors; v++) sums[v] += ((const PuffernetVector*)weights)[v];
    }
    for (int v = 0; v < vectors; v++) ((PuffernetVector*)(output + column))[v] = sums[v];
}

// Inputs [rows, cells] are rows of weights; outputs [rows, outputs]. What a one-hot matrix would multiply by 0 is left.
PUFFERNET_FN void puffernet_one_hot(const PuffernetOneHot* layer, const int32_t* inputs, float* output, int rows) {
    for (int row = 0; row < rows; row++) {
        const int32_t* these = inputs + row * layer->cells;
        float* target = output + row * layer->outputs;
        int column = 0;
        for (; column + PUFFERNET_FLOATS * PUFFERNET_VECTORS <= layer->outputs;) {
            puffernet_gather(layer, these, target, column, PUFFERNET_VECTORS);
            column += PUFFERNET_FLOATS * PUFFERNET_VECTORS;
        }
        for (; column < layer->outputs; column += PUFFERNET_FLOATS) puffernet_gather(layer, these, target, column, 1);
    }
    puffernet_activate(layer->activation, output, rows * layer->outputs);
}

// Filters of size x size over an image [height, width, channels], without padding around it.
typedef struct {
    int height, width, channels;  // of the input
    int filters, size, stride;    // filters: a multiple of PUFFERNET_LANES
    PuffernetActivation activation;
    const float* weights;  // [size, size, channels, filters]
    const float* bias;     // [filters]
} PuffernetConvolution;

// Output [height, width, filters] of one image: a row of it is a product for each row of the filters.
PUFFERNET_FN void puffernet_convolution(const PuffernetConvolution* layer, const float* image, float* output) {
    int rows = (layer->height - layer->size) / layer->stride + 1;
    int columns = (layer->width - layer->size) / layer->stride + 1;
    int input_row = layer->width * layer->channels, output_row = columns * layer->filters;
    PuffernetProduct product;
    product.left_row = layer->stride * layer->channels;
    product.rows = columns;
    product.inner = layer->size * layer->channels;
    product.columns = layer->filters;
    for (int y = 0; y < rows; y++) {
        product.result = output + y * output_row;
        product.start = layer->bias;
        product.start_row = 0;
        for (int filter_row = 0; filter_row < layer->size; filter_row++) {
            product.left = image + (y * layer->stride + filter_row) * input_row;
            product.right = layer->weights + filter_row * product.inner * product.columns;
            puffernet_multiply(&product);
            product.start = product.result;
            product.start_row = product.columns;
        }
    }
    puffernet_activate(layer->activation, output, rows * output_row);
}

// Writes the image [height, width, channels] with `padding` pixels of zeros around it.
PUFFERNET_FN void puffernet_pad(const float* image, int height, int width, int channels, int padding, float* output) {
    int input_row = width * channels, output_row = (width + 2 * padding) * channels;
    memset(output, 0, (size_t)(height + 2 * padding) * (size_t)output_row * sizeof(float));
    for (int y = 0; y < height; y++) {
        float* row = output + (y + padding) * output_row + padding * channels;
        memcpy(row, image + y * input_row, (size_t)input_row * sizeof(float));
    }
}

// The largest number, or the mean, of windows of size x size over an image [height, width, channels], one after the
// other in `output`. What lies in the padding around it is never the largest, and zero in a mean.
PUFFERNET_FN void puffernet_pool(const float* image, int height, int width, int channels, int size, int stride,
                                 int padding, bool is_largest, float* output) {
    for (int top = -padding; top + size <= height + padding; top += stride) {
        for (int left = -padding; left + size <= width + padding; left += stride, output += channels) {
            for (int c = 0; c < channels; c++) output[c] = is_largest ? -3.40282347e38f : 0.0f;
            for (int y = top < 0 ? 0 : top; y < top + size && y < height; y++) {
                for (int x = left < 0 ? 0 : left; x < left + size && x < width; x++) {
                    const float* pixel = image + (y * width + x) * channels;
                    for (int c = 0; c < channels; c++) {
                        float larger = pixel[c] > output[c] ? pixel[c] : output[c];
                        output[c] = is_largest ? larger : output[c] + pixel[c] / (float)(size * size);
                    }
                }
            }
        }
    }
}

// The largest number, or the mean, of the entities [rows, entities, width], into [rows, width].
PUFFERNET_FN void puffernet_pool_entities(const float* input, int entities, int width, bool is_largest, float* output,
                                          int rows) {
    for (int row = 0; row < rows; row++, output += width) {
        for (int i = 0; i < width; i++) output[i] = is_largest ? -3.40282347e38f : 0.0f;
        for (int entity = 0; entity < entities; entity++, input += width) {
            for (int i = 0; i < width; i++) {
                float larger = input[i] > output[i] ? input[i] : output[i];
                output[i] = is_largest ? larger : output[i] + input[i] / (float)entities;
            }
        }
    }
}

// A row of numbers becomes entities of `count` numbers each, or the other way round: rows and entities lie `..._row`
// and
// `..._entity` floats apart.
PUFFERNET_FN void puffernet_arrange(const float* input, int input_row, int input_entity, float* output, int output_row,
                                    int output_entity, int count, int entities, int rows) {
    for (int row = 0; row < rows; row++) {
        for (int entity = 0; entity < entities; entity++) {
            const float* source = input + row * input_row + entity * input_entity;
            memcpy(output + row * output_row + entity * output_entity, source, (size_t)count * sizeof(float));
        }
    }
}

typedef struct {
    int heads, key_size, value_size;  // numbers of a head, which lie side by side in an entity
    int queries, keys;                // entities of a row
    float scale;
} PuffernetAttention;

PUFFERNET_FN int puffernet_padded(int count) {
    return (count + PUFFERNET_LANES - 1) / PUFFERNET_LANES * PUFFERNET_LANES;
}

// One query of one head: shares [keys] become softmax(scale q k^T), and their sum of v is added to the output.
PUFFERNET_FN void puffernet_attend(const PuffernetAttention* layer, const float* q, const float* k, const float* v,
                                   float* shares, float* output) {
    int key_width = puffernet_padded(layer->heads * layer->key_size);
    int value_width = puffernet_padded(layer->heads * layer->value_size);
    float largest = -3.40282347e38f, total = 0.0f;
    for (int key = 0; key < layer->keys; key++) {
        float sum = 0.0f;
        for (int i = 0; i < layer->key_size; i++) sum += q[i] * k[key * key_width + i];
        shares[key] = layer->scale * sum;
        largest = shares[key] > largest ? shares[key] : largest;
    }
    for (int key = 0; key < layer->keys; key++) total += shares[key] = puffernet_exp(shares[key] - largest);
    for (int key = 0; key < layer->keys; key++) {
        for (int i = 0; i < layer->value_size; i++) output[i] += shares[key] / total * v[key * value_width + i];
    }
}

// softmax(scale q k^T) v (Vaswani et al. 2017): q and the output are [rows, queries, width], k and v [rows, keys,
// width].
PUFFERNET_FN void puffernet_attention(const PuffernetAttention* layer, const float* q, const float* k, const float* v,
                                      float* shares, float* output, int rows) {
    int key_width = puffernet_padded(layer->heads * layer->key_size);
    int value_width = puffernet_padded(layer->heads * layer->value_size);
    memset(output, 0, (size_t)(rows * layer->queries * value_width) * sizeof(float));
    for (int row = 0; row < rows; row++, k += layer->keys * key_width, v += layer->keys * value_width) {
        for (int query = 0; query < layer->queries; query++, q += key_width, output += value_width) {
            for (int head = 0; head < layer->heads; head++) {
                int key_part = head * layer->key_size, value_part = head * layer->value_size;
                puffernet_attend(layer, q + key_part, k + key_part, v + value_part, shares, output + value_part);
            }
        }
    }
}

// What follows reads and writes the first `count` numbers of rows that lie `..._row` floats apart.

PUFFERNET_FN void puffernet_copy(const float* input, int input_row, float* output, int output_row, int count,
                                 int rows) {
    for (int row = 0; row < rows; row++) {
        memcpy(output + row * output_row, input + row * input_row, (size_t)count * sizeof(float));
    }
}

// factor * input + added.
PUFFERNET_FN void puffernet_affine(float factor, float added, const float* input, int input_row, float* output,
                                   int output_row, int count, int rows) {
    for (int row = 0; row < rows; row++) {
        const float* x = input + row * input_row;
        float* y = output + row * output_row;
        for (int i = 0; i < count; i++) y[i] = factor * x[i] + added;
    }
}

PUFFERNET_FN void puffernet_add(const float* left, int left_row, const float* right, int right_row, float* output,
                                int output_row, int count, int rows) {
    for (int row = 0; row < rows; row++) {
        const float *a = left + row * left_row, *b = right + row * right_row;
        float* sum = output + row * output_row;
        for (int i = 0; i < count; i++) sum[i] = a[i] + b[i];
    }
}

PUFFERNET_FN void puffernet_times(const float* left, int left_row, const float* right, int right_row, float* output,
                                  int output_row, int count, int rows) {
    for (int row = 0; row < rows; row++) {
        const float *a = left + row * left_row, *b = right + row * right_row;
        float* product = output + row * output_row;
        for (int i = 0; i < count; i++) product[i] = a[i] * b[i];
    }
}

// Over the root of the mean square, less the mean before where it `is_centered`; times weights [count] and plus bias
// [count], each of which may be NULL (Ba et al. 2016, Zhang and Sennrich 2019).
PUFFERNET_FN void puffernet_norm(const float* weights, const float* bias, float epsilon, bool is_centered,
                                 const float* input, int input_row, float* output, int output_row, int count,
                                 int rows) {
    for (int row = 0; row < rows; row++) {
        const float* x = input + row * input_row;
        float *y = output + row * output_row, sum = 0.0f, square = 0.0f;
        for (int i = 0; i < count; i++) sum += x[i];
        float mean = is_centered ? sum / (float)count : 0.0f;
        for (int i = 0; i < count; i++) square += (x[i] - mean) * (x[i] - mean);
        float scale = 1.0f / sqrtf(square / (float)count + epsilon);
        for (int i = 0; i < count; i++) y[i] = (x[i] - mean) * scale;
        for (int i = 0; i < count && weights != NULL; i++) y[i] *= weights[i];
        for (int i = 0; i < count && bias != NULL; i++) y[i] += bias[i];
    }
}

// h = (1 - z) h + z f(c) with z = sigmoid(g), and y = s h + (1 - s) x with s = sigmoid(p); the candidate c, the gate g
// and the highway p are one product of x (Feng et al. 2024, "Were RNNs All We Needed?"): blocks of `width` columns.
//
// x [rows, width] becomes y; state [rows, width] becomes the next one; scratch is [rows, 3 * width].
PUFFERNET_FN void puffernet_mingru(const PuffernetLinear* layer, float* x, float* state, float* scratch, int rows) {
    int width = layer->outputs / 3;
    puffernet_linear(layer, x, width, scratch, rows);
    for (int row = 0; row < rows; row++) {
        const float *candidate = scratch + row * 3 * width, *gate = candidate + width, *highway = gate + width;
        float *h = state + row * width, *y = x + row * width;
        PUFFERNET_INDEPENDENT
        for (int i = 0; i < width; i++) {
            float low = puffernet_sigmoid(candidate[i]), high = candidate[i] + 0.5f;
            float z = puffernet_sigmoid(gate[i]), s = puffernet_sigmoid(highway[i]);
            h[i] += z * ((candidate[i] >= 0.0f ? high : low) - h[i]);
            y[i] += s * (h[i] - y[i]);
        }
    }
}

// c = f c + i g and h = o tanh(c), of the products of x and h (Hochreiter and Schmidhuber 1997, Gers et al. 2000).
// Four blocks of `width` columns in both layers, i f g o; the bias is all in the first.
//
// x lies [rows, input_row]; hidden and memory [rows, width] become the next ones; scratch is [rows, 4 * width].
PUFFERNET_FN void puffernet_lstm(const PuffernetLinear* layer, const PuffernetLinear* recurrent, const float* x,
                                 int input_row, float* hidden, float* memory, float* scratch, int rows) {
    int width = layer->outputs / 4;
    puffernet_linear(layer, x, input_row, scratch, rows);
    PuffernetProduct product = {hidden,  width, recurrent->weights, scratch,           4 * width,
                                scratch, rows,  recurrent->inputs,  recurrent->outputs};
    puffernet_multiply(&product);
    for (int row = 0; row < rows; row++) {
        const float *input = scratch + row * 4 * width, *forget = input + width;
        const float *candidate = forget + width, *output = candidate + width;
        float *h = hidden + row * width, *c = memory + row * width;
        PUFFERNET_INDEPENDENT
        for (int i = 0; i < width; i++) {
            float kept = puffernet_sigmoid(forget[i]) * c[i];
            c[i] = kept + puffernet_sigmoid(input[i]) * puffernet_tanh(candidate[i]);
            h[i] = puffernet_sigmoid(output[i]) * puffernet_tanh(c[i]);
        }
    }
}

// h = (1 - z) n + z h with n = tanh(a + r b), of the products of x and h (Cho et al. 2014): blocks of `width` columns
// for r, z, and a or b.
//
// x lies [rows, input_row]; hidden [rows, width] becomes the next one; scratch is [rows, 6 * width].
PUFFERNET_FN void puffernet_gru(const PuffernetLinear* layer, const PuffernetLinear* recurrent, const float* x,
                                int input_row, float* hidden, float* scratch, int rows) {
    int width = layer->outputs / 3;
    float* memory = scratch + rows * 3 * width;
    puffernet_linear(layer, x, input_row, scratch, rows);
    puffernet_linear(recurrent, hidden, width, memory, rows);
    for (int row = 0; row < rows; row++) {
        const float *seen = scratch + row * 3 * width, *kept = memory + row * 3 * width;
        float* h = hidden + row * width;
        PUFFERNET_INDEPENDENT
        for (int i = 0; i < width; i++) {
            float reset = puffernet_sigmoid(seen[i] + kept[i]);
            float z = puffernet_sigmoid(seen[width + i] + kept[width + i]);
            float candidate = puffernet_tanh(seen[2 * width + i] + reset * kept[2 * width + i]);
            h[i] = candidate + z * (h[i] - candidate);
        }
    }
}

// Less the mean, times the scale, within +-clip; values [rows, count] in place.
PUFFERNET_FN void puffernet_normalize(const float* mean, const float* scale, float clip, float* values, int count,
                                      int rows) {
    for (int row = 0; row < rows; row++) {
        float* value = values + row * count;
        for (int i = 0; i < count; i++) {
            float scaled = (value[i] - mean[i]) * scale[i];
            scaled = scaled < -clip ? -clip : scaled;
            value[i] = scaled > clip ? clip : scaled;
        }
    }
}

// ------------------------------------------------------------------------------------------------------- decisions

// A PCG32 generator (XSH-RR variant, O'Neill 2014, pcg-random.org).
typedef struct {
    uint64_t state;
} PuffernetRandom;

// A seed's stream begins where the finaliser of SplitMix64 (Steele et al. 2014) takes it: near seeds are far apart.
PUFFERNET_FN PuffernetRandom puffernet_random(uint64_t seed) {
    PuffernetRandom random;
    uint64_t x = seed + 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    random.state = x ^ (x >> 31);
    return random;
}

// Uniform in [0, 1), 24 random bits.
PUFFERNET_FN float puffernet_uniform(PuffernetRandom* random) {
    uint64_t state = random->state;
    random->state = state * 6364136223846793005ull + 1442695040888963407ull;
    uint32_t shifted = (uint32_t)(((state >> 18) ^ state) >> 27), rotation = (uint32_t)(state >> 59);
    uint32_t number = (shifted >> rotation) | (shifted << ((32 - rotation) & 31));
    return (float)(number >> 8) * (1.0f / 16777216.0f);
}

// Standard normal, by Box and Muller (1958).
PUFFERNET_FN float puffernet_normal(PuffernetRandom* random) {
    float radius = sqrtf(-2.0f * logf(1.0f - puffernet_uniform(random)));
    return radius * cosf(6.28318531f * puffernet_uniform(random));
}

// The likeliest of `count` choices, the first where several are.
PUFFERNET_FN int puffernet_likeliest(const float* logits, int count) {
    int best = 0;
    for (int i = 1; i < count; i++) best = logits[i] > logits[best] ? i : best;
    return best;
}

// Makes the logits of what a mask does not allow, by zeros, those of no probability.
PUFFERNET_FN void puffernet_forbid(float* logits, const uint8_t* mask, int count) {
    for (int i = 0; i < count; i++) logits[i] = mask[i] ? logits[i] : -__builtin_inff();
}

// e^(logit - most), and 0 of what is forbidden.
PUFFERNET_FN float puffernet_share(float logit, float most) {
    return logit == -__builtin_inff() ? 0.0f : puffernet_exp(logit - most);
}

// Draws one of `count` choices with the probabilities softmax(logits); takes the likeliest where `random` is NULL.
//
// Inverse transform: the number of cumulative probabilities that lie at or below one uniform number. They are not
// divided by their sum, the number is multiplied by it: so it never leads past the last possible choice.
PUFFERNET_FN int puffernet_choose(PuffernetRandom* random, const float* logits, int count) {
    int best = puffernet_likeliest(logits, count), choice = 0;
    if (random == NULL) return best;
    float total = 0.0f, cumulative = 0.0f;
    for (int i = 0; i < count; i++) total += puffernet_share(logits[i], logits[best]);
    float drawn = puffernet_uniform(random) * total;
    for (int i = 0; i < count; i++) {
        cumulative += puffernet_share(logits[i], logits[best]);
        choice += cumulative <= drawn;
    }
    return choice < count ? choice : count - 1;
}

// Draws a number of a normal distribution; takes the mean where `random` is NULL.
PUFFERNET_FN float puffernet_number(PuffernetRandom* random, float mean, float deviation) {
    return random == NULL ? mean : mean + deviation * puffernet_normal(random);
}
