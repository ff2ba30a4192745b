// convolution_layer.h - a convolution, padded with zeros, and its ReLU if it has one, on a block of images, forward and
// backward.
//
// Filters are whole: one that is dilated, or sees a group of channels alone, has zeros in all other places.
//
// A number of the result is a product with a patch of the image. Patches are copied side by side, CONVOLUTION_PIXELS of
// them at a time, and while these are in the cache they are the rows of a linear layer: of numbers or, where the first
// convolution sees categories, of those. Their copies are not kept for backward, but made again.
//
// Images of results have their channels last, padded to a multiple of MATMUL_LANES with zeros, so that a line of a
// patch is one run in memory. Observations have them first, as environments write them.
#pragma once

#include "one_hot_layer.h"

enum { CONVOLUTION_PIXELS = 96 };  // of results, taken together

struct Convolution {
    int64_t channels, height, width;  // of what it reads; channels of an observation of categories are their planes
    int64_t filters;
    int64_t size_y, size_x, stride_y, stride_x;  // of a filter, zeros between its pixels included
    bool is_rectified;                           // whether a ReLU follows
    int64_t padding_y, padding_x;                // pixels of zeros around what it reads; none around categories
};

KERNEL_FN int64_t convolution_height(const Convolution& shape) {
    return (shape.height + 2 * shape.padding_y - shape.size_y) / shape.stride_y + 1;
}

KERNEL_FN int64_t convolution_width(const Convolution& shape) {
    return (shape.width + 2 * shape.padding_x - shape.size_x) / shape.stride_x + 1;
}

KERNEL_FN int64_t convolution_pixels(const Convolution& shape) {
    return convolution_height(shape) * convolution_width(shape);
}

KERNEL_FN bool convolution_is_padded(const Convolution& shape) { return shape.padding_y > 0 || shape.padding_x > 0; }

// Where the numbers of a patch lie, from that of its first pixel on.
typedef struct {
    int64_t image_row;              // from an image to the next
    int64_t step;                   // from a pixel to the one beside it
    int64_t line_row;               // from a line to the one below
    int64_t channels, channel_row;  // those that come first, and from one to the next; 1 where they come last
    int64_t size, run, pixel;       // lines, numbers of each, and of a pixel
    int64_t planes;                 // of categories: those of a pixel
} Patches;

KERNEL_FN int64_t patches_numbers(const Patches& patches) { return patches.channels * patches.size * patches.run; }

// Of an observation, whose numbers lie `image_row` after each other.
KERNEL_FN Patches patches_of_observation(const Convolution& shape, int64_t image_row, int64_t channels) {
    int64_t pixels = shape.height * shape.width;
    return {image_row, 1, shape.width, channels, pixels, shape.size_y, shape.size_x, 1, shape.channels};
}

// Of the result of another convolution.
KERNEL_FN Patches patches_of_result(const Convolution& shape) {
    int64_t channels = matmul_padded(shape.channels), line = shape.width * channels;
    return {shape.height * line, channels, line, 1, 0, shape.size_y, shape.size_x * channels, channels, 0};
}

// Goes over the patches of pixels of the result, image after image.
struct PatchPlace {
    int64_t image, y, x;

    void advance(const Convolution& shape) {
        if (++x < convolution_width(shape)) return;
        x = 0;
        if (++y < convolution_height(shape)) return;
        y = 0;
        image++;
    }

    // Of its first pixel, which may be one of the padding.
    int64_t offset(const Convolution& shape, const Patches& patches) const {
        int64_t line = y * shape.stride_y - shape.padding_y, column = x * shape.stride_x - shape.padding_x;
        return image * patches.image_row + line * patches.line_row + column * patches.step;
    }
};

KERNEL_FN PatchPlace patch_place(const Convolution& shape, int64_t pixel) {
    int64_t width = convolution_width(shape), pixels = convolution_pixels(shape);
    return {pixel / pixels, pixel % pixels / width, pixel % width};
}

// The pixels of a line of a patch that lie in the image, behind those of the padding.
typedef struct {
    int64_t before, inside;
} PatchLine;

KERNEL_FN PatchLine patch_line(const Convolution& shape, const PatchPlace& place, int64_t line) {
    int64_t y = place.y * shape.stride_y + line - shape.padding_y, x = place.x * shape.stride_x - shape.padding_x;
    if (y < 0 || y >= shape.height) return {0, 0};
    int64_t before = x < 0 ? -x : 0, end = matmul_part(shape.width - x, shape.size_x);
    return {before, end > before ? end - before : 0};
}

