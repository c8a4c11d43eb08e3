#pragma once

#include <cstdint>
#include <memory>

#include "backend/cpu/onednn.h"
#include "tensor/dtype.h"

// Products of one thread that oneDNN computes: its primitives, made once for each size.
namespace nmt::cpu {

struct OneDnnProduct {
  dnnl::matmul primitive;
  dnnl::memory::desc x, w, y, bias, scratchpad;
  // Where whole blocks of B's columns follow one another: their layout.
  dnnl::memory::format_tag panel = dnnl::memory::format_tag::undef;
};

// What a oneDNN primitive depends on. Products are [m, k] x [k, n]; oneDNN's fast code wants x and y without gaps.
struct OneDnnKey {
  int64_t m, n, k;
  int64_t a_row, a_column, b_row, b_column;  // strides of plain operands; b_row = 0: B is packed
  DType t, ty;                               // of B and y; x is of B's dtype, kU8 for kI8
  bool bias, relu, accumulate;
  bool partial = false;  // B is a part of a wider matrix, and packed in its layout
  bool operator==(const OneDnnKey&) const = default;
};

// Of a packed B; `layout` is its layout where it is packed already, else oneDNN chooses. All are kept.
std::shared_ptr<const OneDnnProduct> packed_product(const OneDnnKey& key, const dnnl::memory::desc* layout = nullptr);
// Of plain operands. Those asked for last are kept.
std::shared_ptr<const OneDnnProduct> plain_product(const OneDnnKey& key);

// y of x and w; the bias may be null.
void execute(const OneDnnProduct& product, const void* x, const void* w, void* y, const float* bias);

// oneDNN's, for the calling thread alone.
dnnl::stream& thread_stream();

}  // namespace nmt::cpu
