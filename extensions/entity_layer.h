// entity_layer.h - layers on the entities of a row: numbers as entities and back, embeddings, and attention.
//
// An entity is a pixel: its numbers lie side by side, padded, and the entities of a row one after the other.
#pragma once

#include "norm_layer.h"

// Numbers of a row as those of pixels, or those of pixels as a row, in torch's order: pixel after pixel, or channel
// after channel. sizes: numbers of a pixel, pixels, whether channels come first, and whether a row is made of pixels.
struct ArrangeOp : LayerOp {
    int64_t units, pixels, width;
    bool are_channels_first, makes_row;

    static constexpr bool HAS_PRODUCTS = false;

    KERNEL_METHOD explicit ArrangeOp(const Layer& description)
        : LayerOp(description),
          units(layer.sizes[0]),
          pixels(layer.sizes[1]),
          width(matmul_padded(units)),
          are_channels_first(layer.sizes[2] != 0),
          makes_row(layer.sizes[3] != 0) {}

    KERNEL_METHOD void to_pixels(const float* row, float* image) const {
        int64_t unit_row = are_channels_first ? pixels : 1, pixel_row = are_channels_first ? 1 : units;
        for (int64_t pixel = 0; pixel < pixels; pixel++) {
            float* target = image + pixel * width;
            INDEPENDENT_LANES
            for (int64_t i = 0; i < units; i++) target[i] = row[pixel * pixel_row + i * unit_row];
            for (int64_t i = units; i < width; i++) target[i] = 0.0f;
        }
    }

    KERNEL_METHOD void to_row(const float* image, float* row) const {
        int64_t unit_row = are_channels_first ? pixels : 1, pixel_row = are_channels_first ? 1 : units;
        for (int64_t pixel = 0; pixel < pixels; pixel++) {
            const float* source = image + pixel * width;
            INDEPENDENT_LANES
            for (int64_t i = 0; i < units; i++) row[pixel * pixel_row + i * unit_row] = source[i];
        }
        for (int64_t i = units * pixels; i < matmul_padded(units * pixels); i++) row[i] = 0.0f;
    }

    template <class Set>
    KERNEL_METHOD void forward(const LayerRows& rows) const {
        for (int64_t row = 0; row < rows.count; row++) {
            const float* source = rows.inputs[0] + row * layer.input_rows[0];
            float* target = rows.output + row * layer.row;
            makes_row ? to_row(source, target) : to_pixels(source, target);
        }
    }

    template <class Set>
    KERNEL_METHOD void backward(const LayerRows& rows) const {
        for (int64_t row = 0; row < rows.count; row++) {
            const float* source = rows.grad_output + row * layer.row;
            float* target = rows.grad_inputs[0] + row * layer.input_rows[0];
            makes_row ? to_pixels(source, target) : to_row(source, target);
        }
    }
};

// Each number of a row times a factor; in place of one that is a category a number for each category, 1 for the one
// that it is and 0 for the others. sizes: numbers of a row. parameters: the factors, the first category of each number,
// and how many it has, 0 where it is none; constants, all [numbers].
struct FeaturesOp : LayerOp {
    static constexpr bool HAS_PRODUCTS = false;

    KERNEL_METHOD explicit FeaturesOp(const Layer& description) : LayerOp(description) {}

    template <class Set>
    KERNEL_METHOD void forward(const LayerRows& rows) const {
        const float *factors = layer.parameters[0], *lowest = layer.parameters[1], *counts = layer.parameters[2];
        memset(rows.output, 0, rows.count * layer.row * sizeof(float));
        for (int64_t row = 0; row < rows.count; row++) {
            const float* numbers = rows.inputs[0] + row * layer.input_rows[0];
            float* target = rows.output + row * layer.row;
            for (int64_t i = 0; i < layer.sizes[0]; i++) {
                float place = numbers[i] - lowest[i];
                if (counts[i] == 0.0f) *target = numbers[i] * factors[i];
                if (place >= 0.0f && place < counts[i]) target[(int64_t)place] = 1.0f;
                target += counts[i] == 0.0f ? 1 : (int64_t)counts[i];
            }
        }
    }

    template <class Set>
    KERNEL_METHOD void backward(const LayerRows&) const {}  // it reads the observation
};

// The row of a table that each number of a row stands for; NaN where there is none. sizes: numbers of a row of the
// table, numbers of a row, and rows of the table. parameters: the table.
struct EmbeddingOp : LayerOp {
    int64_t units, count, rows_of_table, width;
    float *table, *grad_table;  // [rows of the table, width]

