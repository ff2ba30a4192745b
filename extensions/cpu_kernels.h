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

// All arrays are contiguous [segments, columns] with columns >= 1; `advantages` overlaps none of the others. `present`
// is 1 where the agent acts and 0 where it is absent; NULL where every agent is always there.
void puffer_advantage(const float* values, const float* rewards, const float* terminals, const float* ratio,
                      const float* present, float* advantages, int64_t segments, int64_t columns, float gamma,
                      float gae_lambda, float rho_clip, float c_clip, KernelParallelFor* parallel_for);

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

struct MuonMatrix {
    float* x;  // [rows, padded_columns], rows <= columns, in and out; 0 in the padding
    int64_t rows, columns;
    int64_t padded_rows, padded_columns;  // up to a multiple of MATMUL_LANES
    float* scratch;                       // [(padded_columns + 2 * rows) * padded_rows + rows * padded_columns]
};

// `steps` of Muon's iteration with a, b and c for `count` matrices, see orthogonalize.py.
void puffer_orthogonalize(const MuonMatrix* matrices, int64_t count, int64_t steps, float a, float b, float c,
                          KernelParallelFor* parallel_for);

// ---------------------------------------------------------------------------------------------------- small policies

enum { MATMUL_LANES = 16 };  // columns of the right matrix and of the result come in multiples of this
enum { LAYER_MAX_INPUTS = 8 };
enum { LAYER_MAX_PARAMETERS = 4 };
enum { LAYER_MAX_SIZES = 20 };
enum { LAYER_MAX_STATES = 2 };
enum { LAYER_MAX_NUMBERS = 2 };
enum { NETWORK_MAX_LAYERS = 64 };
enum { NETWORK_MAX_STATES = 64 };
enum { PPO_METRICS = 7 };  // in the order of losses.METRICS
enum { LAYER_LINEAR, LAYER_ONE_HOT, LAYER_CONVOLUTION, LAYER_MINGRU, LAYER_LSTM, LAYER_GRU, LAYER_NORM };
enum { LAYER_ACTIVATION = 7, LAYER_ADD, LAYER_MULTIPLY, LAYER_AFFINE, LAYER_CONCATENATE, LAYER_POOL };
enum { LAYER_SCALE = 13, LAYER_ARRANGE, LAYER_EMBEDDING, LAYER_COMPARE, LAYER_ATTENTION, LAYER_STATE };
enum { LAYER_FEATURES = 19 };
enum { ACTIVATION_LINEAR, ACTIVATION_RELU, ACTIVATION_TANH, ACTIVATION_GELU };
enum { ACTIVATION_GELU_TANH = 4, ACTIVATION_SIGMOID, ACTIVATION_SILU, ACTIVATION_ELU, ACTIVATION_LEAKY_RELU };
enum { ACTIVATION_SOFTPLUS = 9 };
enum { COMPARE_GREATER, COMPARE_GREATER_EQUAL, COMPARE_LESS, COMPARE_LESS_EQUAL, COMPARE_EQUAL, COMPARE_UNEQUAL };
enum { GRADIENT_NONE, GRADIENT_FIRST, GRADIENT_ADDED };  // in an input: not wanted, written, added to another reader's
enum { PRODUCTS_FLOAT32, PRODUCTS_BFLOAT16 };            // what factors are rounded to; sums are float32
enum { OBSERVATION_FLOAT, OBSERVATION_BYTE, OBSERVATION_SIGNED_BYTE, OBSERVATION_DOUBLE };
enum { OBSERVATION_SHORT = 4, OBSERVATION_INTEGER, OBSERVATION_LONG };

// One layer of a policy, see layer.h. Values are numbered: 0 is the observation, i + 1 what layer i gives. A row of a
// value is padded to a whole number of registers, and so is every pixel of one that is an image.
struct Layer {
    int64_t kind;
    int64_t num_inputs;
    int64_t inputs[LAYER_MAX_INPUTS];  // the values that it reads, of layers before it
    int64_t input_rows[LAYER_MAX_INPUTS];
    int64_t input_gradients[LAYER_MAX_INPUTS];
    int64_t row;                // of its result
    int64_t is_image;           // whether a few rows at a time go through it and its neighbours of that kind
    int64_t loop;               // 0, or which: the layers of a loop over steps stand together
    int64_t is_differentiated;  // whether a parameter, its own or of a layer before it, has a gradient
    int64_t by_choices;         // whether it gives, where there is a mask, only the logits that this allows
    int64_t products;
    int64_t num_states, first_state;    // of the network's states
    int64_t units;                      // numbers of each of its states
    double numbers[LAYER_MAX_NUMBERS];  // as its kind says, as are the next three
    int64_t sizes[LAYER_MAX_SIZES];
    const float* parameters[LAYER_MAX_PARAMETERS];  // as torch has them; NULL for a bias that is missing
    float* results[LAYER_MAX_PARAMETERS];           // gradients of these; NULL likewise, and for constants
    int64_t packed, gradients;                      // where its memory begins, as puffer_network_plan says
};

// Numbers of one type in an observation that is a row of bytes.
struct ObservationField {
    int64_t kind, offset, count;
};

