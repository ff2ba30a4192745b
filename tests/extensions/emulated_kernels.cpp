// emulated_kernels.cpp - every CUDA kernel behind one function shaped like cuLaunchKernel.
#include "cuda_on_cpu.h"

#include "advantage.cu"
#include "mingru.cu"

#define EMULATED(kernel)                                                                                   \
    extern "C" void launch_##kernel(unsigned grid, unsigned block_x, unsigned block_y, void** arguments) { \
        cuda_on_cpu::launch(kernel, grid, block_x, block_y, arguments);                                    \
    }

EMULATED(puffer_advantage)
EMULATED(puffer_advantage_of_absent)
EMULATED(puffer_mingru_forward)
EMULATED(puffer_mingru_backward)