    static constexpr bool HAS_PRODUCTS = false;

    KERNEL_METHOD explicit EmbeddingOp(const Layer& description)
        : LayerOp(description),
          units(layer.sizes[0]),
          count(layer.sizes[1]),
          rows_of_table(layer.sizes[2]),
          width(matmul_padded(units)) {}

    KERNEL_METHOD void take_packed(LayerMemory& memory) { table = memory.take(rows_of_table * width); }

    KERNEL_METHOD void take_gradients(LayerMemory& memory) { grad_table = memory.take(rows_of_table * width); }

    KERNEL_METHOD void pack(const PackShare&) const {
        memset(table, 0, rows_of_table * width * sizeof(float));
        for (int64_t i = 0; i < rows_of_table; i++) {
            memcpy(table + i * width, layer.parameters[0] + i * units, units * sizeof(float));
        }
    }

    KERNEL_METHOD int64_t place(float number) const {
        return number > -1.0f && number < (float)rows_of_table ? (int64_t)number : -1;
    }

    template <class Set>
    KERNEL_METHOD void forward(const LayerRows& rows) const {
        for (int64_t i = 0; i < rows.count * count; i++) {
            int64_t found = place(rows.inputs[0][i / count * layer.input_rows[0] + i % count]);
            float* target = rows.output + i * width;
            for (int64_t j = 0; j < width; j++) {
                target[j] = found >= 0 ? table[found * width + j] : j < units ? NAN : 0.0f;
            }
        }
    }

    template <class Set>
    KERNEL_METHOD void backward(const LayerRows& rows) const {
        for (int64_t i = 0; i < rows.count * count; i++) {
            int64_t found = place(rows.inputs[0][i / count * layer.input_rows[0] + i % count]);
            if (found < 0) continue;
            INDEPENDENT_LANES
            for (int64_t j = 0; j < units; j++) grad_table[found * width + j] += rows.grad_output[i * width + j];
        }
        if (wants_gradient(0)) memset(rows.grad_inputs[0], 0, rows.count * layer.input_rows[0] * sizeof(float));
    }

    KERNEL_METHOD void write_gradients() const { copy_rows(grad_table, rows_of_table, units, width, layer.results[0]); }
};

// softmax(scale q k^T) v for each head, whose numbers lie side by side in an entity. The inputs are q, k, v and perhaps
// what is visible: a number above 0.5 for each key of a row, or for each key of each query. sizes: heads, numbers of a
// head in keys and in values, queries, keys, whether there is such a mask, whether it has a row for each query, and
// whether a query that sees nothing gets zeros. numbers: the scale, and the score of what is not visible.
struct AttentionOp : LayerOp {
    int64_t heads, key_size, value_size, queries, keys;
    bool is_masked, is_of_pairs, is_safe;
    int64_t key_width, value_width, score_row;
    float* shares;    // [count, heads, queries, padded keys], the softmax
    float* gradient;  // [padded keys]

    static constexpr bool HAS_PRODUCTS = false;

    KERNEL_METHOD explicit AttentionOp(const Layer& description)
        : LayerOp(description),
          heads(layer.sizes[0]),
          key_size(layer.sizes[1]),
          value_size(layer.sizes[2]),
          queries(layer.sizes[3]),
          keys(layer.sizes[4]),
          is_masked(layer.sizes[5] != 0),
          is_of_pairs(layer.sizes[6] != 0),
          is_safe(layer.sizes[7] != 0),
          key_width(matmul_padded(heads * key_size)),
          value_width(matmul_padded(heads * value_size)),
          score_row(matmul_padded(keys)) {}

    KERNEL_METHOD void take_scratch(const LayerRows& rows, LayerMemory& memory) {
        shares = memory.take(rows.count * heads * queries * score_row);
        gradient = memory.take(score_row);
    }

    KERNEL_METHOD float* shares_of(int64_t row, int64_t head, int64_t query) const {
        return shares + ((row * heads + head) * queries + query) * score_row;
    }

    // Of a row, with a number for each key.
    KERNEL_METHOD const float* visible(const LayerRows& rows, int64_t row, int64_t query) const {
        if (!is_masked) return nullptr;
        return rows.inputs[3] + row * layer.input_rows[3] + (is_of_pairs ? query * score_row : 0);
    }

