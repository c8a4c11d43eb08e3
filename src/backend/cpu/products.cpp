#include "backend/cpu/products.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include <omp.h>

#include "backend/cpu/gemm_panels.h"
#include "backend/cpu/gemm_vnni.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/onednn.h"
#include "backend/cpu/scratch.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/math.h"

namespace nmt::cpu {

using Tag = dnnl::memory::format_tag;

struct OneDnnProduct {
  dnnl::matmul primitive;
  dnnl::memory::desc x, w, y, bias, scratchpad;
  Tag panel = Tag::undef;  // where whole blocks of B's columns follow one another: their layout
};

namespace {

// What a oneDNN primitive depends on. Products are [m, k] x [k, n]; oneDNN's fast code wants x and y without gaps.
struct Key {
  int64_t m, n, k;
  int64_t a_row, a_column, b_row, b_column;  // strides of plain operands; b_row = 0: B is packed
  DType t, ty;                               // of B and y; x is of B's dtype, kU8 for kI8
  bool bias, relu, accumulate;
  bool partial = false;  // B is a part of a wider matrix, and packed in its layout
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
                               key.partial * 8 + key.bias * 4 + key.relu * 2 + key.accumulate};
    return hash64({reinterpret_cast<const char*>(numbers), sizeof numbers});
  }
};

// In these layouts whole blocks of columns follow one another, so that a panel of B's columns is packed as B is.
Tag panel_tag(DType t, const dnnl::memory::desc& layout) {
  for (const Tag tag : {Tag::BA16a64b2a, Tag::BA16a64b, Tag::BA16a64b4a})
    if (layout == dnnl::memory::desc(dims_of(layout), onednn_type(t), tag)) return tag;
  return Tag::undef;
}

// oneDNN runs sequentially in a thread whose OpenMP team is the thread alone; primitives are made for the team of the
// thread that makes them.
dnnl::stream& thread_stream() {
  thread_local dnnl::stream stream = [] {
    omp_set_num_threads(1);
    return dnnl::stream(onednn_engine());
  }();
  return stream;
}

// `layout` is B's layout where it is packed already; null: oneDNN chooses.
std::shared_ptr<const OneDnnProduct> make(const Key& key, const dnnl::memory::desc* layout) {
  thread_stream();
  const auto type = onednn_type(key.t);
  auto product = std::make_shared<OneDnnProduct>();
  product->x = {{key.m, key.k},
                key.t == DType::kI8 ? onednn_type(DType::kU8) : type,
                dnnl::memory::dims{key.a_row, key.a_column}};
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
  if (key.b_row == 0) product->panel = panel_tag(key.t, product->w);
  return product;
}

// Primitives are made once; oneDNN's own cache is smaller and slower to ask.
class ProductCache {
 public:
  explicit ProductCache(size_t limit) : limit_(limit) {}

  // The key by value: GCC 13 and newer take the result for a reference into it.
  std::shared_ptr<const OneDnnProduct> get(Key key, const dnnl::memory::desc* layout = nullptr) {
    {
      const std::shared_lock lock(mutex_);
      if (const auto it = products_.find(key); it != products_.end()) return it->second;
    }
    std::shared_ptr<const OneDnnProduct> made = make(key, layout);
    const std::unique_lock lock(mutex_);
    if (products_.size() >= limit_) products_.clear();
    return products_.try_emplace(key, std::move(made)).first->second;
  }

 private:
  size_t limit_;
  std::shared_mutex mutex_;
  std::unordered_map<Key, std::shared_ptr<const OneDnnProduct>, KeyHash> products_;
};

ProductCache& packed_products() {  // all are kept: there are few sizes
  static ProductCache cache(SIZE_MAX);
  return cache;
}
ProductCache& plain_products() {  // sizes are those of sentences, of which a long run sees ever new ones
  static ProductCache cache(256);
  return cache;
}

void execute(const OneDnnProduct& product, const void* x, const void* w, void* y, const float* bias) {
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

Key packed_key(int64_t m, int64_t n, int64_t k, DType t, DType ty, const Epilogue& e, bool partial) {
  const bool relu = e.activation == Activation::kRelu;
  return {m, n, k, k, 1, 0, 0, t, ty, e.bias != nullptr, relu, e.held == Held::kAddend, partial};
}

DType type_of_copies(DType t) { return t == DType::kBF16 && widens_bf16() ? DType::kF32 : t; }

}  // namespace

std::byte* thread_scratch(size_t bytes) {
  thread_local Scratch scratch;
  return scratch.get(bytes);
}

// oneDNN chooses for a full block of rows.
PackedLayout::PackedLayout(DType t, int64_t n, int64_t k) : t_(t), n_(n), k_(k) {
  if (has_panel_products(t, k))
    kind_ = Kind::kPanels;
  else if (t == DType::kI8 && has_vnni_products())
    kind_ = Kind::kVnni;
  else if (n > 0 && k > 0)
    product_ = packed_products().get(packed_key(kRowBlock, n, k, t, t == DType::kI8 ? DType::kI32 : t, {}, false));
}

PackedLayout PackedLayout::of_rows(DType tx, int64_t n, int64_t rows) {
  return {type_of_copies(tx), n, round_up(rows, 64)};
}

int64_t PackedLayout::bytes() const {
  if (kind_ != Kind::kOneDnn) return offset_of(round_up(n_, kPanel));
  return product_ == nullptr ? 0 : static_cast<int64_t>(product_->w.get_size());
}

bool PackedLayout::has_panels() const {
  return kind_ != Kind::kOneDnn || (product_ != nullptr && product_->panel != Tag::undef);
}

int64_t PackedLayout::offset_of(int64_t column) const { return column / kPanel * panel_bytes(t_, k_); }

void PackedLayout::pack(int64_t begin, int64_t end, DType from, const void* w, int64_t row, int64_t column,
                        std::byte* packed) const {
  if (begin == end || k_ == 0) return;
  check(has_panels() || (begin == 0 && end == n_), "a layout without panels");
  if (kind_ == Kind::kVnni) {
    check(from == DType::kI8 && row == 1 && column == k_, "bytes are packed column by column");
    return vnni_pack(begin, end, k_, static_cast<const int8_t*>(w), packed);
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
  check(kind_ != Kind::kVnni, "products of bytes have scales");
  const int64_t n = end - begin;
  if (m == 0 || n == 0) return;
  const bool partial = n != n_;
  check(!partial || has_panels(), "a layout without panels");
  if (kind_ == Kind::kPanels && k_ > 0) {
    return multiply_panels({t_, m, n, k_, x, packed + offset_of(begin), ty, y, ldy, e});
  }
  const auto bytes = [](int64_t count, DType t) { return static_cast<size_t>(count) * size_of(t); };
  if (n != ldy || e.held == Held::kRelu) {
    std::byte* tile = thread_scratch(bytes(m * n, ty));
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
    const auto product = packed_products().get(packed_key(padded, n, k_, t_, ty, e, partial), &layout);
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
  if (kind_ == Kind::kPanels) return multiply_panels({tx, t_, m, n_, k_, rows, x, ldx, packed, y, accumulate});
  std::byte* columns = thread_scratch(static_cast<size_t>(m * k_) * size_of(t_));
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
  const auto product = plain_products().get({m, n, k, transpose_a ? 1 : k, transpose_a ? m : 1, transpose_b ? 1 : n,
                                             transpose_b ? k : 1, t, t, false, false, false});
  execute(*product, a, b, c, nullptr);
}

}  // namespace nmt::cpu
