#include "backend/cpu/gemm_int8.h"

#include <algorithm>

#include "backend/cpu/gemm_bytes.h"
#include "backend/cpu/products.h"
#include "backend/cpu/scratch.h"
#include "base/error.h"
#include "base/math.h"

namespace nmt::cpu {
namespace {

constexpr int64_t kTaskElements = 1 << 16;  // elements of y that one task computes
constexpr int64_t kMostColumns = 2048;      // of them
constexpr int64_t kQuantisedRows = 16;      // rows of x that one task makes bytes of
constexpr int64_t kLongestSum = INT32_MAX / (255 * 127);

struct Quantised {
  const uint8_t* q;
  const RowScale* scales;

  Quantised from(int64_t row, const PackedMatrix& b) const { return {q + row * bytes_of_row(b.k()), scales + row}; }
};

// y [m, end - begin] with the row stride ldy, in the calling thread; the bias is that of column `begin`.
void multiply_columns(const PackedMatrix& b, int64_t begin, int64_t end, int64_t m, const Quantised& x, DType ty,
                      void* y, int64_t ldy, const Epilogue& e) {
  multiply_bytes({m, b.k(), begin, end, x.q, x.scales, b.data(), b.column_scales(), b.column_sums(), ty, y, ldy, e});
}

}  // namespace

void PackedMatrix::pack_int8(ThreadPool& pool, const float* w, int64_t n, int64_t k) {
  require(k <= kLongestSum,
          "a layer of {} inputs is too wide for products of bytes, of {} at most: use float32 or bf16", k, kLongestSum);
  layout_ = PackedLayout(DType::kI8, n, k);
  scales_.resize(static_cast<size_t>(2 * n));
  data_.resize(static_cast<size_t>(layout_.bytes()));
  pool.parallel_for(n, kTaskColumns, [&](int64_t begin, int64_t end) {
    thread_local Scratch scratch;
    auto* q = reinterpret_cast<int8_t*>(scratch.get(static_cast<size_t>((end - begin) * k)));
    float* scale = scales_.data() + begin;
    quantise_weight({0, end - begin}, k, bounds_fours(), w + begin * k, q, scale, scale + n);
    layout_.pack_columns(begin, end, q, data_.data());
  });
}

void quantise_int8(ThreadPool* pool, const PackedMatrix& b, int64_t m, DType tx, const void* x,
                   UnsetVector<uint8_t>& bytes, std::vector<RowScale>& scales) {
  const int64_t k = b.k();
  bytes.resize(static_cast<size_t>(m * bytes_of_row(k)));
  scales.resize(static_cast<size_t>(m));
  const auto rows = [&, q = bytes.data(), scale = scales.data()](int64_t begin, int64_t end) {
    quantise_rows(tx, {begin, end}, k, largest_byte(), x, q, bytes_of_row(k), scale);
  };
  if (pool == nullptr) return rows(0, m);
  pool->parallel_for(m, kQuantisedRows, rows);
}

void multiply_int8(ThreadPool& pool, const PackedMatrix& b, int64_t m, DType tx, const void* x, DType ty, void* y,
                   const Epilogue& e) {
  check(e.held == Held::kNothing, "int8 weights have no gradients");
  thread_local UnsetVector<uint8_t> bytes;  // the caller's
  thread_local std::vector<RowScale> scales;
  quantise_int8(&pool, b, m, tx, x, bytes, scales);
  const Quantised all{bytes.data(), scales.data()};

  // Tasks for several cores, also where n is small; few where m is.
  const int64_t n = b.n();
  const int64_t rows = std::min(m, kRowBlock), wanted = std::min(kTaskElements / rows, round_up(n, 256) / 4);
  const int64_t columns = round_up(std::min(wanted, kMostColumns), kPanel);
  const int64_t parts = divide_up(n, columns);
  pool.parallel_for(parts * divide_up(m, rows), 1, [&](int64_t task, int64_t) {
    const int64_t column = task % parts * columns, row = task / parts * rows;
    multiply_columns(b, column, std::min(column + columns, n), std::min(rows, m - row), all.from(row, b), ty,
                     offset(y, row * n + column, ty), n, {e.bias == nullptr ? nullptr : e.bias + column, e.activation});
  });
}

void multiply_block_int8(const PackedMatrix& b, int64_t begin, int64_t end, std::span<const uint8_t> bytes,
                         std::span<const RowScale> scales, int64_t row, int64_t m, float* y) {
  const Quantised all{bytes.data(), scales.data()};
  multiply_columns(b, begin, end, m, all.from(row, b), DType::kF32, y, end - begin, {});
}

}  // namespace nmt::cpu
