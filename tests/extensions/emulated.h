// emulated.h - a CUDA kernel behind a function shaped like cuLaunchKernel.
#pragma once

#include "cuda_on_cpu.h"

// One memory for all threads of a block, as blocks follow one another.
#undef __shared__
#define __shared__ static

#define EMULATED(kernel)                                                                                   \
    extern "C" void launch_##kernel(unsigned grid, unsigned block_x, unsigned block_y, void** arguments) { \
        cuda_on_cpu::launch(kernel, grid, block_x, block_y, arguments);                                    \
    }