// All pointers are borrowed; images lie one after the other.
typedef struct {
    const float* images;     // or instead, in the first layer,
    const int32_t* columns;  // the plane of the category at every pixel
    Patches patches;
    const float* transposed;  // [numbers of a patch, padded filters], the weights
    const float* bias;        // [padded filters]
    float* copies;           // [CONVOLUTION_PIXELS, padded numbers of a patch], scratch for patches, or for categories:
    int32_t* column_copies;  // [CONVOLUTION_PIXELS, numbers of a patch]
    float* results;          // [images, pixels, padded filters]
} ConvolutionForward;

// As many floats as the runs of a patch are multiples of, or a short run has.
typedef float PatchRun __attribute__((vector_size(32), aligned(4), may_alias));

enum { PATCH_RUN = sizeof(PatchRun) / sizeof(float) };

KERNEL_FN void copy_patches(const Convolution& shape, const ConvolutionForward& layer, int64_t first, int64_t count) {
    const Patches& patches = layer.patches;
    int64_t numbers = patches_numbers(patches), row = matmul_padded(numbers), pixel = patches.pixel;
    PatchPlace place = patch_place(shape, first);
    for (int64_t i = 0; i < count; i++, place.advance(shape)) {
        const float* source = layer.images + place.offset(shape, patches);
        float* target = layer.copies + i * row;
        for (int64_t channel = 0; channel < patches.channels; channel++) {
            for (int64_t line = 0; line < patches.size; line++, target += patches.run) {
                const float* run = source + channel * patches.channel_row + line * patches.line_row;
                PatchLine inside = {0, shape.size_x};
                if (convolution_is_padded(shape)) {
                    inside = patch_line(shape, place, line);
                    memset(target, 0, patches.run * sizeof(float));
                } else if (patches.run % PATCH_RUN == 0) {
                    for (int64_t j = 0; j < patches.run; j += PATCH_RUN) {
                        *(PatchRun*)(target + j) = *(const PatchRun*)(run + j);
                    }
                    continue;
                }
                int64_t begin = inside.before * pixel, end = begin + inside.inside * pixel;
                INDEPENDENT_LANES
                for (int64_t j = begin; j < end; j++) target[j] = run[j];
            }
        }
        for (int64_t j = numbers; j < row; j++) *target++ = 0.0f;
    }
}

// The columns of the weights that are meant: those of a pixel of the patch lie together.
KERNEL_FN void copy_categories(const Convolution& shape, const ConvolutionForward& layer, int64_t first,
                               int64_t count) {
    const Patches& patches = layer.patches;
    PatchPlace place = patch_place(shape, first);
    int32_t *target = layer.column_copies, planes = (int32_t)patches.planes;
    for (int64_t i = 0; i < count; i++, place.advance(shape)) {
        const int32_t* source = layer.columns + place.offset(shape, patches);
        for (int64_t channel = 0; channel < patches.channels; channel++) {
            int32_t column = 0;
            for (int64_t line = 0; line < patches.size; line++) {
                const int32_t* run = source + channel * patches.channel_row + line * patches.line_row;
                for (int64_t j = 0; j < patches.run; j++, column += planes) *target++ = column + run[j];
            }
        }
    }
}

template <class Set>
KERNEL_FN void convolution_forward(const Convolution& shape, const ConvolutionForward& layer, int64_t images) {
    int64_t pixels = images * convolution_pixels(shape), numbers = patches_numbers(layer.patches);
    int64_t filters = matmul_padded(shape.filters);
    for (int64_t first = 0; first < pixels; first += CONVOLUTION_PIXELS) {
        int64_t count = matmul_part(pixels - first, CONVOLUTION_PIXELS);
        float* result = layer.results + first * filters;
        LinearForward product = {layer.copies, matmul_padded(numbers), layer.transposed, layer.bias, result, nullptr};
        if (layer.columns != nullptr) {
            copy_categories(shape, layer, first, count);
            one_hot_forward<Set>({layer.column_copies, count, numbers, filters}, product, ACTIVATION_LINEAR);
        } else {
            copy_patches(shape, layer, first, count);
            linear_forward<Set>(product, ACTIVATION_LINEAR, count, numbers, filters);
        }
        int64_t rectified = shape.is_rectified ? count * filters : 0;
        INDEPENDENT_LANES
        for (int64_t i = 0; i < rectified; i++) result[i] = result[i] < 0.0f ? 0.0f : result[i];  // NaN stays
    }
}

