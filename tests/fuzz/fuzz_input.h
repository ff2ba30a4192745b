// fuzz_input.h - what a fuzzer's bytes are taken for: numbers one after the other, zeros where they are used up.
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const uint8_t* bytes;  // borrowed
    size_t left;
} Input;

// Not instrumented: which byte comes next tells nothing of what is tested.
__attribute__((no_sanitize("address", "undefined", "coverage"))) static uint32_t take_byte(Input* input) {
    if (input->left == 0) return 0;
    input->left--;
    return *input->bytes++;
}

static uint32_t take_short(Input* input) {
    uint32_t low = take_byte(input);
    return low | take_byte(input) << 8;
}

static uint32_t take_word(Input* input) {
    uint32_t low = take_short(input);
    return low | take_short(input) << 16;
}

// Ends the process where something does not hold that must; libFuzzer then keeps the input.
static void broken(const char* what) {
    fprintf(stderr, "fuzz: " ENV_NAME ": %s\n", what);
    abort();
}

static void* allocate(size_t size) {
    void* memory = calloc(1, size);
    if (memory == NULL) broken("the harness is out of memory");
    return memory;
}
