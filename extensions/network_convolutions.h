// network_convolutions.h - the convolutions of a chain, from an observation to the features that its encoder reads.
//
// CONVOLUTION_ROWS images go through all of them before the next ones. The columns of weights and of their gradients
// have the order of convolution_layer.h; those of the layer that reads the features have that of the last result.
#pragma once

#include "chain_memory.h"
#include "convolution_layer.h"
#include "packed_matrix.h"

enum { CONVOLUTION_ROWS = 8 };

KERNEL_FN bool chain_has_convolutions(const Chain& chain) { return chain.num_convolutions > 0; }

KERNEL_FN bool convolution_is_one_hot(const Chain& chain, int64_t layer) { return layer == 0 && chain.cells > 0; }

// Of an observation.
KERNEL_FN int64_t convolution_observation(const Chain& chain) {
    const Convolution& first = chain.convolutions[0];
    return chain.cells > 0 ? chain.cells : first.channels * first.height * first.width;
}

KERNEL_FN Patches convolution_patches(const Chain& chain, int64_t layer) {
    const Convolution& shape = chain.convolutions[layer];
    if (layer > 0) return patches_of_result(shape);
    int64_t numbers = convolution_observation(chain);
    int64_t row = chain.cells > 0 ? numbers : matmul_padded(numbers);
    return patches_of_observation(shape, row, numbers / (shape.height * shape.width));
}

// Columns of the weights.
KERNEL_FN int64_t convolution_inputs(const Chain& chain, int64_t layer) {
    const Convolution& shape = chain.convolutions[layer];
    if (convolution_is_one_hot(chain, layer))
        return patches_numbers(convolution_patches(chain, layer)) * shape.channels;
    return patches_numbers(convolution_patches(chain, layer));
}

KERNEL_FN const Convolution& convolution_last(const Chain& chain) {
    return chain.convolutions[chain.num_convolutions - 1];
}

struct ConvolutionsPacked {
    PackedWeights weights[CHAIN_MAX_LAYERS];  // of patches: [inputs, padded filters], [filters, padded inputs]
    float* bias[CHAIN_MAX_LAYERS];            // [padded filters]
    float* features;                          // [units, features], of the encoder's first layer
};

KERNEL_FN ConvolutionsPacked convolutions_packed(const Chain& chain, ChainMemory& memory) {
    ConvolutionsPacked packed = {};
    if (!chain_has_convolutions(chain)) return packed;
    for (int64_t i = 0; i < chain.num_convolutions; i++) {
        int64_t inputs = convolution_inputs(chain, i), filters = chain.convolutions[i].filters;
        int64_t padded_inputs = i > 0 ? matmul_padded(inputs) : 0;
        bool is_rounded = i > 0 && chain.products == PRODUCTS_BFLOAT16;
        packed.weights[i] = packed_take(inputs, padded_inputs, filters, matmul_padded(filters), is_rounded, memory);
        packed.bias[i] = memory.take(matmul_padded(filters));
    }
    packed.features = memory.take(chain.units * chain.inputs);
    return packed;
}

struct ConvolutionsGradients {
    float *weights[CHAIN_MAX_LAYERS], *bias[CHAIN_MAX_LAYERS];  // [filters, padded inputs], or of categories transposed
};

KERNEL_FN ConvolutionsGradients convolutions_gradients(const Chain& chain, ChainMemory& memory) {
    ConvolutionsGradients gradients = {};
    for (int64_t i = 0; i < chain.num_convolutions; i++) {
        int64_t inputs = convolution_inputs(chain, i), filters = chain.convolutions[i].filters;
        gradients.weights[i] = memory.take(matmul_padded(inputs) * matmul_padded(filters));
        gradients.bias[i] = memory.take(matmul_padded(filters));
    }
    return gradients;
}

struct ConvolutionsScratch {
    float* results[CHAIN_MAX_LAYERS];  // [rows, pixels, padded filters]; the last ones are the features
    float* copies;                     // of patches
    int32_t* column_copies;
    // For backward alone:
    float* grad_results[CHAIN_MAX_LAYERS];  // [CONVOLUTION_ROWS, pixels, padded filters], of the last one [rows, ...]
    float* grad_copies;
};

