#pragma once

#include "backend/cpu/gemm_panels.h"

// The products of gemm_panels.h on processors with AMX.
namespace nmt::cpu {

void multiply_bf16_by_amx(const PanelProduct& p);
void multiply_bf16_by_amx(const TransposedPanelProduct& p);

// In three parts of bf16: six of their nine products are the product of two numbers up to 2^-24 of it. Where a number
// is infinite or no number, or nearly the largest, by vectors.
void multiply_f32_by_amx(const PanelProduct& p);
void multiply_f32_by_amx(const TransposedPanelProduct& p);

}  // namespace nmt::cpu
