#pragma once

#include "backend/cpu/gemm_panels.h"

// The products of gemm_panels.h in bf16 on processors with AMX.
namespace nmt::cpu {

void multiply_panels_by_amx(const PanelProduct& p);
void multiply_panels_by_amx(const TransposedPanelProduct& p);

}  // namespace nmt::cpu