// A policy, see network.h.
struct Network {
    Layer* layers;  // [num_layers], in the order in which they are computed
    int64_t num_layers;
    int64_t numbers;                 // of an observation
    const ObservationField* fields;  // [num_fields], in whose order its numbers are; NULL where they lie so in its row
    int64_t num_fields, row_bytes;   // row_bytes of a row of fields
    int64_t channels;                // of an image of which a row has one pixel after the other; else 1
    int64_t is_of_categories;        // whether layers read its categories
    int64_t divides_integers;        // whether they are divided by 255
    int64_t is_step_by_step;         // whether rows of a block lie step by step, else sequence by sequence
    int64_t products;                // of the layers that round
    int64_t decision;                // the value that begins with the logits or means,
    int64_t decision_numbers;        // of which there are so many
    int64_t value, value_place;      // the value that holds the value of the state, and which number
    int64_t num_parts;               // of a decision
    const int64_t* part_sizes;       // [num_parts], logits of each; NULL where the parts are numbers
    const float* log_std;            // [num_parts], NULL where the parts are choices
    float* normal;                   // [2, num_parts], filled by network_pack: log_std and the deviations
    float* log_std_results;          // [num_parts], its gradient; NULL for a constant
    const double *mean, *variance;   // [numbers] of the observations, NULL where they are seen as they are
    double epsilon;                  // added to the variance
    float clip;                      // the limit of what is seen
    float* seen;            // [2, numbers], filled by network_pack: what is subtracted, and the scale; channels first
    const int32_t* lowest;  // [cells], the first category of each, NULL where there are none; integers then
    const int32_t *first_columns, *last_columns;  // [cells], of the inputs, or of a pixel's planes
    float* packed;                                // filled by network_pack
    int64_t pack_shares;                          // that threads pack, each of all large layers
    int64_t log_std_gradients;                    // where those of log_std lie, as puffer_network_plan says
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
    const uint8_t* masks;    // [rows, decision_numbers], 0 for choices that are not allowed; NULL allows all
    const uint8_t* present;  // [rows] so far apart, 0 for rows that decide nothing, whose results are zeros; or NULL
    int64_t present_stride;
    void* actions;  // [rows, num_parts] int32 or float; rows of results lie some elements apart
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
    int64_t block, chunks;  // segments in a block; groups of segments with gradients of their own
    const void* actions;    // [count, steps, num_parts] int32 or float
    const uint8_t* masks;   // of every row of the observations [steps, decision_numbers], as for Act; or NULL
    int64_t mask_segment_stride, mask_step_stride;
    const uint8_t* reset;         // [count, steps]
    const float* const* initial;  // states of the layers in their order: [count, width] each
    const float *old_logprobs, *old_values, *advantages, *returns;  // [count, steps]
    const float* weights;                                           // [count, steps] with mean 1, or NULL
    PpoCoefficients coefficients;
    float *ratios, *values;  // [count, steps], results
    float* metrics;          // [PPO_METRICS], results
    double* chunk_metrics;   // [chunks, PPO_METRICS], to work in, as is the next one
    float* chunk_gradients;  // [chunks + 1, gradient_size], the last ones their sums
    int64_t gradient_size;
    float* scratch;  // [slots, scratch_size]
    int64_t slots, scratch_size;
    int32_t* is_outside;  // set to 1 when a segment is no such row, and nothing else is done for this part
};

// What is learned from part after part, and the steps between them.
struct LearnParts {
    int64_t parts;
    const int64_t *counts, *chunks;  // [parts], of each: its segments, and groups of these
    float* advantages;               // of all parts; to be normalised part by part, or NULL if they are ready
    const AdamParameter* parameters;
    int64_t num_parameters;
    const AdamSettings* settings;
    float* gradient;  // [gradient_size], those of all parameters, which is clipped to a norm of max_norm
    int64_t gradient_size;
    double max_norm;
    float* sums;  // [PPO_METRICS], of the metrics of all parts; result
};

// Says whether this processor multiplies bfloat16, which PRODUCTS_BFLOAT16 needs, and whether it is known to multiply
// more of it than of float32: AMD's do twice as many, Intel's with AMX several times as many, one of Intel's without it
// was seen to do half as many.
void puffer_has_bfloat16(int32_t* result, int32_t* is_faster);

// Adds one product by the tiles of matmul.h to the result: the tests hold them to their word. left(r, k) is left[r *
// left_row + k * left_inner]; right [inner, columns], result [rows, columns]; columns are a multiple of MATMUL_LANES.
void puffer_multiply(const float* left, int64_t left_row, int64_t left_inner, const float* right, float* result,
                     int64_t rows, int64_t columns, int64_t inner, int64_t products, int64_t is_packed);

// Says where the memory of every layer lies, and how many floats `packed` and the gradients of a chunk take: two sizes.
void puffer_network_plan(Network* network, int64_t* sizes);

// Floats that the scratch memory of a slot takes.
void puffer_network_scratch(const Network* network, int64_t sequences, int64_t steps, int64_t* size);

// Copies the parameters as they are now to `packed`, which was zeros before the first time; the calls below use the
// copy.
void puffer_network_pack(const Network* network, const KernelThreads* threads);

void puffer_network_act(const Act* call, const KernelThreads* threads);

void puffer_network_learn(const Learn* call, const KernelThreads* threads);

// Learns from parts that lie one after the other, and steps the parameters after each. Segments and chunks of `all` are
// those of the largest part; its ratios, values and metrics become those of the last part. The layers have no states,
// and no weights are given.
void puffer_network_train(const Learn* all, const LearnParts* parts, const KernelThreads* threads);

// END DECLARATIONS
}