    KERNEL_METHOD void softmax(float* scores, const float* visible) const {
        float largest = -INFINITY, total = 0.0f;
        for (int64_t j = 0; j < keys; j++) {
            if (visible != nullptr && !(visible[j] > 0.5f)) scores[j] = (float)layer.numbers[1];
            largest = scores[j] > largest || scores[j] != scores[j] ? scores[j] : largest;  // NaN stays
        }
        if (largest == -INFINITY) {
            for (int64_t j = 0; j < keys; j++) scores[j] = is_safe ? 0.0f : NAN;
            return;
        }
        for (int64_t j = 0; j < keys; j++) {
            float distance = scores[j] - largest;
            scores[j] = distance < -87.0f ? 0.0f : mingru_exp(distance);
            total += scores[j];
        }
        for (int64_t j = 0; j < keys; j++) scores[j] /= total;
    }

    template <class Set>
    KERNEL_METHOD void forward(const LayerRows& rows) const {
        float scale = (float)layer.numbers[0];
        memset(rows.output, 0, rows.count * layer.row * sizeof(float));
        for (int64_t row = 0; row < rows.count; row++) {
            const float *q = rows.inputs[0] + row * layer.input_rows[0],
                        *k = rows.inputs[1] + row * layer.input_rows[1];
            const float* v = rows.inputs[2] + row * layer.input_rows[2];
            for (int64_t place = 0; place < heads * queries; place++) {
                int64_t head = place / queries, query = place % queries;
                float *share = shares_of(row, head, query), *output = rows.output + row * layer.row;
                const float* from = q + query * key_width + head * key_size;
                for (int64_t j = 0; j < keys; j++) {
                    share[j] = scale * norm_dot(from, k + j * key_width + head * key_size, key_size);
                }
                softmax(share, visible(rows, row, query));
                output += query * value_width + head * value_size;
                for (int64_t j = 0; j < keys; j++) {
                    const float* value = v + j * value_width + head * value_size;
                    INDEPENDENT_LANES
                    for (int64_t i = 0; i < value_size; i++) output[i] += share[j] * value[i];
                }
            }
        }
    }

    // With the share p of a key: dp = dy v, ds = p (dp - sum(p dp)) in its score, 0 where it is not visible.
    template <class Set>
    KERNEL_METHOD void backward(const LayerRows& rows) const {
        for (int64_t i = 0; i < layer.num_inputs; i++) {
            if (wants_gradient(i)) memset(rows.grad_inputs[i], 0, rows.count * layer.input_rows[i] * sizeof(float));
        }
        for (int64_t row = 0; row < rows.count; row++) {
            for (int64_t place = 0; place < heads * queries; place++) backward_query(rows, row, place);
        }
    }

    KERNEL_METHOD void backward_query(const LayerRows& rows, int64_t row, int64_t place) const {
        int64_t head = place / queries, query = place % queries;
        int64_t of_query = row * layer.input_rows[0] + query * key_width + head * key_size;
        int64_t of_keys = row * layer.input_rows[1] + head * key_size;
        int64_t of_values = row * layer.input_rows[2] + head * value_size;
        const float *share = shares_of(row, head, query), *seen = visible(rows, row, query);
        const float* change = rows.grad_output + row * layer.row + query * value_width + head * value_size;
        float mean = 0.0f;
        for (int64_t j = 0; j < keys; j++) {
            gradient[j] = norm_dot(change, rows.inputs[2] + of_values + j * value_width, value_size);
            mean += share[j] * gradient[j];
            if (!wants_gradient(2)) continue;
            add_scaled(rows.grad_inputs[2] + of_values + j * value_width, share[j], change, value_size);
        }
        for (int64_t j = 0; j < keys; j++) {
            bool is_seen = seen == nullptr || seen[j] > 0.5f;
            float slope = is_seen ? (float)layer.numbers[0] * share[j] * (gradient[j] - mean) : 0.0f;
            const float *q = rows.inputs[0] + of_query, *k = rows.inputs[1] + of_keys + j * key_width;
            if (wants_gradient(0)) add_scaled(rows.grad_inputs[0] + of_query, slope, k, key_size);
            if (wants_gradient(1)) add_scaled(rows.grad_inputs[1] + of_keys + j * key_width, slope, q, key_size);
        }
    }

    KERNEL_METHOD static void add_scaled(float* target, float factor, const float* source, int64_t count) {
        INDEPENDENT_LANES
        for (int64_t i = 0; i < count; i++) target[i] += factor * source[i];
    }
};
