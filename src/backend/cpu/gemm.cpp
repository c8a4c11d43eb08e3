#include "backend/cpu/gemm.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include <omp.h>

#include "backend/cpu/kernels.h"
#include "backend/cpu/onednn.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/math.h"

namespace nmt::cpu {
namespace {

constexpr int64_t kRowBlock = 256;      // rows of y that one task computes: near oneDNN's best rate, and x stays in L2
constexpr int64_t kPanelColumns = 256;  // columns of B that one task computes where there are few rows
constexpr int64_t kFewRows = 512;       // fewer rows than these are shared out by columns
constexpr int64_t kTokenBlock = 1024;   // rows of dy and x that a weight gradient sums at a time
constexpr int64_t kFewTokens = 512;     // the same where each task has rows of its own
constexpr int64_t kSmallGradient = 1 << 16;  // elements of a weight gradient of which every task may have a sum

// What a oneDNN primitive depends on. Products are [m, k] x [k, n]; oneDNN's fast code wants x and y without gaps.
struct Key {
  int64_t m, n, k;
  int64_t a_row, a_column, b_row, b_column;  // strides of plain operands; b_row = 0: B is packed
  DType t, ty;
  bool bias, relu, accumulate;
  bool panel = false;  // B is packed in the layout of the wider matrix it belongs to
  bool operator==(const Key&) const = default;
};

struct KeyHash {
  size_t operator()(const Key& key) const {
    const int64_t numbers[] = {key.m,
                               key.n,
                               key.k,
                               key.a_row,
                               key.a_column,
                               key.b_row,
                               key.b_column,
                               (static_cast<int64_t>(key.t) << 8) | static_cast<int64_t>(key.ty),
                               key.panel * 8 + key.bias * 4 + key.relu * 2 + key.accumulate};
    return hash64({reinterpret_cast<const char*>(numbers), sizeof numbers});
  }
};

struct Product {
  dnnl::matmul primitive;
  dnnl::memory::desc x, w, y, bias, scratchpad;
};

using Tag = dnnl::memory::format_tag;

// `layout` is B's layout where it is packed already; null: oneDNN chooses.
std::unique_ptr<Product> make(const Key& key, const dnnl::memory::desc* layout) {
  const auto type = onednn_type(key.t);
  auto product = std::make_unique<Product>();
  product->x = {{key.m, key.k}, type, dnnl::memory::dims{key.a_row, key.a_column}};
  if (layout != nullptr)
    product->w = *layout;
  else if (key.b_row == 0)
    product->w = {{key.k, key.n}, type, Tag::any};
  else
    product->w = {{key.k, key.n}, type, dnnl::memory::dims{key.b_row, key.b_column}};
  product->y = {{key.m, key.n}, onednn_type(key.ty), dnnl::memory::dims{key.n, 1}};
  product->bias = {{1, key.n}, dnnl::memory::data_type::f32, Tag::ab};
  dnnl::primitive_attr attributes;
  dnnl::post_ops post;
  if (key.accumulate) post.append_sum(1.f);
  if (key.relu) append_relu(post);
  attributes.set_post_ops(post);
  // A scratchpad of oneDNN's own belongs to the thread that makes the primitive, but all threads execute it.
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const auto descriptor =
      matmul_descriptor(product->x, product->w, key.bias ? &product->bias : nullptr, product->y, attributes);
  product->w = descriptor.weights_desc();
  product->scratchpad = descriptor.scratchpad_desc();
  product->primitive = dnnl::matmul(descriptor);
  return product;
}

// Primitives are made once; oneDNN's own cache is smaller and slower to ask.
// The key by value: GCC 13 and newer take the result for a reference into it.
const Product& product_for(Key key, const dnnl::memory::desc* layout = nullptr) {
  static std::shared_mutex mutex;
  static std::unordered_map<Key, std::unique_ptr<Product>, KeyHash> products;
  {
    const std::shared_lock lock(mutex);
    if (const auto it = products.find(key); it != products.end()) return *it->second;
  }
  auto made = make(key, layout);
  const std::unique_lock lock(mutex);
  return *products.try_emplace(key, std::move(made)).first->second;
}

// oneDNN runs sequentially in a thread whose OpenMP team is the thread alone.
dnnl::stream& thread_stream() {
  thread_local dnnl::stream stream = [] {
    omp_set_num_threads(1);
    return dnnl::stream(onednn_engine());
  }();
  return stream;
}

// Memory of one thread for one purpose; its contents do not last.
class Scratch {
 public:
  std::byte* get(size_t bytes) {
    constexpr size_t kAlign = 64;
    if (memory_.size() < bytes + kAlign) memory_.resize(bytes + kAlign);
    return reinterpret_cast<std::byte*>(round_up(reinterpret_cast<int64_t>(memory_.data()), kAlign));
  }

