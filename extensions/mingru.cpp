// mingru.cpp - the MinGRU recurrence and its gradient on a CPU.
//
// Gates, scan and highway are one pass over memory, which is what bounds it. The lanes of a step lie side by side and
// do not touch each other, so the compiler turns the loops over them into vector instructions; steps follow one another
// and find the state of the step before in the nearest cache. Sequences are shared out among the threads, and each is
// computed the same way wherever it runs, so the result does not depend on their number.
#include "cpu_kernels.h"
#include "instruction_sets.h"
#include "mingru_row.h"

namespace {

constexpr int64_t GRAIN_LANES = 1 << 15;  // lane steps, 0.1 ms: less work than this does not repay waking a thread

// Pointers are borrowed. Names as in mingru_row.h; `gates` has the candidates first, then gates, then highways.
struct Forward {
    const float* gates;      // [sequences, steps, 3 * lanes]
    const float* x;          // [sequences, steps, lanes]
    const uint8_t* reset;    // [sequences, steps], nonzero where the state counts as 0 before the step; or NULL
    const float* initial;    // [sequences, lanes]
    float *output, *states;  // [sequences, steps, lanes]; states may be `initial` itself when there is one step
    int64_t steps, lanes;
};

struct Backward {
    const float *gates, *x;
    const uint8_t* reset;
    const float *initial, *states;
    const float* grad_output;  // [sequences, steps, lanes]
    const float* grad_final;   // [sequences, lanes]
    float* grad_gates;         // [sequences, steps, 3 * lanes]
    float* grad_x;             // [sequences, steps, lanes]
    float* grad_initial;       // [sequences, lanes]; carries the gradient from step to step
    int64_t steps, lanes;
};

KERNEL_FN void forward_step(const Forward& call, int64_t row, const float* previous) {
    int64_t lanes = call.lanes;
    const float *candidate = call.gates + row * 3 * lanes, *gate = candidate + lanes, *highway = gate + lanes;
    const float* x = call.x + row * lanes;
    float *output = call.output + row * lanes, *states = call.states + row * lanes;
    uint32_t kept = mingru_kept(call.reset, row);
    INDEPENDENT_LANES
    for (int64_t lane = 0; lane < lanes; lane++) {
        float state = mingru_state(candidate[lane], gate[lane], mingru_keep(previous[lane], kept));
        states[lane] = state;
        output[lane] = mingru_output(highway[lane], state, x[lane]);
    }
}

template <class Set>
KERNEL_FN void forward(const Forward& call, int64_t begin, int64_t end) {
    for (int64_t sequence = begin; sequence < end; sequence++) {
        const float* previous = call.initial + sequence * call.lanes;
        for (int64_t row = sequence * call.steps; row < (sequence + 1) * call.steps; row++) {
            forward_step(call, row, previous);
            previous = call.states + row * call.lanes;
        }
    }
}

KERNEL_FN void backward_step(const Backward& call, int64_t row, const float* previous, float* carry) {
    int64_t lanes = call.lanes;
    const float *candidate = call.gates + row * 3 * lanes, *gate = candidate + lanes, *highway = gate + lanes;
    const float *x = call.x + row * lanes, *state = call.states + row * lanes;
    const float* grad_output = call.grad_output + row * lanes;
    float *grad_candidate = call.grad_gates + row * 3 * lanes, *grad_gate = grad_candidate + lanes;
    float *grad_highway = grad_gate + lanes, *grad_x = call.grad_x + row * lanes;
    uint32_t kept = mingru_kept(call.reset, row);
    INDEPENDENT_LANES
    for (int64_t lane = 0; lane < lanes; lane++) {
        MingruGradient gradient =
            mingru_gradient(candidate[lane], gate[lane], highway[lane], x[lane], mingru_keep(previous[lane], kept),
                            state[lane], grad_output[lane], carry[lane]);
        grad_candidate[lane] = gradient.candidate;
        grad_gate[lane] = gradient.gate;
        grad_highway[lane] = gradient.highway;
        grad_x[lane] = gradient.x;
        carry[lane] = mingru_keep(gradient.previous, kept);
    }
}

template <class Set>
KERNEL_FN void backward(const Backward& call, int64_t begin, int64_t end) {
    for (int64_t sequence = begin; sequence < end; sequence++) {
        int64_t first_lane = sequence * call.lanes;
        float* carry = call.grad_initial + first_lane;
        for (int64_t lane = 0; lane < call.lanes; lane++) carry[lane] = call.grad_final[first_lane + lane];
        int64_t first_row = sequence * call.steps;
        for (int64_t row = first_row + call.steps - 1; row >= first_row; row--) {
            const float* previous = row == first_row ? call.initial + first_lane : call.states + (row - 1) * call.lanes;
            backward_step(call, row, previous, carry);
        }
    }
}

KERNEL_VARIANTS(forward, Forward)
KERNEL_VARIANTS(backward, Backward)

int64_t grain(int64_t steps, int64_t lanes) { return GRAIN_LANES / (steps * lanes) + 1; }

}  // namespace

extern "C" void puffer_mingru_forward(const float* gates, const float* x, const uint8_t* reset, const float* initial,
                                      float* output, float* states, int64_t sequences, int64_t steps, int64_t lanes,
                                      KernelParallelFor* parallel_for) {
    Forward call = {gates, x, reset, initial, output, states, steps, lanes};
    kernel_run(parallel_for, sequences, grain(steps, lanes), forward_variant(), &call);
}

extern "C" void puffer_mingru_backward(const float* gates, const float* x, const uint8_t* reset, const float* initial,
                                       const float* states, const float* grad_output, const float* grad_final,
                                       float* grad_gates, float* grad_x, float* grad_initial, int64_t sequences,
                                       int64_t steps, int64_t lanes, KernelParallelFor* parallel_for) {
    Backward call = {gates,      x,          reset,  initial,      states, grad_output,
                     grad_final, grad_gates, grad_x, grad_initial, steps,  lanes};
    kernel_run(parallel_for, sequences, grain(steps, lanes), backward_variant(), &call);
}

extern "C" void puffer_mingru_exp(const float* x, float* result, int64_t count) {
    for (int64_t i = 0; i < count; i++) result[i] = mingru_exp(x[i]);
}
