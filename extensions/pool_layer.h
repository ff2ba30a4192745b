// pool_layer.h - the largest number or the mean of windows of an image, forward and backward.
//
// Windows reach into the padding: its pixels are never the largest, and count as zeros for a mean.
#pragma once

#include "convolution_layer.h"

// sizes: channels, height and width of the input; size, stride and padding of the windows, each down and to the right;
// and whether the largest is taken, else the mean.
struct PoolOp : LayerOp {
    static constexpr bool HAS_PRODUCTS = false;
    Convolution shape;
    bool is_largest;
    int64_t channels, pixels;  // channels padded; pixels of the result
    int32_t* places;           // [count, row], the pixel of each largest number

    KERNEL_METHOD explicit PoolOp(const Layer& description) : LayerOp(description) {
        const int64_t* sizes = layer.sizes;
        shape = {sizes[0], sizes[1], sizes[2], sizes[0], sizes[3], sizes[4],
                 sizes[5], sizes[6], false,    sizes[7], sizes[8]};
        is_largest = sizes[9] != 0;
        channels = matmul_padded(shape.channels);
        pixels = convolution_pixels(shape);
    }

    KERNEL_METHOD void take_scratch(const LayerRows& rows, LayerMemory& memory) {
        places = (int32_t*)memory.take(is_largest ? rows.count * layer.row : 0);
    }

    // Calls `visit(pixel of the input)` for the pixels of a window that lie in the image.
    template <class Visit>
    KERNEL_METHOD void each_pixel(const PatchPlace& place, const Visit& visit) const {
        for (int64_t line = 0; line < shape.size_y; line++) {
            PatchLine inside = patch_line(shape, place, line);
            int64_t y = place.y * shape.stride_y + line - shape.padding_y,
                    x = place.x * shape.stride_x - shape.padding_x;
            for (int64_t i = inside.before; i < inside.before + inside.inside; i++) visit(y * shape.width + x + i);
        }
    }

    struct Largest {
        const float* image;
        float* result;
        int32_t* places;
        int64_t channels;

        KERNEL_METHOD void operator()(int64_t pixel) const {
            const float* numbers = image + pixel * channels;
            for (int64_t i = 0; i < channels; i++) {
                bool is_larger = numbers[i] > result[i] || numbers[i] != numbers[i];  // NaN stays
                result[i] = is_larger ? numbers[i] : result[i];
                places[i] = is_larger ? (int32_t)pixel : places[i];
            }
        }
    };

    struct Add {
        const float* image;
        float* result;
        int64_t channels;

        KERNEL_METHOD void operator()(int64_t pixel) const {
            INDEPENDENT_LANES
            for (int64_t i = 0; i < channels; i++) result[i] += image[pixel * channels + i];
        }
    };

    struct Spread {
        const float* gradient;
        float* image;
        int64_t channels;
        float share;

        KERNEL_METHOD void operator()(int64_t pixel) const {
            INDEPENDENT_LANES
            for (int64_t i = 0; i < channels; i++) image[pixel * channels + i] += share * gradient[i];
        }
    };

    template <class Set>
    KERNEL_METHOD void forward(const LayerRows& rows) const {
        PatchPlace place = {};
        for (int64_t i = 0; i < rows.count * pixels; i++, place.advance(shape)) {
            const float* image = rows.inputs[0] + place.image * layer.input_rows[0];
            float* result = rows.output + i * channels;
            for (int64_t j = 0; j < channels; j++) result[j] = is_largest ? -INFINITY : 0.0f;
            if (is_largest) {
                memset(places + i * channels, 0, channels * sizeof(int32_t));
                each_pixel(place, Largest{image, result, places + i * channels, channels});
                continue;
            }
            each_pixel(place, Add{image, result, channels});
            for (int64_t j = 0; j < channels; j++) result[j] /= (float)(shape.size_y * shape.size_x);
        }
    }

    template <class Set>
    KERNEL_METHOD void backward(const LayerRows& rows) const {
        PatchPlace place = {};
        memset(rows.grad_inputs[0], 0, rows.count * layer.input_rows[0] * sizeof(float));
        for (int64_t i = 0; i < rows.count * pixels; i++, place.advance(shape)) {
            float* image = rows.grad_inputs[0] + place.image * layer.input_rows[0];
            const float* gradient = rows.grad_output + i * channels;
            if (is_largest) {
                const int32_t* from = places + i * channels;
                for (int64_t j = 0; j < channels; j++) image[from[j] * channels + j] += gradient[j];
            } else {
                each_pixel(place, Spread{gradient, image, channels, 1.0f / (float)(shape.size_y * shape.size_x)});
            }
        }
    }
};
