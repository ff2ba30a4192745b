// muon.cu - what a step of Muon does before and after its products, for matrices of several shapes at once. See
// optimizers.py and orthogonalize.py.
#include "kernel.h"
#include "warp.h"

// BEGIN DECLARATIONS

enum { MUON_MATRICES = 32 };  // of a launch, at most

// A block has one of them. In the stack, [matrices][rows][columns], it lies flat, with zeros around it.
struct MuonMatrices {
    float* parameters[MUON_MATRICES];  // [rows][columns] each, as are the next two
    const float* gradients[MUON_MATRICES];
    float* momentums[MUON_MATRICES];
    int64_t rows[MUON_MATRICES], columns[MUON_MATRICES];
};

// END DECLARATIONS

// Moves the momentum towards the gradient, and lays what the step follows, Nesterov's, into the stack, with norm 1.
extern "C" __global__ void __launch_bounds__(BLOCK)
    puffer_muon_begin(float* stack, MuonMatrices matrices, long long stack_rows, long long stack_columns,
                      float momentum) {
    __shared__ Pair of_warps[BLOCK / WARP];
    int index = blockIdx.x;
    long long rows = matrices.rows[index], columns = matrices.columns[index], size = stack_rows * stack_columns;
    const float* gradients = matrices.gradients[index];
    float* momentums = matrices.momentums[index];
    stack += index * size;
    Pair squares = {0.0f, 0.0f};
    for (long long i = threadIdx.x; i < size; i += BLOCK) {
        long long row = i / stack_columns, column = i % stack_columns;
        if (rows > columns) {
            long long turned = row;
            row = column;
            column = turned;
        }
        float step = 0.0f;
        if (row < rows && column < columns) {
            float gradient = gradients[row * columns + column], *moved = &momentums[row * columns + column];
            *moved += (1.0f - momentum) * (gradient - *moved);
            step = gradient + momentum * (*moved - gradient);
        }
        stack[i] = step;
        squares.first += step * step;
    }
    float norm = sqrtf(sum_of_block(squares, of_warps).first);
    float scale = 1.0f / (norm > 1e-7f ? norm : 1e-7f);
    for (long long i = threadIdx.x; i < size; i += BLOCK) stack[i] *= scale;
}

// Steps the parameters along the stack by `rate` times sqrt(max(1, rows / columns)).
extern "C" __global__ void __launch_bounds__(BLOCK)
    puffer_muon_end(const float* stack, const float* rate, MuonMatrices matrices, long long stack_rows,
                    long long stack_columns, float weight_decay) {
    int index = blockIdx.x;
    long long rows = matrices.rows[index], columns = matrices.columns[index];
    float* parameters = matrices.parameters[index];
    stack += index * stack_rows * stack_columns;
    float ratio = (float)rows / (float)columns, length = *rate * sqrtf(ratio > 1.0f ? ratio : 1.0f);
    for (long long i = threadIdx.x; i < rows * columns; i += BLOCK) {
        long long row = i / columns, column = i % columns;
        float step = rows > columns ? stack[column * stack_columns + row] : stack[row * stack_columns + column];
        parameters[i] = parameters[i] * (1.0f - *rate * weight_decay) - length * step;
    }
}
