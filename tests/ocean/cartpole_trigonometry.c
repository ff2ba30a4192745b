// cartpole_trigonometry.c - lets a test call the two functions that cartpole.h uses in place of sinf and cosf.
#include "cartpole.h"

void sin_and_cos(const float* angles, int count, float* sines, float* cosines) {
    for (int i = 0; i < count; i++) {
        sines[i] = cartpole_sin(angles[i]);
        cosines[i] = cartpole_cos(angles[i]);
    }
}
