#pragma once

#include <mutex>
#include <vector>

#include "backend/cpu/gemm.h"
#include "base/log.h"

namespace nmt::testing {

// The types that matrix products are tested with: bf16 only where the processor has it.
inline std::vector<DType> compute_types() {
  if (cpu::multiplies_bf16()) return {DType::kF32, DType::kBF16};
  static std::once_flag said;
  std::call_once(said, [] { log::warn("SKIPPED: bf16: this processor has no matrix products of it"); });
  return {DType::kF32};
}

}  // namespace nmt::testing