 private:
  std::vector<std::byte> memory_;
};

std::byte* thread_scratch(size_t bytes) {
  thread_local Scratch scratch;
  return scratch.get(bytes);
}

void execute(const Product& product, const void* x, const void* w, void* y, const float* bias) {
  auto& engine = onednn_engine();
  auto& stream = thread_stream();
  std::unordered_map<int, dnnl::memory> arguments = {
      {DNNL_ARG_SRC, dnnl::memory(product.x, engine, const_cast<void*>(x))},
      {DNNL_ARG_WEIGHTS, dnnl::memory(product.w, engine, const_cast<void*>(w))},
      {DNNL_ARG_DST, dnnl::memory(product.y, engine, y)}};
  thread_local Scratch scratchpad;
  if (const size_t bytes = product.scratchpad.get_size(); bytes > 0)
    arguments.emplace(DNNL_ARG_SCRATCHPAD, dnnl::memory(product.scratchpad, engine, scratchpad.get(bytes)));
  if (bias != nullptr) arguments.emplace(DNNL_ARG_BIAS, dnnl::memory(product.bias, engine, const_cast<float*>(bias)));
  product.primitive.execute(stream, arguments);
}

Key packed_key(int64_t m, int64_t n, int64_t k, DType t, DType ty, const Epilogue& e, bool panel) {
  const bool relu = e.activation == Activation::kRelu;
  return {m, n, k, k, 1, 0, 0, t, ty, e.bias != nullptr, relu, e.accumulate, panel};
}

// How oneDNN packs a [k, n]: what it chooses for a full block of rows.
const dnnl::memory::desc& packed_layout(DType t, int64_t n, int64_t k) {
  return product_for(packed_key(kRowBlock, n, k, t, t, {}, false)).w;
}

// Rows that a packed B of k rows takes in these layouts.
int64_t packed_depth(DType t, int64_t k) { return round_up(k, t == DType::kBF16 ? 32 : 16); }

// In these layouts whole blocks of columns follow one another, so that a panel of B's columns is packed as B is.
Tag panel_tag(DType t, const dnnl::memory::desc& layout) {
  for (const Tag tag : {Tag::BA16a64b2a, Tag::BA16a64b})
    if (layout == dnnl::memory::desc(dims_of(layout), onednn_type(t), tag)) return tag;
  return Tag::undef;
}

// Packs rows and columns of plain elements of dtype `from` with the given strides.
void reorder(const dnnl::memory::desc& layout, DType from, const void* w, int64_t row, int64_t column, void* packed) {
  const dnnl::memory::desc plain(dims_of(layout), onednn_type(from), dnnl::memory::dims{row, column});
  auto& engine = onednn_engine();
  dnnl::memory source(plain, engine, const_cast<void*>(w)), target(layout, engine, packed);
  dnnl::reorder(source, target).execute(thread_stream(), source, target);
}

const std::byte* offset(const void* data, int64_t elements, DType t) {
  return static_cast<const std::byte*>(data) + elements * static_cast<int64_t>(size_of(t));
}
std::byte* offset(void* data, int64_t elements, DType t) {
  return static_cast<std::byte*>(data) + elements * static_cast<int64_t>(size_of(t));
}

}  // namespace

bool has_bf16() {
  static const bool has = [] {
    try {
      packed_layout(DType::kBF16, 64, 64);
      return true;
    } catch (const dnnl::error&) {
      return false;
    }
  }();
  return has;
}

bool has_fast_bf16() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512bf16");
}

