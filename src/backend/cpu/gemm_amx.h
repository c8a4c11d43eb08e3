#pragma once

#include "backend/cpu/gemm_panels.h"

// The products of gemm_panels.h on processors with AMX.
namespace nmt::cpu {

void multiply_bf16_by_amx(const PanelProduct& p);
void multiply_bf16_by_amx(const TransposedPanelProduct& p);

// In three parts of bf16: six of their nine products are the product of two numbers up to 2^-24 of it. Parts below
// 2^-126 count as zero, so that numbers below 2^-102 have fewer bits; products within 2^-7 of the largest number may
// become infinite. Where a number is infinite or no number, or nearly the largest, its tile's rows go by vectors: all
// of them, so that the last bits of the others depend on it.
void multiply_f32_by_amx(const PanelProduct& p);
void multiply_f32_by_amx(const TransposedPanelProduct& p);

}  // namespace nmt::cpu