typedef struct {
    const float* weights;  // [filters, padded numbers of a patch]; not read without grad_images
    float* grad_results;   // [images, pixels, padded filters], becomes the gradient in what the ReLU saw
    float* grad_images;    // as images, or NULL where nobody wants it
    float* grad_copies;    // [CONVOLUTION_PIXELS, padded numbers of a patch], scratch
    float* grad_weights;   // [filters, padded numbers of a patch], added to; of categories as `transposed`
    float* grad_bias;      // [padded filters], added to
} ConvolutionBackward;

// Adds the gradient of patches to that of the images.
KERNEL_FN void add_patches(const Convolution& shape, const ConvolutionForward& layer,
                           const ConvolutionBackward& gradient, int64_t first, int64_t count) {
    const Patches& patches = layer.patches;
    int64_t row = matmul_padded(patches_numbers(patches)), pixel = patches.pixel;
    PatchPlace place = patch_place(shape, first);
    for (int64_t i = 0; i < count; i++, place.advance(shape)) {
        const float* source = gradient.grad_copies + i * row;
        float* target = gradient.grad_images + place.offset(shape, patches);
        for (int64_t line = 0; line < patches.size; line++, source += patches.run, target += patches.line_row) {
            PatchLine inside = {0, shape.size_x};
            if (convolution_is_padded(shape)) inside = patch_line(shape, place, line);
            int64_t begin = inside.before * pixel, end = begin + inside.inside * pixel;
            INDEPENDENT_LANES
            for (int64_t j = begin; j < end; j++) target[j] += source[j];
        }
    }
}

// After convolution_forward, from whose layer the images, their patches, the scratch memory and the results are read.
template <class Set>
KERNEL_FN void convolution_backward(const Convolution& shape, const ConvolutionForward& layer,
                                    const ConvolutionBackward& gradient, int64_t images) {
    int64_t pixels = images * convolution_pixels(shape), numbers = patches_numbers(layer.patches);
    int64_t filters = matmul_padded(shape.filters);
    if (gradient.grad_images != nullptr) {
        memset(gradient.grad_images, 0, images * layer.patches.image_row * sizeof(float));
    }
    for (int64_t first = 0; first < pixels; first += CONVOLUTION_PIXELS) {
        int64_t count = matmul_part(pixels - first, CONVOLUTION_PIXELS);
        const float* result = layer.results + first * filters;
        float* grad_result = gradient.grad_results + first * filters;
        int64_t rectified = shape.is_rectified ? count * filters : 0;
        INDEPENDENT_LANES
        for (int64_t i = 0; i < rectified; i++) grad_result[i] = result[i] > 0.0f ? grad_result[i] : 0.0f;
        LinearBackward product = {};
        product.input = layer.copies;
        product.input_row = matmul_padded(numbers);
        product.weights = gradient.weights;
        product.grad_output = grad_result;
        product.grad_row = filters;
        product.grad_input = gradient.grad_images == nullptr ? nullptr : gradient.grad_copies;
        product.grad_weights = gradient.grad_weights;
        product.grad_bias = gradient.grad_bias;
        if (layer.columns != nullptr) {
            copy_categories(shape, layer, first, count);
            one_hot_backward<Set>({layer.column_copies, count, numbers, filters}, product);
        } else {
            copy_patches(shape, layer, first, count);
            linear_backward<Set>(product, count, shape.filters);
        }
        if (gradient.grad_images != nullptr) add_patches(shape, layer, gradient, first, count);
    }
}

// sizes: channels, height and width of the input, filters; size, stride and padding, each down and to the right; then
// channels of the observation where it reads that, else 0, whether these are of categories, whether a ReLU follows, the
// dilation down and to the right, and groups. parameters: the weights [filters, channels of a group, size, size] and
// the bias [filters].
struct ConvolutionOp : LayerOp {
    Convolution shape;
    int64_t size_y, size_x, dilation_y, dilation_x, groups;
    int64_t observed;
    bool is_one_hot;
    Patches patches;
    int64_t inputs, row, filters;  // columns of the weights, as they are and padded; padded filters
    PackedWeights weights;
    float *bias, *grad_weights, *grad_bias;
    float *copies, *grad_copies;
    int32_t* column_copies;

