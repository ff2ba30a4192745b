// calibrate.c - how fast is this core right now? One number to normalise steps/s figures taken at different times.
// 4096 records of 512 bytes; each visit advances an xorshift generator, does 24 dependent float operations and two
// sines, and rewrites 8 scattered floats of its record: about the mix of an environment step.
//   gcc -O2 -o calibrate calibrate.c -lm && ./calibrate          prints: calibration M visits/s (best of 5)
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { RECORDS = 4096, ROUNDS = 600, REPEATS = 5 };
typedef struct {
    uint32_t rng;
    float x, v;
    float row[125];
} Record;
static Record records[RECORDS];

static double now_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static void visit(Record* record) {
    uint32_t r = record->rng;
    r ^= r << 13;
    r ^= r >> 17;
    r ^= r << 5;
    record->rng = r;
    float x = record->x, v = record->v;
    float force = (r & 1) ? 1.0f : -1.0f;
    for (int i = 0; i < 4; i++) {
        float a = (force - 0.1f * v - 0.5f * x) / (1.0f + 0.01f * x * x);
        v += 0.02f * a;
        x += 0.02f * v;
    }
    v += 0.001f * sinf(x) + 0.001f * cosf(v);
    record->x = x;
    record->v = v;
    for (int i = 0; i < 8; i++) record->row[(r >> (2 * i)) % 125] = x;
}

int main(void) {
    double best = 1e30, sum = 0;
    for (int i = 0; i < RECORDS; i++) records[i].rng = 2463534242u + i;
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        double start = now_seconds();
        for (int round = 0; round < ROUNDS; round++)
            for (int i = 0; i < RECORDS; i++) visit(&records[i]);
        double elapsed = now_seconds() - start;
        if (elapsed < best) best = elapsed;
    }
    for (int i = 0; i < RECORDS; i++) sum += records[i].x;
    printf("calibration %.2f M visits/s (checksum %.3f)\n", 1e-6 * RECORDS * ROUNDS / best, sum);
    return 0;
}
