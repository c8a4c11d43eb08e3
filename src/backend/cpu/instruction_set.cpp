#include "backend/cpu/kernels.h"
#include "backend/cpu/onednn.h"
#include "backend/cpu/targets.h"
#include "base/error.h"

#define HWY_TARGET_INCLUDE "backend/cpu/instruction_set.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace nmt::cpu::HWY_NAMESPACE {

const char* instruction_set() { return hwy::TargetName(HWY_TARGET); }

}  // namespace nmt::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nmt::cpu {

HWY_EXPORT(instruction_set);

const char* instruction_set() {
  if ((hwy::SupportedTargets() & HWY_TARGETS) == 0) {
    fail("this processor has none of the instruction sets of this build: {} or better is needed",
         hwy::TargetName(HWY_STATIC_TARGET));
  }
  return HWY_DYNAMIC_DISPATCH(instruction_set)();
}

bool has_avx512() {
  static const bool has = onednn_has(dnnl::cpu_isa::avx512_core);
  return has;
}

bool has_avx512_bf16() {
  static const bool has = onednn_has(dnnl::cpu_isa::avx512_core_bf16);
  return has;
}

bool has_vnni() {
  static const bool has = onednn_has(dnnl::cpu_isa::avx512_core_vnni);
  return has;
}

}  // namespace nmt::cpu
#endif  // HWY_ONCE