    KERNEL_METHOD explicit ConvolutionOp(const Layer& description) : LayerOp(description) {
        const int64_t* sizes = layer.sizes;
        size_y = sizes[4], size_x = sizes[5];
        dilation_y = sizes[13], dilation_x = sizes[14];
        groups = sizes[15];
        int64_t whole_y = (size_y - 1) * dilation_y + 1, whole_x = (size_x - 1) * dilation_x + 1;
        shape = {sizes[0], sizes[1], sizes[2],       sizes[3], whole_y, whole_x,
                 sizes[6], sizes[7], sizes[12] != 0, sizes[8], sizes[9]};
        observed = sizes[10];
        is_one_hot = sizes[11] != 0;
        int64_t numbers = observed * shape.height * shape.width;
        int64_t image_row = is_one_hot ? numbers : matmul_padded(numbers);
        patches = observed > 0 ? patches_of_observation(shape, image_row, observed) : patches_of_result(shape);
        inputs = patches_numbers(patches) * (is_one_hot ? shape.channels : 1);
        row = matmul_padded(inputs);
        filters = matmul_padded(shape.filters);
    }

    KERNEL_METHOD void take_packed(LayerMemory& memory) {
        weights = packed_take(inputs, wants_gradient(0) ? row : 0, shape.filters, filters, is_rounded(), memory);
        bias = memory.take(filters);
    }

    KERNEL_METHOD void take_gradients(LayerMemory& memory) {
        grad_weights = memory.take(row * filters);  // transposed where the input is of categories
        grad_bias = memory.take(filters);
    }

    KERNEL_METHOD void take_scratch(const LayerRows&, LayerMemory& memory) {
        int64_t numbers = CONVOLUTION_PIXELS * matmul_padded(patches_numbers(patches));
        copies = memory.take(is_one_hot ? 0 : numbers);
        column_copies = (int32_t*)memory.take(is_one_hot ? numbers : 0);
        grad_copies = memory.take(wants_gradient(0) ? numbers : 0);
    }

    // The column of the weight that torch has at [channel of the filter's group][line][place].
    KERNEL_METHOD int64_t column(int64_t filter, int64_t of_group, int64_t line, int64_t place) const {
        int64_t pixel = line * dilation_y * shape.size_x + place * dilation_x;
        int64_t channel = filter / (shape.filters / groups) * (shape.channels / groups) + of_group;
        if (observed == 0) return pixel * matmul_padded(shape.channels) + channel;
        if (!is_one_hot) return channel * shape.size_y * shape.size_x + pixel;
        return pixel * shape.channels + channel;
    }

    // Calls `visit(filter, column)` for the weights in torch's order.
    template <class Visit>
    KERNEL_METHOD void each_weight(const Visit& visit) const {
        for (int64_t filter = 0; filter < shape.filters; filter++) {
            for (int64_t channel = 0; channel < shape.channels / groups; channel++) {
                for (int64_t line = 0; line < size_y; line++) {
                    for (int64_t place = 0; place < size_x; place++) {
                        visit(filter, column(filter, channel, line, place));
                    }
                }
            }
        }
    }

    KERNEL_METHOD void pack(const PackShare&) const {
        const float* source = layer.parameters[0];
        each_weight([&](int64_t filter, int64_t column) { packed_set(weights, column, filter, *source++); });
        memset(bias, 0, filters * sizeof(float));
        pack_bias(bias, layer.parameters[1], 1, shape.filters);
    }

    KERNEL_METHOD ConvolutionForward call(const LayerRows& rows) const {
        ConvolutionForward result = {};
        result.images = rows.inputs[0];
        result.columns = is_one_hot ? rows.columns : nullptr;
        result.patches = patches;
        result.transposed = weights.forward.memory;
        result.bias = bias;
        result.copies = copies;
        result.column_copies = column_copies;
        result.results = rows.output;
        return result;
    }

    template <class Set>
    KERNEL_METHOD void forward(const LayerRows& rows) const {
        convolution_forward<Set>(shape, call(rows), rows.count);
    }

    template <class Set>
    KERNEL_METHOD void backward(const LayerRows& rows) const {
        ConvolutionBackward gradient = {};
        gradient.weights = weights.backward.memory;
        gradient.grad_results = rows.grad_output;
        gradient.grad_images = rows.grad_inputs[0];
        gradient.grad_copies = grad_copies;
        gradient.grad_weights = grad_weights;
        gradient.grad_bias = grad_bias;
        convolution_backward<Set>(shape, call(rows), gradient, rows.count);
    }

    KERNEL_METHOD void write_gradients() const {
        int64_t filter_row = is_one_hot ? 1 : row, column_row = is_one_hot ? filters : 1;
        float* result = layer.results[0];
        if (result != nullptr) {
            each_weight([&](int64_t filter, int64_t column) {
                *result++ = grad_weights[filter * filter_row + column * column_row];
            });
        }
        copy_groups(grad_bias, 1, shape.filters, 1, 1, layer.results[1]);
    }
};
