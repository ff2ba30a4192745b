// cpu_kernels.cpp - what the library says of itself.
#include "cpu_kernels.h"

const char* puffer_declarations(void) { return KERNEL_DECLARATIONS; }
