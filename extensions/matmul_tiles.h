// matmul_tiles.h - the products of matmul_bfloat16.h by the tiles of Intel's AMX, several times as many at a time.
//
// A tile has sixteen rows of 64 bytes. TDPBF16PS multiplies one of left rows, sixteen pairs of bfloat16 each, by one of
// sixteen rows of pairs with sixteen columns, and adds to one of sixteen rows of float32. All three lie in memory tile
// by tile, so that one is read from neighbouring lines of the cache; results alone lie where they belong. What a tile
// has beyond a matrix is zeros along the inner dimension, and anything in rows that nobody reads.
//
// Tiles are configured at the start of a product and released at its end: nothing is left in them for others.
#pragma once

#include <string.h>

#include "matmul_bfloat16.h"

#if defined(KERNEL_TILES)
enum { TILE_SIZE = 16 };                                       // rows of a tile, pairs of a row, and columns
enum { TILE_PAIRS = TILE_SIZE * TILE_SIZE };                   // of a tile
enum { TILES_INNER = 8, TILES_ROWS = 8, TILES_COLUMNS = 16 };  // of the parts of matrices that are rounded together

// Palette 1: eight tiles, each of sixteen rows of 64 bytes.
struct alignas(64) TileConfiguration {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

static const TileConfiguration TILE_CONFIGURATION = {1,
                                                     0,
                                                     {},
                                                     {64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0},
                                                     {16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0}};

// The compilers' own names for these instructions want a target of their own, and their loads do not wait for stores.
#define TILES_BEGIN() __asm__ volatile("ldtilecfg %0" ::"m"(TILE_CONFIGURATION))
#define TILES_END() __asm__ volatile("tilerelease")
#define TILE_ZERO(tile) __asm__ volatile("tilezero %%tmm" #tile::)
#define TILE_LOAD(tile, place, bytes) \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile::"r"(place), "r"((int64_t)(bytes)) : "memory")
#define TILE_STORE(tile, place, bytes) \
    __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"(place), "r"((int64_t)(bytes)) : "memory")
#define TILE_MULTIPLY(sum, left, right) __asm__ volatile("tdpbf16ps %%tmm" #right ", %%tmm" #left ", %%tmm" #sum::)

// Rows of tiles of both matrices that are multiplied: tile k of a row begins k tiles after its first.
struct TilesProduct {
    const uint32_t *left, *right;
    int64_t left_row, right_row;  // from a row of tiles to the next
    int64_t inner;                // tiles of a row
    bool is_sum;                  // added to what is there
    float* result;
    int64_t result_row;
};

// The sums stay in tiles 0 to 3 while the inner dimension runs.
template <int ROWS, int COLUMNS>
BFLOAT16_FN void tiles_block(const TilesProduct& product) {
    float *first = product.result, *second = first + TILE_SIZE * product.result_row;
    int64_t bytes = product.result_row * 4;
    if (product.is_sum) {
        TILE_LOAD(0, first, bytes);
        if (COLUMNS > 1) TILE_LOAD(1, first + TILE_SIZE, bytes);
        if (ROWS > 1) TILE_LOAD(2, second, bytes);
        if (ROWS > 1 && COLUMNS > 1) TILE_LOAD(3, second + TILE_SIZE, bytes);
    } else {
        TILE_ZERO(0);
        TILE_ZERO(1);
        TILE_ZERO(2);
        TILE_ZERO(3);
    }
    const uint32_t *left = product.left, *right = product.right;
    for (int64_t k = 0; k < product.inner; k++, left += TILE_PAIRS, right += TILE_PAIRS) {
        TILE_LOAD(4, left, 64);
        TILE_LOAD(6, right, 64);
        TILE_MULTIPLY(0, 4, 6);
        if (COLUMNS > 1) TILE_LOAD(7, right + product.right_row, 64);
        if (COLUMNS > 1) TILE_MULTIPLY(1, 4, 7);
        if (ROWS > 1) TILE_LOAD(5, left + product.left_row, 64);
        if (ROWS > 1) TILE_MULTIPLY(2, 5, 6);
        if (ROWS > 1 && COLUMNS > 1) TILE_MULTIPLY(3, 5, 7);
    }
    TILE_STORE(0, first, bytes);
    if (COLUMNS > 1) TILE_STORE(1, first + TILE_SIZE, bytes);
    if (ROWS > 1) TILE_STORE(2, second, bytes);
    if (ROWS > 1 && COLUMNS > 1) TILE_STORE(3, second + TILE_SIZE, bytes);
}

// The last rows, fewer than a tile has: their results go through memory that has room for all.
template <int COLUMNS>
BFLOAT16_FN void tiles_last_rows(TilesProduct product, int64_t rows) {
    alignas(64) float memory[TILE_SIZE * COLUMNS * TILE_SIZE];
    const int WIDTH = COLUMNS * TILE_SIZE;
    float* result = product.result;
    int64_t result_row = product.result_row;
    for (int64_t r = 0; r < TILE_SIZE && product.is_sum; r++) {
        if (r < rows) memcpy(memory + r * WIDTH, result + r * result_row, WIDTH * sizeof(float));
        if (r >= rows) memset(memory + r * WIDTH, 0, WIDTH * sizeof(float));
    }
    product.result = memory;
    product.result_row = WIDTH;
    tiles_block<1, COLUMNS>(product);
    for (int64_t r = 0; r < rows; r++) {
        memcpy(result + r * result_row, memory + r * WIDTH, WIDTH * sizeof(float));
    }
}

template <int COLUMNS>
BFLOAT16_FN void tiles_columns(TilesProduct product, int64_t rows) {
    for (; rows >= 2 * TILE_SIZE; rows -= 2 * TILE_SIZE) {
        tiles_block<2, COLUMNS>(product);
        product.left += 2 * product.left_row;
        product.result += 2 * TILE_SIZE * product.result_row;
    }
    if (rows >= TILE_SIZE) {
        tiles_block<1, COLUMNS>(product);
        product.left += product.left_row;
        product.result += TILE_SIZE * product.result_row;
    }
    if (rows % TILE_SIZE > 0) tiles_last_rows<COLUMNS>(product, rows % TILE_SIZE);
}

BFLOAT16_FN void tiles_multiply(TilesProduct product, int64_t rows, int64_t columns) {
    for (; columns >= 2 * TILE_SIZE; columns -= 2 * TILE_SIZE) {
        tiles_columns<2>(product, rows);
        product.right += 2 * product.right_row;
        product.result += 2 * TILE_SIZE;
    }
    if (columns > 0) tiles_columns<1>(product, rows);
}

// Rounds `rows` rows of `inner` floats to rows of tiles.
BFLOAT16_FN void tiles_round_neighbours(const float* source, int64_t row, int64_t rows, int64_t inner,
                                        uint32_t* target) {
    int64_t tiles = (inner + 31) / 32;
    for (int64_t r = 0; r < rows; r++) {
        uint32_t* place = target + r / TILE_SIZE * tiles * TILE_PAIRS + r % TILE_SIZE * TILE_SIZE;
        for (int64_t k = 0; k < inner; k += 32, place += TILE_PAIRS) {
            const float* numbers = source + r * row + k;
            __m512 low = _mm512_maskz_loadu_ps(bfloat16_mask(inner - k), numbers);
            __mmask16 rest = inner - k > 16 ? bfloat16_mask(inner - k - 16) : (__mmask16)0;
            __m512 high = _mm512_maskz_loadu_ps(rest, numbers + 16);
            _mm512_store_si512(place, (__m512i)_mm512_cvtne2ps_pbh(high, low));
        }
    }
}

// One tile of a right matrix, from up to 32 rows of up to sixteen floats.
BFLOAT16_FN void tile_round_rows(const float* source, int64_t row, int64_t inner, int64_t columns, uint32_t* target) {
    __mmask16 mask = bfloat16_mask(columns);
    for (int64_t k = 0; k < 2 * TILE_SIZE; k += 2, target += TILE_SIZE) {
        const float *first = source + k * row, *second = k + 1 < inner ? first + row : nullptr;
        __m512i pairs = k < inner ? bfloat16_pair_rows(first, second, mask) : _mm512_setzero_si512();
        _mm512_store_si512(target, pairs);
    }
}

// Four neighbours of each of rows `row`, `row` + 4, `row` + 8 and `row` + 12 of a tile.
BFLOAT16_FN __m512i tile_quarter(const uint32_t* tile, int64_t row, int64_t place) {
    const uint32_t* source = tile + row * TILE_SIZE + place;
    __m512i quarter = _mm512_castsi128_si512(_mm_load_si128((const __m128i*)source));
    quarter = _mm512_inserti32x4(quarter, _mm_load_si128((const __m128i*)(source + 4 * TILE_SIZE)), 1);
    quarter = _mm512_inserti32x4(quarter, _mm_load_si128((const __m128i*)(source + 8 * TILE_SIZE)), 2);
    return _mm512_inserti32x4(quarter, _mm_load_si128((const __m128i*)(source + 12 * TILE_SIZE)), 3);
}

BFLOAT16_FN void tile_transpose(const uint32_t* source, uint32_t* target) {
    for (int64_t place = 0; place < TILE_SIZE; place += 4, target += 4 * TILE_SIZE) {
        __m512i first = tile_quarter(source, 0, place), second = tile_quarter(source, 1, place);
        __m512i third = tile_quarter(source, 2, place), fourth = tile_quarter(source, 3, place);
        __m512i low = _mm512_maskz_unpacklo_epi32(0xffff, first, second),
                high = _mm512_maskz_unpackhi_epi32(0xffff, first, second);
        __m512i next_low = _mm512_maskz_unpacklo_epi32(0xffff, third, fourth),
                next_high = _mm512_maskz_unpackhi_epi32(0xffff, third, fourth);
        _mm512_store_si512(target, _mm512_maskz_unpacklo_epi64(0xff, low, next_low));
        _mm512_store_si512(target + TILE_SIZE, _mm512_maskz_unpackhi_epi64(0xff, low, next_low));
        _mm512_store_si512(target + 2 * TILE_SIZE, _mm512_maskz_unpacklo_epi64(0xff, high, next_high));
        _mm512_store_si512(target + 3 * TILE_SIZE, _mm512_maskz_unpackhi_epi64(0xff, high, next_high));
    }
}

// The left matrix from `row` and `inner` on, as rows of tiles.
BFLOAT16_FN void tiles_round_left(const Matmul& product, int64_t row, int64_t rows, int64_t inner, int64_t count,
                                  uint32_t* target) {
    const float* source = product.left + row * product.left_row + inner * product.left_inner;
    if (product.left_inner == 1) {
        tiles_round_neighbours(source, product.left_row, rows, count, target);
        return;
    }
    alignas(64) uint32_t turned[TILE_PAIRS];
    for (int64_t r = 0; r < rows; r += TILE_SIZE) {
        for (int64_t k = 0; k < count; k += 2 * TILE_SIZE, target += TILE_PAIRS) {
            tile_round_rows(source + r + k * product.left_inner, product.left_inner, count - k, rows - r, turned);
            tile_transpose(turned, target);
        }
    }
}

// What a part of the right matrix, `count` of the inner dimension from `inner` on, adds to columns of the result.
BFLOAT16_FN void tiles_multiply_part(const Matmul& product, TilesProduct part, int64_t columns, int64_t inner,
                                     int64_t count) {
    alignas(64) uint32_t memory[TILES_ROWS * TILES_INNER * TILE_PAIRS];
    float* result = part.result;
    part.inner = (count + 2 * TILE_SIZE - 1) / (2 * TILE_SIZE);
    part.left = memory;
    part.left_row = part.inner * TILE_PAIRS;
    part.result_row = product.result_row;
    for (int64_t row = 0; row < product.rows; row += TILES_ROWS * TILE_SIZE) {
        int64_t rows = matmul_part(product.rows - row, TILES_ROWS * TILE_SIZE);
        tiles_round_left(product, row, rows, inner, count, memory);
        part.result = result + row * product.result_row;
        tiles_multiply(part, rows, columns);
    }
}

// Adds to the result where `IS_SUM`, else replaces it. The right matrix is float32, or rows of tiles where it
// `IS_PACKED`: those of the first sixteen columns, then those of the next.
template <bool IS_SUM, bool IS_PACKED>
KERNEL_AVX512_BFLOAT16 __attribute__((noinline)) static void matmul_tiles(const Matmul& product) {
    alignas(64) uint32_t memory[IS_PACKED ? 1 : TILES_COLUMNS * TILES_INNER * TILE_PAIRS];
    const int64_t INNER = TILES_INNER * 2 * TILE_SIZE, COLUMNS = IS_PACKED ? INT64_MAX : TILES_COLUMNS * TILE_SIZE;
    TILES_BEGIN();
    for (int64_t inner = 0; inner < product.inner; inner += INNER) {
        int64_t count = matmul_part(product.inner - inner, INNER), tiles = (count + 31) / 32;
        for (int64_t column = 0; column < product.columns; column += COLUMNS) {
            int64_t columns = matmul_part(product.columns - column, COLUMNS);
            TilesProduct part = {};
            part.is_sum = IS_SUM || inner > 0;
            part.result = product.result + column;
            part.right = IS_PACKED ? (const uint32_t*)product.right + inner / 32 * TILE_PAIRS : memory;
            part.right_row = (IS_PACKED ? (product.inner + 31) / 32 : tiles) * TILE_PAIRS;
            for (int64_t i = 0; !IS_PACKED && i < columns * tiles; i += TILE_SIZE) {
                int64_t place = i / TILE_SIZE / tiles * TILE_SIZE, k = i / TILE_SIZE % tiles * 2 * TILE_SIZE;
                const float* source = product.right + (inner + k) * product.right_row + column + place;
                tile_round_rows(source, product.right_row, count - k, TILE_SIZE, memory + i / TILE_SIZE * TILE_PAIRS);
            }
            tiles_multiply_part(product, part, columns, inner, count);
            if (IS_PACKED) break;
        }
    }
    TILES_END();
}
#else
template <bool IS_SUM, bool IS_PACKED>
static void matmul_tiles(const Matmul& product) {  // where there are none
    matmul_bfloat16<IS_SUM, IS_PACKED>(product);
}
#endif
