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
    case DType::kI8:
      return dnnl::memory::data_type::s8;
    case DType::kU8:
      return dnnl::memory::data_type::u8;
    case DType::kI32:
      return dnnl::memory::data_type::s32;
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

inline dnnl::memory::dims dims_of(const dnnl::memory::desc& layout) {
#if DNNL_VERSION_MAJOR >= 3
  return layout.get_dims();
#else
  return layout.dims();
#endif
}

inline void append_relu(dnnl::post_ops& post) {
#if DNNL_VERSION_MAJOR >= 3
  post.append_eltwise(dnnl::algorithm::eltwise_relu, 0.f, 0.f);
#else
  post.append_eltwise(1.f, dnnl::algorithm::eltwise_relu, 0.f, 0.f);
#endif
}

inline dnnl::matmul::primitive_desc matmul_descriptor(const dnnl::memory::desc& x, const dnnl::memory::desc& w,
                                                      const dnnl::memory::desc* bias, const dnnl::memory::desc& y,
                                                      const dnnl::primitive_attr& attributes) {
#if DNNL_VERSION_MAJOR >= 3
  if (bias != nullptr) return {onednn_engine(), x, w, *bias, y, attributes};
  return {onednn_engine(), x, w, y, attributes};
#else
  if (bias != nullptr) return {dnnl::matmul::desc(x, w, *bias, y), attributes, onednn_engine()};
  return {dnnl::matmul::desc(x, w, y), attributes, onednn_engine()};
#endif
}

}  // namespace nmt::cpu