namespace {

// Packs B [k, n], the columns in parallel where the layout allows.
void pack_columns(ThreadPool& pool, DType t, int64_t n, int64_t k, DType from, const void* w, int64_t row,
                  int64_t column, std::byte* packed) {
  const auto& layout = packed_layout(t, n, k);
  const Tag tag = panel_tag(t, layout);
  if (tag == Tag::undef) return reorder(layout, from, w, row, column, packed);
  pool.parallel_for(n, kPanelColumns, [&](int64_t begin, int64_t end) {
    const dnnl::memory::desc panel({k, end - begin}, onednn_type(t), tag);
    reorder(panel, from, offset(w, begin * column, from), row, column, offset(packed, begin * packed_depth(t, k), t));
  });
}

// y [m, n] of operands with k = 0, which oneDNN 3 leaves as it is: the epilogue of zeros.
void multiply_nothing(int64_t m, int64_t n, DType ty, void* y, const Epilogue& e) {
  std::vector<float> row(static_cast<size_t>(n));
  for (int64_t r = 0; r < m; ++r) {
    void* to = offset(y, r * n, ty);
    std::ranges::fill(row, 0.f);
    if (e.accumulate) convert(ty, to, DType::kF32, row.data(), n);
    if (e.bias != nullptr) add_f32(0, n, e.bias, row.data());
    if (e.activation == Activation::kRelu) relu(DType::kF32, 0, n, row.data(), row.data());
    convert(DType::kF32, row.data(), ty, to, n);
  }
}

// y [m, n] of the packed B with this layout, in the calling thread. Rows are taken in blocks of 256, 128, 64 ...: few
// primitives serve every number of rows.
void multiply_rows(const dnnl::memory::desc& layout, bool panel, DType t, int64_t m, int64_t n, int64_t k,
                   const void* x, const void* packed, DType ty, void* y, const Epilogue& e) {
  for (int64_t row = 0; row < m;) {
    const auto left = static_cast<uint64_t>(m - row);
    const int64_t rows = left >= kRowBlock ? kRowBlock : static_cast<int64_t>(left < 16 ? left : std::bit_floor(left));
    const void* from = offset(x, row * k, t);
    void* to = offset(y, row * n, ty);
    if (rows > 1) {
      const auto& product = product_for(packed_key(rows, n, k, t, ty, e, panel), &layout);
      execute(product, from, packed, to, e.bias);
    } else {  // oneDNN's fast code has no product of one row: a second one is computed and thrown away
      const auto x_bytes = static_cast<size_t>(k) * size_of(t), y_bytes = static_cast<size_t>(n) * size_of(ty);
      thread_local std::vector<std::byte> two;
      two.assign(2 * (x_bytes + y_bytes), std::byte{0});
      std::memcpy(two.data(), from, x_bytes);
      std::byte* result = two.data() + 2 * x_bytes;
      if (e.accumulate) std::memcpy(result, to, y_bytes);
      const auto& product = product_for(packed_key(2, n, k, t, ty, e, panel), &layout);
      execute(product, two.data(), packed, result, e.bias);
      std::memcpy(to, result, y_bytes);
    }
    row += rows;
  }
}

}  // namespace

void PackedMatrix::pack(ThreadPool& pool, DType t, const float* w, int64_t n, int64_t k, bool transposed) {
  dtype_ = t;
  n_ = n;
  k_ = k;
  if (n == 0 || k == 0) return;
  data_.resize(packed_layout(t, n, k).get_size());
  pack_columns(pool, t, n, k, DType::kF32, w, transposed ? n : 1, transposed ? 1 : k, data_.data());
}

void multiply(ThreadPool& pool, const PackedMatrix& b, int64_t m, const void* x, DType ty, void* y, const Epilogue& e) {
  const DType t = b.dtype();
  const int64_t n = b.n(), k = b.k();
  if (m == 0 || n == 0) return;
  if (k == 0) return multiply_nothing(m, n, ty, y, e);
  const auto& layout = packed_layout(t, n, k);
  const Tag tag = panel_tag(t, layout);
  if (m >= kFewRows || n < 2 * kPanelColumns || tag == Tag::undef) {
    const int64_t rows = m >= kFewRows ? kRowBlock : std::max<int64_t>(16, round_up(m / 4, 16));
    pool.parallel_for(m, rows, [&](int64_t begin, int64_t end) {
      multiply_rows(layout, false, t, end - begin, n, k, offset(x, begin * k, t), b.data(), ty,
                    offset(y, begin * n, ty), e);
    });
    return;
  }
  pool.parallel_for(n, kPanelColumns, [&](int64_t begin, int64_t end) {
    const int64_t columns = end - begin;
    const size_t bytes = static_cast<size_t>(columns) * size_of(ty);
    std::byte* tile = thread_scratch(static_cast<size_t>(m) * bytes);
    if (e.accumulate)
      for (int64_t r = 0; r < m; ++r)
        std::memcpy(tile + static_cast<size_t>(r) * bytes, offset(y, r * n + begin, ty), bytes);
    const dnnl::memory::desc panel({k, columns}, onednn_type(t), tag);
    multiply_rows(panel, true, t, m, columns, k, x, offset(b.data(), begin * packed_depth(t, k), t), ty, tile,
                  {e.bias == nullptr ? nullptr : e.bias + begin, e.activation, e.accumulate});
    for (int64_t r = 0; r < m; ++r)
      std::memcpy(offset(y, r * n + begin, ty), tile + static_cast<size_t>(r) * bytes, bytes);
  });
}

