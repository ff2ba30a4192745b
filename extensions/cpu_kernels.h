// cpu_kernels.h - what Python calls of the CPU kernels, and what it hands over.
//
// declarations.py reads all between the marks and makes ctypes of it, so this is said nowhere else. Python fills
// structures by the names of their members. All pointers are borrowed; an array that may be missing is NULL.
#pragma once

#include "kernel.h"

extern "C" {

// What setup.py compiled the library from, by which Python knows that it is what stands here.
const char* puffer_declarations(void);

// BEGIN DECLARATIONS

// ------------------------------------------------------------------------------------------------------- advantages

// All arrays are contiguous [segments, columns] with columns >= 1; `advantages` overlaps none of the others.
void puffer_advantage(const float* values, const float* rewards, const float* terminals, const float* ratio,
                      float* advantages, int64_t segments, int64_t columns, float gamma, float gae_lambda,
                      float rho_clip, float c_clip, KernelParallelFor* parallel_for);

// ------------------------------------------------------------------------------------------------------------ MinGRU

// Names and shapes as in mingru.cpp.
void puffer_mingru_forward(const float* gates, const float* x, const uint8_t* reset, const float* initial,
                           float* output, float* states, int64_t sequences, int64_t steps, int64_t lanes,
                           KernelParallelFor* parallel_for);

void puffer_mingru_backward(const float* gates, const float* x, const uint8_t* reset, const float* initial,
                            const float* states, const float* grad_output, const float* grad_final, float* grad_gates,
                            float* grad_x, float* grad_initial, int64_t sequences, int64_t steps, int64_t lanes,
                            KernelParallelFor* parallel_for);

// e^x of `count` numbers, none above 0: the tests hold the kernel's own exponential to its word.
void puffer_mingru_exp(const float* x, float* result, int64_t count);

// -------------------------------------------------------------------------------------------------------- optimizers

struct AdamParameter {
    float* parameter;  // [size], as are the next three
    float* gradient;
    float *average, *square;  // running means of the gradient and of its square
    float* steps;             // taken so far, a whole number
    int64_t size;
};

struct AdamSettings {
    double learning_rate, beta1, beta2, epsilon, weight_decay;
};

// A step of Adam with decoupled weight decay (Loshchilov and Hutter 2017) for `count` parameters.
void puffer_adam_step(const AdamParameter* parameters, int64_t count, const AdamSettings* settings);

// Scales the gradients so that the norm of all together is at most `limit`; where it is NaN, so are they.
void puffer_clip_gradients(const AdamParameter* parameters, int64_t count, double limit);

// Names as in orthogonalize.cpp.
void puffer_orthogonalize(float* x, float* scratch, int64_t rows, int64_t columns, int64_t padded_rows,
                          int64_t padded_columns, int64_t steps, float a, float b, float c);

// ---------------------------------------------------------------------------------------------------- small policies

enum { MATMUL_LANES = 16 };     // columns of the right matrix and of the result come in multiples of this
enum { CHAIN_MAX_LAYERS = 8 };  // of each kind
enum { NETWORK_MAX_CHAINS = 2 };
enum { PPO_METRICS = 7 };  // in the order of losses.METRICS
enum { ACTIVATION_LINEAR, ACTIVATION_RELU, ACTIVATION_TANH, ACTIVATION_GELU };
enum { RECURRENCE_MINGRU, RECURRENCE_LSTM };
enum { PRODUCTS_FLOAT32, PRODUCTS_BFLOAT16 };  // what factors are rounded to; sums are float32
enum { OBSERVATION_FLOAT, OBSERVATION_BYTE, OBSERVATION_SIGNED_BYTE, OBSERVATION_DOUBLE };

// Square filters that go over an image without padding, see convolution_layer.h.
struct Convolution {
    int64_t channels, height, width;  // of what they read; channels of an observation of categories are their planes
    int64_t filters, size, stride;
};

// Layers one after the other, see network_chain.h.
struct Chain {
    int64_t num_convolutions;  // before the encoder, whose inputs are the numbers of the last one's result then
    Convolution convolutions[CHAIN_MAX_LAYERS];
    int64_t inputs, padded_inputs;
    int64_t cells;           // of an observation, whose categories are the inputs; 0 where its numbers are
    int64_t units, width;    // of every layer: as torch has it, and padded
    int64_t encoder_layers;  // at least 1
    int64_t activation;      // of the encoder
    int64_t recurrent_layers;
    int64_t recurrence;  // kind of these layers
    int64_t outputs, padded_outputs;
    int64_t products;
    const float* const* weights;              // encoder, recurrent, head: as torch has them, [outputs, inputs]
    const float* const* biases;               // encoder, recurrent, head; NULL for zeros
    float* const* weight_results;             // gradients, of the shapes of weights
    float* const* bias_results;               // of biases; NULL where there is none
    const float* const* convolution_weights;  // of the convolutions alone, [filters, channels, size, size], as are:
    const float* const* convolution_biases;
    float* const* convolution_weight_results;
    float* const* convolution_bias_results;
    float* packed;  // filled by chain_pack
};

// A policy, see network.h.
struct Network {
    Chain chains[NETWORK_MAX_CHAINS];  // the actor's and the critic's
    int64_t num_chains;                // 1 where the value is the last output of the actor
    int64_t num_parts;                 // of a decision
    const int64_t* part_sizes;         // [num_parts], logits of each; NULL where the parts are numbers
    const float* log_std;              // [num_parts], NULL where the parts are choices
    float* normal;                     // [2, num_parts], filled by network_pack: log_std and the deviations
    float* log_std_results;            // [num_parts], its gradient
    const double *mean, *variance;     // [numbers] of the observations, NULL where they are seen as they are
    double epsilon;                    // added to the variance
    float clip;                        // the limit of what is seen
    float* seen;                       // [2, numbers], filled by network_pack: what is subtracted, and the scale
    const int32_t* lowest;             // [cells], the first category of each, NULL where there are none; bytes then
    const int32_t *first_columns, *last_columns;  // [cells], of the inputs, or of a pixel's planes
};

// Rows of observations anywhere in memory; strides in elements.
struct Observations {
    const void* data;
    int64_t kind;
    int64_t segment_stride, step_stride;
};

// Threads of Python's, for kernels that call them often: nobody waits there for a thread that has not begun.
struct KernelThreads {
    KernelRun* run;
    void* pool;
};

struct Act {
    const Network* network;
    Observations observations;  // one step
    void* stored;               // [rows, inputs] of the observations' type, where a copy is left; or NULL
    int64_t rows, block;        // rows in a block
    float* const* states;       // of the layers in their order: [rows, width] each, overwritten
    const float* noise;  // [rows, num_parts]: of choices uniform in [0, 1), of numbers normal; NULL without a decision
    void* actions;       // [rows, num_parts] int32 or float; rows of results lie some elements apart
    int64_t action_stride;
    float* logprobs;  // [rows]
    int64_t logprob_stride;
    float* values;  // [rows]
    int64_t value_stride;
    float* scratch;  // [slots, scratch_size]
    int64_t slots, scratch_size;
    int32_t* has_nan;  // set to 1 when a logit or a number is NaN
};

struct PpoCoefficients {
    float clip_coef, vf_clip_coef, vf_coef, ent_coef;
};

struct Learn {
    const Network* network;
    Observations observations;
    const int64_t* segments;  // [count], rows of the observations, of which there are so many:
    int64_t all_segments;
    int64_t count, steps;
    int64_t block, chunks;        // segments in a block; groups of segments with gradients of their own
    const void* actions;          // [count, steps, num_parts] int32 or float
    const uint8_t* reset;         // [count, steps]
    const float* const* initial;  // states of the layers in their order: [count, width] each
    const float *old_logprobs, *old_values, *advantages, *returns;  // [count, steps]
    const float* weights;                                           // [count, steps] with mean 1, or NULL
    PpoCoefficients coefficients;
    float *ratios, *values;  // [count, steps], results
    float* metrics;          // [PPO_METRICS], results
    double* chunk_metrics;   // [chunks, PPO_METRICS], to work in, as is the next one
    float* chunk_gradients;  // [chunks, gradient_size]
    int64_t gradient_size;
    float* scratch;  // [slots, scratch_size]
    int64_t slots, scratch_size;
    int32_t* is_outside;  // set to 1 when a segment is no such row, and nothing else is done
};

// Sets the result to whether this processor multiplies bfloat16; PRODUCTS_BFLOAT16 is for those alone.
void puffer_has_bfloat16(int32_t* result);

// Adds one product by the tiles of matmul.h to the result: the tests hold them to their word. left(r, k) is left[r *
// left_row + k * left_inner]; right [inner, columns], result [rows, columns]; columns are a multiple of MATMUL_LANES.
void puffer_multiply(const float* left, int64_t left_row, int64_t left_inner, const float* right, float* result,
                     int64_t rows, int64_t columns, int64_t inner, int64_t products, int64_t is_packed);

// Floats that `packed` of a chain takes.
void puffer_chain_size(const Chain* chain, int64_t* size);

// Floats that the gradients of a chunk and the scratch memory of a slot take: two sizes.
void puffer_network_sizes(const Network* network, int64_t sequences, int64_t steps, int64_t* sizes);

// Copies the parameters as they are now; the calls below use the copy for forward.
void puffer_network_pack(const Network* network);

void puffer_network_act(const Act* call, const KernelThreads* threads);

void puffer_network_learn(const Learn* call, const KernelThreads* threads);

// END DECLARATIONS
}
