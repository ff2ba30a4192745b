// emulated_ppo.cpp - the CUDA kernels of the update, apart from others that have the names of CPU kernels they declare.
#include "emulated.h"

#include "ppo.cu"

EMULATED(puffer_segments)
EMULATED(puffer_draw)
EMULATED(puffer_gather)
EMULATED(puffer_ppo_choices)
EMULATED(puffer_ppo_numbers)
