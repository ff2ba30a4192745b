// mingru.cu - the MinGRU recurrence and its gradient on a GPU, one thread per lane of a sequence.
//
// Neighbouring threads hold neighbouring lanes, so every access is full width, and the loads of a step do not wait for
// the step before: memory bounds it. Arrays are those of mingru.cpp.
#include "mingru_row.h"

extern "C" __global__ void puffer_mingru_forward(const float* gates, const float* x, const unsigned char* reset,
                                                 const float* initial, float* output, float* states,
                                                 long long sequences, long long steps, long long lanes) {
    long long index = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= sequences * lanes) return;
    long long first_row = index / lanes * steps, lane = index % lanes;
    float state = initial[index];
    for (long long row = first_row; row < first_row + steps; row++) {
        const float* gate = gates + row * 3 * lanes + lane;
        if (reset != nullptr && reset[row]) state = 0.0f;
        state = mingru_state(gate[0], gate[lanes], state);
        states[row * lanes + lane] = state;
        output[row * lanes + lane] = mingru_output(gate[2 * lanes], state, x[row * lanes + lane]);
    }
}

extern "C" __global__ void puffer_mingru_backward(const float* gates, const float* x, const unsigned char* reset,
                                                  const float* initial, const float* states, const float* grad_output,
                                                  const float* grad_final, float* grad_gates, float* grad_x,
                                                  float* grad_initial, long long sequences, long long steps,
                                                  long long lanes) {
    long long index = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= sequences * lanes) return;
    long long first_row = index / lanes * steps, lane = index % lanes;
    float carry = grad_final[index];
    float state = states[(first_row + steps - 1) * lanes + lane];
    for (long long row = first_row + steps - 1; row >= first_row; row--) {
        long long here = row * lanes + lane, gate = row * 3 * lanes + lane;
        bool fresh = reset != nullptr && reset[row];
        float before = row == first_row ? initial[index] : states[here - lanes];
        MingruGradient gradient = mingru_gradient(gates[gate], gates[gate + lanes], gates[gate + 2 * lanes], x[here],
                                                  fresh ? 0.0f : before, state, grad_output[here], carry);
        grad_gates[gate] = gradient.candidate;
        grad_gates[gate + lanes] = gradient.gate;
        grad_gates[gate + 2 * lanes] = gradient.highway;
        grad_x[here] = gradient.x;
        carry = fresh ? 0.0f : gradient.previous;
        state = before;
    }
    grad_initial[index] = carry;
}