KERNEL_FN ConvolutionsScratch convolutions_scratch(const Chain& chain, int64_t rows, ChainMemory& memory) {
    ConvolutionsScratch scratch = {};
    int64_t most_numbers = 0;
    for (int64_t i = 0; i < chain.num_convolutions; i++) {
        int64_t outputs = convolution_outputs(chain.convolutions[i]), last = chain.num_convolutions - 1;
        int64_t numbers = patches_numbers(convolution_patches(chain, i));
        most_numbers = numbers > most_numbers ? numbers : most_numbers;
        scratch.results[i] = memory.take(rows * outputs);
        scratch.grad_results[i] = memory.take((i == last ? rows : (int64_t)CONVOLUTION_ROWS) * outputs);
    }
    int64_t copies = CONVOLUTION_PIXELS * matmul_padded(most_numbers);
    if (!chain_has_convolutions(chain)) return scratch;
    scratch.copies = memory.take(copies);
    scratch.column_copies = (int32_t*)memory.take(copies);
    scratch.grad_copies = memory.take(copies);
    return scratch;
}

// What the convolutions of a chain read: one of the two.
struct ConvolutionsSource {
    const float* observations;
    const int32_t* columns;
};

KERNEL_FN ConvolutionLayer convolution_layer(const Chain& chain, const ConvolutionsPacked& packed,
                                             const ConvolutionsScratch& scratch, const ConvolutionsSource& source,
                                             int64_t layer, int64_t row) {
    ConvolutionLayer result = {};
    result.patches = convolution_patches(chain, layer);
    int64_t offset = row * result.patches.image_row;
    if (convolution_is_one_hot(chain, layer)) {
        result.columns = source.columns + offset;
    } else {
        result.images = (layer > 0 ? scratch.results[layer - 1] : source.observations) + offset;
    }
    result.transposed = packed.weights[layer].forward.memory;
    result.bias = packed.bias[layer];
    result.copies = scratch.copies;
    result.column_copies = scratch.column_copies;
    result.results = scratch.results[layer] + row * convolution_outputs(chain.convolutions[layer]);
    return result;
}

template <class Set>
KERNEL_FN void convolutions_forward(const Chain& chain, const ConvolutionsPacked& packed,
                                    const ConvolutionsScratch& scratch, const ConvolutionsSource& source,
                                    int64_t rows) {
    for (int64_t row = 0; row < rows; row += CONVOLUTION_ROWS) {
        int64_t images = matmul_part(rows - row, CONVOLUTION_ROWS);
        for (int64_t i = 0; i < chain.num_convolutions; i++) {
            ConvolutionLayer layer = convolution_layer(chain, packed, scratch, source, i, row);
            if (i == 0) {
                convolution_forward<typename Set::Exact>(chain.convolutions[i], layer, images);
            } else {
                convolution_forward<Set>(chain.convolutions[i], layer, images);
            }
        }
    }
}

// From the gradient in the features, which is the last of scratch.grad_results.
template <class Set>
KERNEL_FN void convolutions_backward(const Chain& chain, const ConvolutionsPacked& packed,
                                     const ConvolutionsScratch& scratch, const ConvolutionsSource& source,
                                     const ConvolutionsGradients& gradients, int64_t rows) {
    int64_t last = chain.num_convolutions - 1;
    for (int64_t row = 0; row < rows; row += CONVOLUTION_ROWS) {
        int64_t images = matmul_part(rows - row, CONVOLUTION_ROWS);
        for (int64_t i = last; i >= 0; i--) {
            ConvolutionLayer layer = convolution_layer(chain, packed, scratch, source, i, row);
            ConvolutionGradient gradient = {};
            gradient.weights = packed.weights[i].backward.memory;
            gradient.grad_results = scratch.grad_results[i];
            if (i == last) gradient.grad_results += row * convolution_outputs(chain.convolutions[i]);
            gradient.grad_images = i > 0 ? scratch.grad_results[i - 1] : nullptr;
            gradient.grad_copies = scratch.grad_copies;
            gradient.grad_weights = gradients.weights[i];
            gradient.grad_bias = gradients.bias[i];
            if (i == 0) {
                convolution_backward<typename Set::Exact>(chain.convolutions[i], layer, gradient, images);
            } else {
                convolution_backward<Set>(chain.convolutions[i], layer, gradient, images);
            }
        }
    }
}

