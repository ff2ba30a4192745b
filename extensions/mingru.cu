// mingru.cu - the MinGRU recurrence and its gradient on a GPU, one thread per lane of a sequence.
//
// Neighbouring threads hold neighbouring lanes, so every access is full width. The numbers of some steps are loaded
// together, before the first of them is computed: memory bounds it, not the time that a load takes. Arrays are those of
// mingru.cpp; `initial` and `states` may be one.
#include "mingru_row.h"

enum { MINGRU_STEPS = 4 };  // that are loaded together

struct MingruInputs {
    float candidate, gate, highway, x;
    bool is_fresh;
};

static __device__ MingruInputs mingru_load(const float* gates, const float* x, const unsigned char* reset,
                                           long long row, long long lanes, long long lane) {
    const float* gate = gates + row * 3 * lanes + lane;
    return {gate[0], gate[lanes], gate[2 * lanes], x[row * lanes + lane], reset != nullptr && reset[row]};
}

extern "C" __global__ void puffer_mingru_forward(const float* __restrict__ gates, const float* __restrict__ x,
                                                 const unsigned char* __restrict__ reset, const float* initial,
                                                 float* output, float* states, long long sequences, long long steps,
                                                 long long lanes) {
    long long index = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= sequences * lanes) return;
    long long first_row = index / lanes * steps, end_row = first_row + steps, lane = index % lanes;
    float state = initial[index];
    for (long long row = first_row; row < end_row; row += MINGRU_STEPS) {
        MingruInputs inputs[MINGRU_STEPS];
        for (int i = 0; i < MINGRU_STEPS; i++) {
            if (row + i < end_row) inputs[i] = mingru_load(gates, x, reset, row + i, lanes, lane);
        }
        for (int i = 0; i < MINGRU_STEPS; i++) {
            if (row + i >= end_row) break;
            MingruInputs input = inputs[i];
            if (input.is_fresh) state = 0.0f;
            state = mingru_state(input.candidate, input.gate, state);
            states[(row + i) * lanes + lane] = state;
            output[(row + i) * lanes + lane] = mingru_output(input.highway, state, input.x);
        }
    }
}

extern "C" __global__ void puffer_mingru_backward(const float* __restrict__ gates, const float* __restrict__ x,
                                                  const unsigned char* __restrict__ reset,
                                                  const float* __restrict__ initial, const float* __restrict__ states,
                                                  const float* __restrict__ grad_output,
                                                  const float* __restrict__ grad_final, float* grad_gates,
                                                  float* grad_x, float* grad_initial, long long sequences,
                                                  long long steps, long long lanes) {
    long long index = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= sequences * lanes) return;
    long long first_row = index / lanes * steps, lane = index % lanes;
    float carry = grad_final[index];
    float state = states[(first_row + steps - 1) * lanes + lane];
    for (long long last = first_row + steps - 1; last >= first_row; last -= MINGRU_STEPS) {
        MingruInputs inputs[MINGRU_STEPS];
        float before[MINGRU_STEPS], grads[MINGRU_STEPS];
        for (int i = 0; i < MINGRU_STEPS; i++) {
            long long row = last - i;
            if (row < first_row) break;
            inputs[i] = mingru_load(gates, x, reset, row, lanes, lane);
            before[i] = row == first_row ? initial[index] : states[(row - 1) * lanes + lane];
            grads[i] = grad_output[row * lanes + lane];
        }
        for (int i = 0; i < MINGRU_STEPS; i++) {
            long long row = last - i, here = row * lanes + lane, gate = row * 3 * lanes + lane;
            if (row < first_row) break;
            MingruInputs input = inputs[i];
            MingruGradient gradient = mingru_gradient(input.candidate, input.gate, input.highway, input.x,
                                                      input.is_fresh ? 0.0f : before[i], state, grads[i], carry);
            grad_gates[gate] = gradient.candidate;
            grad_gates[gate + lanes] = gradient.gate;
            grad_gates[gate + 2 * lanes] = gradient.highway;
            grad_x[here] = gradient.x;
            carry = input.is_fresh ? 0.0f : gradient.previous;
            state = before[i];
        }
    }
    grad_initial[index] = carry;
}
