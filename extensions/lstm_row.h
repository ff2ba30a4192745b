// lstm_row.h - one step of one lane of an LSTM and of its gradient.
//
//     i, f, o = sigmoid(input), sigmoid(forget), sigmoid(output)    g = tanh(candidate)
//     memory_t = f * memory_{t-1} + i * g                           hidden_t = o * tanh(memory_t)
//
// As torch.nn.LSTMCell has it, without a branch or a call, so that a loop over lanes becomes vector instructions.
#pragma once

#include "activation_row.h"

typedef struct {
    float input, forget, candidate, output;
} LstmGates;

KERNEL_FN LstmGates lstm_activate(LstmGates sums) {
    LstmGates gates;
    gates.input = mingru_sigmoid(sums.input).value;
    gates.forget = mingru_sigmoid(sums.forget).value;
    gates.candidate = activation_tanh(sums.candidate).value;
    gates.output = mingru_sigmoid(sums.output).value;
    return gates;
}

KERNEL_FN float lstm_memory(LstmGates gates, float previous) {
    return gates.forget * previous + gates.input * gates.candidate;
}

KERNEL_FN float lstm_hidden(LstmGates gates, float memory) { return gates.output * activation_tanh(memory).value; }

typedef struct {
    LstmGates sums;
    float previous;
} LstmGradient;

// The gradients in the sums of the gates and in the memory before the step, from those in the hidden state and in the
// memory after it; `gates` are activated.
KERNEL_FN LstmGradient lstm_gradient(LstmGates gates, float previous, float memory, float grad_hidden,
                                     float grad_memory) {
    Activation seen = activation_tanh(memory);
    grad_memory += grad_hidden * gates.output * seen.slope;
    LstmGradient gradient;
    gradient.sums.input = grad_memory * gates.candidate * (gates.input * (1.0f - gates.input));
    gradient.sums.forget = grad_memory * previous * (gates.forget * (1.0f - gates.forget));
    gradient.sums.candidate = grad_memory * gates.input * (1.0f - gates.candidate * gates.candidate);
    gradient.sums.output = grad_hidden * seen.value * (gates.output * (1.0f - gates.output));
    gradient.previous = grad_memory * gates.forget;
    return gradient;
}
