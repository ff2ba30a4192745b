// puffer_bits.h - sets of up to 64 things, such as the cells of a board, as the bits of one number.
#pragma once

#include "puffer_env.h"

// The index of the lowest of the bits, at least one of which is set.
PUFFER_FN int bits_lowest(uint64_t bits) {
#if defined(__CUDACC__)
    return __ffsll((long long)bits) - 1;
#else
    return __builtin_ctzll(bits);
#endif
}

// The index of the highest of the bits, at least one of which is set.
PUFFER_FN int bits_highest(uint64_t bits) {
#if defined(__CUDACC__)
    return 63 - __clzll((long long)bits);
#else
    return 63 - __builtin_clzll(bits);
#endif
}

// How many are set: in pairs, in fours, in bytes, then the sum of the bytes in the highest of them.
PUFFER_FN int bits_count(uint64_t bits) {
    bits = bits - ((bits >> 1) & 0x5555555555555555ull);
    bits = (bits & 0x3333333333333333ull) + ((bits >> 2) & 0x3333333333333333ull);
    bits = (bits + (bits >> 4)) & 0x0F0F0F0F0F0F0F0Full;
    return (int)((bits * 0x0101010101010101ull) >> 56);
}

// Eight bits as the eight bytes of a number, each 0 or `value`, the lowest bit as the lowest byte.
PUFFER_FN uint64_t bits_spread(uint64_t byte, uint64_t value) {
    uint64_t apart = ((byte & 0xFF) * 0x0101010101010101ull) & 0x8040201008040201ull;
    return ((apart + 0x7F7F7F7F7F7F7F7Full) >> 7 & 0x0101010101010101ull) * value;
}
