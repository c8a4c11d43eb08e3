#include "backend/cpu/gemm.h"

#include <algorithm>

#include "backend/cpu/amx.h"
#include "backend/cpu/gemm_int8.h"
#include "backend/cpu/products.h"
#include "base/error.h"
#include "base/math.h"

namespace nmt::cpu {
namespace {

constexpr int64_t kManyRows = 2048;          // fewer rows than these are shared out by columns, too
constexpr int64_t kTokenBlock = 1024;        // rows of dy and x that a weight gradient sums at a time
constexpr int64_t kFewTokens = 512;          // the least that a task sums where each has tokens of its own
constexpr int64_t kTokenTasks = 8;           // as many of those at least, where there are tokens enough
constexpr int64_t kSmallGradient = 1 << 16;  // elements of a weight gradient of which every task may have a sum

}  // namespace

bool multiplies_bf16() { return has_avx512(); }

const char* products_by() {
  if (has_amx()) return "AMX";
  return has_avx512() ? "AVX-512" : "AVX2";
}

void PackedMatrix::pack(ThreadPool& pool, DType t, const float* w, int64_t n, int64_t k, bool transposed) {
  check(t != DType::kI8 || !transposed, "int8 weights have no gradients");
  if (t == DType::kI8) return pack_int8(pool, w, n, k);
  set_layout(t, n, k);
  pool.parallel_for(n, kTaskColumns, [&](int64_t begin, int64_t end) {
    if (transposed)
      layout_.pack_rows(DType::kF32, begin, end, k, w + begin, n, data_.data());
    else
      layout_.pack_columns(begin, end, w + begin * k, data_.data());
  });
}

void PackedMatrix::pack_both(ThreadPool& pool, DType t, const float* w, int64_t n, int64_t k, PackedMatrix& b,
                             PackedMatrix& gradient) {
  b.set_layout(t, n, k);
  gradient.set_layout(t, k, n);
  pool.parallel_for(n, kPanel, [&](int64_t begin, int64_t end) {
    const float* rows = w + begin * k;
    b.layout_.pack_columns(begin, end, rows, b.data_.data());
    gradient.layout_.pack_row_range(begin, end, rows, gradient.data_.data());
  });
}

void PackedMatrix::set_layout(DType t, int64_t n, int64_t k) {
  layout_ = PackedLayout(t, n, k);
  data_.resize(static_cast<size_t>(layout_.bytes()));
}

int64_t PackedMatrix::bytes() const { return static_cast<int64_t>(data_.size() + scales_.size() * sizeof(float)); }

void multiply(ThreadPool& pool, const PackedMatrix& b, int64_t m, DType tx, const void* x, DType ty, void* y,
              const Epilogue& e) {
  const DType t = b.dtype();
  const int64_t n = b.n(), k = b.k();
  if (m == 0 || n == 0) return;
  if (t == DType::kI8) return multiply_int8(pool, b, m, tx, x, ty, y, e);
  check(tx == t, "a product of {} and {}", name_of(tx), name_of(t));
  const bool by_columns = m < kManyRows && n >= 2 * kTaskColumns;
  const int64_t columns = by_columns ? kTaskColumns : n,
                rows = by_columns || m >= kManyRows ? kRowBlock : std::max<int64_t>(16, round_up(m / 4, 16));
  const int64_t parts = divide_up(n, columns);
  pool.parallel_for(parts * divide_up(m, rows), 1, [&](int64_t task, int64_t) {
    const int64_t begin = task % parts * columns, first = task / parts * rows;
    b.layout().multiply(begin, std::min(begin + columns, n), std::min(rows, m - first), offset(x, first * k, t),
                        b.data(), ty, offset(y, first * n + begin, ty), n,
                        {e.bias == nullptr ? nullptr : e.bias + begin, e.activation, e.held});
  });
}

void Operand::assign(const PackedMatrix& b, int64_t m, DType tx, const void* x) {
  x_ = x;
  if (b.dtype() == DType::kI8)
    quantise_int8(nullptr, b, m, tx, x, bytes_, scales_);
  else
    check(tx == b.dtype(), "a product of {} and {}", name_of(tx), name_of(b.dtype()));
}

void multiply_block(const PackedMatrix& b, int64_t begin, int64_t end, const Operand& x, int64_t row, int64_t m,
                    float* y) {
  if (m == 0 || begin == end) return;
  if (b.dtype() == DType::kI8) return multiply_block_int8(b, begin, end, x.bytes_, x.scales_, row, m, y);
  b.layout().multiply(begin, end, m, offset(x.x_, row * b.k(), b.dtype()), b.data(), DType::kF32, y, end - begin);
}

namespace {

// A small dw: each task sums over tokens of its own, and the sums are added up in order.
void small_weight_gradient(ThreadPool& pool, DType t, int64_t m, int64_t n, int64_t k, const void* dy, const void* x,
                           float* dw) {
  thread_local UnsetVector<float> sums;  // the caller's
  const int64_t block_tokens = std::clamp(round_up(m / kTokenTasks, 64), kFewTokens, kTokenBlock);
  const int64_t blocks = divide_up(m, block_tokens), size = n * k;
  sums.resize(static_cast<size_t>(blocks * size));
  float* const partial = sums.data();
  pool.parallel_for(blocks, 1, [&](int64_t block, int64_t) {
    thread_local UnsetVector<std::byte> packed;
    const int64_t first = block * block_tokens, tokens = std::min(block_tokens, m - first);
    const auto layout = PackedLayout::of_rows(t, k, tokens);
    packed.resize(static_cast<size_t>(layout.bytes()));
    layout.pack_rows(t, 0, k, tokens, offset(x, first * k, t), k, packed.data());
    layout.multiply_transposed(t, tokens, n, offset(dy, first * n, t), n, packed.data(), partial + block * size, false);
  });
  pool.parallel_for(size, 1 << 12, [&](int64_t begin, int64_t end) {
    for (int64_t block = 0; block < blocks; ++block) add_f32(begin, end, partial + block * size, dw);
  });
}

}  // namespace

void multiply_transposed(ThreadPool& pool, DType t, int64_t m, int64_t n, int64_t k, const void* dy, const void* x,
                         float* dw) {
  if (m == 0 || n == 0 || k == 0) return;
  if (n * k <= kSmallGradient) return small_weight_gradient(pool, t, m, n, k, dy, x, dw);
  // Rows of dw that one task computes: enough tasks for several cores also where n is small; a function of n alone.
  const int64_t rows = n >= 1024 ? 256 : std::max<int64_t>(16, round_up(n / 4, 16));
  thread_local UnsetVector<std::byte> packed;  // the caller's
  for (int64_t first = 0; first < m; first += kTokenBlock) {
    const int64_t tokens = std::min(kTokenBlock, m - first);
    const auto layout = PackedLayout::of_rows(t, k, tokens);
    packed.resize(static_cast<size_t>(layout.bytes()));
    std::byte* b = packed.data();
    pool.parallel_for(k, kTaskColumns, [&](int64_t begin, int64_t end) {
      layout.pack_rows(t, begin, end, tokens, offset(x, first * k + begin, t), k, b);
    });
    pool.parallel_for(n, rows, [&](int64_t begin, int64_t end) {
      layout.multiply_transposed(t, tokens, end - begin, offset(dy, first * n + begin, t), n, b, dw + begin * k, true);
    });
  }
}

}  // namespace nmt::cpu