void multiply_block(const PackedMatrix& b, int64_t m, const void* x, DType ty, void* y, const Epilogue& e) {
  if (m == 0 || b.n() == 0) return;
  if (b.k() == 0) return multiply_nothing(m, b.n(), ty, y, e);
  multiply_rows(packed_layout(b.dtype(), b.n(), b.k()), false, b.dtype(), m, b.n(), b.k(), x, b.data(), ty, y, e);
}

namespace {

// Rows of zeros behind the last of `tokens` rows of x [tokens, k], so that there are `padded`; x itself where that is
// so.
const void* padded_rows(DType t, int64_t tokens, int64_t padded, int64_t k, const void* x,
                        std::vector<std::byte>& room) {
  if (padded == tokens) return x;
  const auto row = static_cast<size_t>(k) * size_of(t);
  room.assign(static_cast<size_t>(padded) * row, std::byte{0});
  std::memcpy(room.data(), x, static_cast<size_t>(tokens) * row);
  return room.data();
}

// Rows [begin, end) of dw, from dy [tokens, n] and the packed x [padded, k]; added where `accumulate`, in the calling
// thread.
void weight_gradient_rows(const dnnl::memory::desc& layout, DType t, int64_t tokens, int64_t padded, int64_t n,
                          int64_t k, int64_t begin, int64_t end, const void* dy, const void* packed, float* dw,
                          bool accumulate) {
  const int64_t count = end - begin;
  const auto bytes = static_cast<size_t>(count * padded) * size_of(t);
  std::byte* transposed = thread_scratch(bytes);
  if (padded != tokens) std::memset(transposed, 0, bytes);
  transpose(t, {0, tokens}, 0, count, offset(dy, begin, t), n, transposed, padded);
  multiply_rows(layout, false, t, count, k, padded, transposed, packed, DType::kF32, dw + begin * k,
                {.accumulate = accumulate});
}

// A small dw: each task sums over tokens of its own, and the sums are added up in order.
void small_weight_gradient(ThreadPool& pool, DType t, int64_t m, int64_t n, int64_t k, const void* dy, const void* x,
                           float* dw) {
  thread_local std::vector<float> sums;  // the caller's
  const int64_t blocks = (m + kFewTokens - 1) / kFewTokens, size = n * k;
  sums.resize(static_cast<size_t>(blocks * size));
  float* const partial = sums.data();
  pool.parallel_for(blocks, 1, [&](int64_t block, int64_t) {
    thread_local std::vector<std::byte> packed, room;
    const int64_t first = block * kFewTokens, tokens = std::min(kFewTokens, m - first), padded = round_up(tokens, 64);
    const auto& layout = packed_layout(t, k, padded);
    packed.resize(layout.get_size());
    reorder(layout, t, padded_rows(t, tokens, padded, k, offset(x, first * k, t), room), k, 1, packed.data());
    weight_gradient_rows(layout, t, tokens, padded, n, k, 0, n, offset(dy, first * n, t), packed.data(),
                         partial + block * size, false);
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
  thread_local std::vector<std::byte> packed, room;  // the caller's
  for (int64_t first = 0; first < m; first += kTokenBlock) {
    const int64_t tokens = std::min(kTokenBlock, m - first), padded = round_up(tokens, 64);
    const auto& layout = packed_layout(t, k, padded);
    packed.resize(layout.get_size());
    pack_columns(pool, t, k, padded, t, padded_rows(t, tokens, padded, k, offset(x, first * k, t), room), k, 1,
                 packed.data());
    const std::byte* b = packed.data();
    pool.parallel_for(n, rows, [&](int64_t begin, int64_t end) {
      weight_gradient_rows(layout, t, tokens, padded, n, k, begin, end, offset(dy, first * n, t), b, dw, true);
    });
  }
}

void multiply_plain(DType t, bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const void* a,
                    const void* b, DType tc, void* c, bool accumulate) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    if (!accumulate) std::memset(c, 0, static_cast<size_t>(m * n) * size_of(tc));
    return;
  }
  execute(product_for({m, n, k, transpose_a ? 1 : k, transpose_a ? m : 1, transpose_b ? 1 : n, transpose_b ? k : 1, t,
                       tc, false, false, accumulate}),
          a, b, c, nullptr);
}

}  // namespace nmt::cpu
