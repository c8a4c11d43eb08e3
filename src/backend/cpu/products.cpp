#include "backend/cpu/products.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "backend/cpu/gemm_bytes.h"
#include "backend/cpu/gemm_panels.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/onednn.h"
#include "backend/cpu/onednn_products.h"
#include "backend/cpu/scratch.h"
#include "base/error.h"
#include "base/math.h"

namespace nmt::cpu {

namespace {

OneDnnKey packed_key(int64_t m, int64_t n, int64_t k, DType t, DType ty, const Epilogue& e, bool partial) {
  const bool relu = e.activation == Activation::kRelu;
  return {m, n, k, k, 1, 0, 0, t, ty, e.bias != nullptr, relu, e.held == Held::kAddend, partial};
}

}  // namespace

// oneDNN chooses for a full block of rows.
PackedLayout::PackedLayout(DType t, int64_t n, int64_t k) : t_(t), n_(n), k_(k) {
  if (has_panel_products(t, k))
    kind_ = Kind::kPanels;
  else if (t == DType::kI8)
    kind_ = Kind::kBytes;
  else if (n > 0 && k > 0)
    product_ = packed_product(packed_key(kRowBlock, n, k, t, t == DType::kI8 ? DType::kI32 : t, {}, false));
}

PackedLayout PackedLayout::of_rows(DType tx, int64_t n, int64_t rows) {
  return {type_of_copies(tx), n, round_up(rows, 64)};
}

int64_t PackedLayout::bytes() const {
  if (kind_ != Kind::kOneDnn) return offset_of(round_up(n_, kPanel));
  return product_ == nullptr ? 0 : static_cast<int64_t>(product_->w.get_size());
}

bool PackedLayout::has_panels() const {
  return kind_ != Kind::kOneDnn || (product_ != nullptr && product_->panel != dnnl::memory::format_tag::undef);
}

int64_t PackedLayout::offset_of(int64_t column) const { return column / kPanel * panel_bytes(t_, k_); }

void PackedLayout::pack(int64_t begin, int64_t end, DType from, const void* w, int64_t row, int64_t column,
                        std::byte* packed) const {
  if (begin == end || k_ == 0) return;
  check(has_panels() || (begin == 0 && end == n_), "a layout without panels");
  if (kind_ == Kind::kBytes) {
    check(from == DType::kI8 && row == 1 && column == k_, "bytes are packed column by column");
    return pack_bytes(begin, end, k_, static_cast<const int8_t*>(w), packed);
  }
  if (kind_ == Kind::kPanels) {
    check(from == DType::kF32 && (row == 1 || column == 1), "panels are packed from columns or rows of float32");
    if (column == 1) return cpu::pack_rows(t_, k_, {begin, end, 0, k_}, from, k_, w, row, packed);
    check(column == k_, "columns of {} in {}", k_, column);
    return pack_columns(t_, k_, begin, end, static_cast<const float*>(w), packed);
  }
  const dnnl::memory::desc plain({k_, end - begin}, onednn_type(from), dnnl::memory::dims{row, column});
  const auto layout =
      has_panels() ? dnnl::memory::desc({k_, end - begin}, onednn_type(t_), product_->panel) : product_->w;
  auto& engine = onednn_engine();
  auto& stream = thread_stream();
  dnnl::memory source(plain, engine, const_cast<void*>(w)), target(layout, engine, packed + offset_of(begin));
  dnnl::reorder(source, target).execute(stream, source, target);
}

void PackedLayout::pack_row_range(int64_t begin, int64_t end, const float* x, std::byte* packed) const {
  check(has_row_ranges(), "a layout without panels of nmt's own");
  cpu::pack_rows(t_, k_, {0, n_, begin, end}, DType::kF32, end - begin, x, n_, packed);
}

void PackedLayout::pack_rows(DType tx, int64_t begin, int64_t end, int64_t rows, const void* x, int64_t ldx,
                             std::byte* packed) const {
  check(t_ == type_of_copies(tx), "rows of {} in a layout of {}", name_of(tx), name_of(t_));
  if (kind_ == Kind::kPanels) return cpu::pack_rows(t_, k_, {begin, end, 0, k_}, tx, rows, x, ldx, packed);
  if (rows == k_) return pack(begin, end, t_, x, ldx, 1, packed);
  const int64_t columns = end - begin;
  thread_local Scratch scratch;
  std::byte* padded = scratch.get(static_cast<size_t>(k_ * columns) * size_of(t_));
  for (int64_t r = 0; r < rows; ++r)
    std::memcpy(offset(padded, r * columns, t_), offset(x, r * ldx, t_), static_cast<size_t>(columns) * size_of(t_));
  std::memset(offset(padded, rows * columns, t_), 0, static_cast<size_t>((k_ - rows) * columns) * size_of(t_));
  pack(begin, end, t_, padded, columns, 1, packed);
}

namespace {

// y [m, n] of operands with k = 0, which oneDNN 3 leaves as it is: the epilogue of zeros.
void multiply_nothing(int64_t m, int64_t n, DType ty, void* y, const Epilogue& e) {
  if (ty == DType::kI32) {
    std::memset(y, 0, static_cast<size_t>(m * n) * size_of(ty));
    return;
  }
  std::vector<float> row(static_cast<size_t>(n));
  for (int64_t r = 0; r < m; ++r) {
    void* to = offset(y, r * n, ty);
    std::ranges::fill(row, 0.f);
    if (e.held == Held::kAddend) convert(ty, to, DType::kF32, row.data(), n);
    if (e.bias != nullptr) add_f32(0, n, e.bias, row.data());
    if (e.activation == Activation::kRelu) relu(DType::kF32, 0, n, row.data(), row.data());
    convert(DType::kF32, row.data(), ty, to, n);
  }
}

}  // namespace

// oneDNN's rows are taken in blocks of 256 and what is left, which rows of zeros fill up: 16 or more to a multiple of
// 16, so that few primitives serve every number of rows, and one to two, as its fast code has no product of one row. It
// wants rows of y without gaps.
void PackedLayout::multiply(int64_t begin, int64_t end, int64_t m, const void* x, const std::byte* packed, DType ty,
                            void* y, int64_t ldy, const Epilogue& e) const {
  check(kind_ != Kind::kBytes, "products of bytes have scales");
  const int64_t n = end - begin;
  if (m == 0 || n == 0) return;
  const bool partial = n != n_;
  check(!partial || has_panels(), "a layout without panels");
  if (kind_ == Kind::kPanels && k_ > 0) {
    return multiply_panels({t_, m, n, k_, x, packed + offset_of(begin), ty, y, ldy, e});
  }
  const auto bytes = [](int64_t count, DType t) { return static_cast<size_t>(count) * size_of(t); };
  if (n != ldy || e.held == Held::kRelu) {
    thread_local Scratch scratch;
    std::byte* tile = scratch.get(bytes(m * n, ty));
    const auto row_of_y = [&](int64_t r) { return offset(y, r * ldy, ty); };
    const auto row_of_tile = [&](int64_t r) { return offset(tile, r * n, ty); };
    if (e.held == Held::kAddend)
      for (int64_t r = 0; r < m; ++r) std::memcpy(row_of_tile(r), row_of_y(r), bytes(n, ty));
    const bool relu = e.held == Held::kRelu;
    multiply(begin, end, m, x, packed, ty, tile, n, {e.bias, e.activation, relu ? Held::kNothing : e.held});
    for (int64_t r = 0; r < m; ++r) {
      if (relu)
        relu_backward(ty, 0, n, row_of_y(r), row_of_tile(r), row_of_y(r));
      else
        std::memcpy(row_of_y(r), row_of_tile(r), bytes(n, ty));
    }
    return;
  }
  if (k_ == 0) return multiply_nothing(m, n, ty, y, e);
  const auto layout = partial ? dnnl::memory::desc({k_, n}, onednn_type(t_), product_->panel) : product_->w;
  const void* b = packed + offset_of(begin);
  for (int64_t row = 0; row < m; row += kRowBlock) {
    const int64_t rows = std::min(m - row, kRowBlock),
                  padded = rows < 16 ? std::max<int64_t>(2, rows) : round_up(rows, 16);
    const void* from = offset(x, row * k_, t_);
    void* to = offset(y, row * n, ty);
    const auto product = packed_product(packed_key(padded, n, k_, t_, ty, e, partial), &layout);
    if (rows == padded) {
      execute(*product, from, b, to, e.bias);
      continue;
    }
    thread_local Scratch scratch;
    const auto x_bytes = static_cast<size_t>(round_up(static_cast<int64_t>(bytes(padded * k_, t_)), 64));
    std::byte* room = scratch.get(x_bytes + bytes(padded * n, ty));
    std::byte* result = room + x_bytes;
    std::memcpy(room, from, bytes(rows * k_, t_));
    std::memset(room + bytes(rows * k_, t_), 0, bytes((padded - rows) * k_, t_));
    if (e.held == Held::kAddend) std::memcpy(result, to, bytes(rows * n, ty));
    execute(*product, room, b, result, e.bias);
    std::memcpy(to, result, bytes(rows * n, ty));
  }
}

void PackedLayout::multiply_transposed(DType tx, int64_t rows, int64_t m, const void* x, int64_t ldx,
                                       const std::byte* packed, float* y, bool accumulate) const {
  check(t_ == type_of_copies(tx), "columns of {} in a layout of {}", name_of(tx), name_of(t_));
  if (m == 0 || n_ == 0) return;
  if (kind_ == Kind::kPanels) return multiply_panels({tx, t_, m, n_, k_, rows, x, ldx, packed, y, n_, accumulate});
  thread_local Scratch scratch;
  std::byte* columns = scratch.get(static_cast<size_t>(m * k_) * size_of(t_));
  check(t_ == DType::kF32, "columns of {} without panels", name_of(t_));
  transpose(rows, m, static_cast<const float*>(x), ldx, reinterpret_cast<float*>(columns), k_);
  for (int64_t r = 0; r < m; ++r)
    std::memset(offset(columns, r * k_ + rows, t_), 0, static_cast<size_t>(k_ - rows) * size_of(t_));
  multiply(0, n_, m, columns, packed, DType::kF32, y, n_, {.held = accumulate ? Held::kAddend : Held::kNothing});
}

void multiply_plain(DType t, bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const void* a,
                    const void* b, void* c) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    std::memset(c, 0, static_cast<size_t>(m * n) * size_of(t));
    return;
  }
  const auto product = plain_product({m, n, k, transpose_a ? 1 : k, transpose_a ? m : 1, transpose_b ? 1 : n,
                                      transpose_b ? k : 1, t, t, false, false, false});
  execute(*product, a, b, c, nullptr);
}

}  // namespace nmt::cpu