// Where the kernel has the weight that torch has at [channel][pixel of the filter].
KERNEL_FN int64_t convolution_column(const Chain& chain, int64_t layer, int64_t channel, int64_t pixel) {
    const Convolution& shape = chain.convolutions[layer];
    if (layer > 0) return pixel * matmul_padded(shape.channels) + channel;
    if (chain.cells == 0) return channel * shape.size * shape.size + pixel;
    return pixel * shape.channels + channel;
}

KERNEL_FN void convolution_pack(const Chain& chain, const ConvolutionsPacked& packed, int64_t layer) {
    const Convolution& shape = chain.convolutions[layer];
    int64_t area = shape.size * shape.size;
    const float *weights = chain.convolution_weights[layer], *bias = chain.convolution_biases[layer];
    packed_clear(packed.weights[layer]);
    memset(packed.bias[layer], 0, matmul_padded(shape.filters) * sizeof(float));
    if (bias != nullptr) memcpy(packed.bias[layer], bias, shape.filters * sizeof(float));
    for (int64_t channel = 0; channel < shape.channels; channel++) {
        for (int64_t pixel = 0; pixel < area; pixel++) {
            int64_t column = convolution_column(chain, layer, channel, pixel);
            for (int64_t filter = 0; filter < shape.filters; filter++) {
                float weight = weights[(filter * shape.channels + channel) * area + pixel];
                packed_set(packed.weights[layer], column, filter, weight);
            }
        }
    }
}

// Copies the parameters as they are now.
KERNEL_FN void convolutions_pack(const Chain& chain, const ConvolutionsPacked& packed) {
    for (int64_t i = 0; i < chain.num_convolutions; i++) convolution_pack(chain, packed, i);
    if (!chain_has_convolutions(chain)) return;
    const Convolution& last = convolution_last(chain);
    int64_t pixels = convolution_pixels(last), filters = matmul_padded(last.filters);
    memset(packed.features, 0, chain.units * chain.inputs * sizeof(float));
    for (int64_t i = 0; i < chain.units; i++) {
        const float* source = chain.weights[0] + i * last.filters * pixels;
        float* target = packed.features + i * chain.inputs;
        for (int64_t filter = 0; filter < last.filters; filter++) {
            for (int64_t pixel = 0; pixel < pixels; pixel++) target[pixel * filters + filter] = *source++;
        }
    }
}

KERNEL_FN void convolution_sum(const Chain& chain, const ConvolutionsGradients& gradients, const GradientChunks& chunks,
                               int64_t layer) {
    const Convolution& shape = chain.convolutions[layer];
    int64_t area = shape.size * shape.size, filters = matmul_padded(shape.filters);
    int64_t row = matmul_padded(convolution_inputs(chain, layer));
    bool is_transposed = convolution_is_one_hot(chain, layer);
    int64_t filter_row = is_transposed ? 1 : row, column_row = is_transposed ? filters : 1;
    float *sums = gradients.weights[layer], *result = chain.convolution_weight_results[layer];
    sum_chunks_in_place(chunks, sums, row * filters);
    for (int64_t filter = 0; filter < shape.filters; filter++) {
        for (int64_t channel = 0; channel < shape.channels; channel++) {
            for (int64_t pixel = 0; pixel < area; pixel++) {
                int64_t column = convolution_column(chain, layer, channel, pixel);
                *result++ = sums[filter * filter_row + column * column_row];
            }
        }
    }
    float* bias_result = chain.convolution_bias_results[layer];
    if (bias_result != nullptr) sum_chunks(chunks, gradients.bias[layer], 1, shape.filters, 0, bias_result);
}

// Writes the results from `gradients`, which are those of the first chunk, and those of the layer that reads the
// features from `features`, [width, features]; both are left with the sums.
KERNEL_FN void convolutions_sum(const Chain& chain, const ConvolutionsGradients& gradients, float* features,
                                const GradientChunks& chunks) {
    for (int64_t i = 0; i < chain.num_convolutions; i++) convolution_sum(chain, gradients, chunks, i);
    const Convolution& last = convolution_last(chain);
    int64_t pixels = convolution_pixels(last), filters = matmul_padded(last.filters);
    float* result = chain.weight_results[0];
    sum_chunks_in_place(chunks, features, chain.units * chain.inputs);
    for (int64_t i = 0; i < chain.units; i++) {
        for (int64_t filter = 0; filter < last.filters; filter++) {
            for (int64_t pixel = 0; pixel < pixels; pixel++) {
                *result++ = features[i * chain.inputs + pixel * filters + filter];
            }
        }
    }
}
