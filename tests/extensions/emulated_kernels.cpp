// emulated_kernels.cpp - the CUDA kernels of the policy, the advantages and the optimizer.
#include "emulated.h"

#include "advantage.cu"
#include "mingru.cu"
#include "muon.cu"

EMULATED(puffer_advantage)
EMULATED(puffer_advantage_of_absent)
EMULATED(puffer_mingru_forward)
EMULATED(puffer_mingru_backward)
EMULATED(puffer_muon_begin)
EMULATED(puffer_muon_end)
