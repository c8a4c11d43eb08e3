#pragma once

#include <dnnl.hpp>

#include "base/error.h"
#include "tensor/dtype.h"

// The one place that knows the versions of oneDNN: 2 (Debian 12) and 3 (Ubuntu 24.04, Debian 13).
namespace nmt::cpu {

inline dnnl::engine& onednn_engine() {
  static dnnl::engine engine = [] {
    dnnl::set_primitive_cache_capacity(256);  // 1024 unless told: of products that change in size 60 MB
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return engine;
}

inline dnnl::memory::data_type onednn_type(DType t) {
  switch (t) {
    case DType::kF32:
      return dnnl::memory::data_type::f32;
    case DType::kBF16:
      return dnnl::memory::data_type::bf16;
    default:
      check(false, "no matrix products of {}", name_of(t));
      return dnnl::memory::data_type::undef;
  }
}

// Whether oneDNN uses this instruction set: the processor has it, and ONEDNN_MAX_CPU_ISA does not forbid it.
inline bool onednn_has(dnnl::cpu_isa isa) {
  const auto bits = [](dnnl::cpu_isa i) { return static_cast<unsigned>(i); };
  return (bits(dnnl::get_effective_cpu_isa()) & bits(isa)) == bits(isa);
}

inline dnnl::matmul::primitive_desc matmul_descriptor(const dnnl::memory::desc& a, const dnnl::memory::desc& b,
                                                      const dnnl::memory::desc& c,
                                                      const dnnl::primitive_attr& attributes = {}) {
#if DNNL_VERSION_MAJOR >= 3
  return {onednn_engine(), a, b, c, attributes};
#else
  return {dnnl::matmul::desc(a, b, c), attributes, onednn_engine()};
#endif
}

}  // namespace nmt::cpu
