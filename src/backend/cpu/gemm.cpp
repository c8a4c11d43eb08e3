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

namespace nmt::cpu {
namespace {

constexpr int64_t kRowBlock = 256;      // rows of y that one task computes: near oneDNN's best rate, and x stays in L2
constexpr int64_t kPanelColumns = 256;  // columns of B in a panel: with K = 512 in bf16 it fills a quarter of L2
constexpr int64_t kTokenBlock = 1024;   // rows of dy and x that a weight gradient sums at a time

int64_t up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

// What a oneDNN primitive depends on. Products are [m, k] x [k, n].
struct Key {
  int64_t m, n, k, ldx, ldy;
  int64_t a_row, a_column, b_row, b_column;  // strides of plain operands; b_row = 0: packed by oneDNN
  DType t, ty;
  bool bias, relu, accumulate;
  bool operator==(const Key&) const = default;
};

struct KeyHash {
  size_t operator()(const Key& key) const {
    const int64_t numbers[] = {key.m,
                               key.n,
                               key.k,
                               key.ldx,
                               key.ldy,
                               key.a_row,
                               key.a_column,
                               key.b_row,
                               key.b_column,
                               (static_cast<int64_t>(key.t) << 8) | static_cast<int64_t>(key.ty),
                               key.bias * 4 + key.relu * 2 + key.accumulate};
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
  product->y = {{key.m, key.n}, onednn_type(key.ty), dnnl::memory::dims{key.ldy, 1}};
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
const Product& product_for(const Key& key, const dnnl::memory::desc* layout = nullptr) {
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
    return reinterpret_cast<std::byte*>(up(reinterpret_cast<int64_t>(memory_.data()), kAlign));
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

// The packed layout of a panel must not depend on the number of rows: it is asked for a full block.
const Product& packing_product(DType t, int64_t n, int64_t k) {
  return product_for({kRowBlock, n, k, k, n, k, 1, 0, 0, t, t, false, false, false});
}

// The packed panel of `product`'s layout from plain elements of dtype `from` with the given strides.
void reorder(const Product& product, DType from, const void* w, int64_t row, int64_t column, void* packed) {
  const auto dims = product.w.dims();
  const dnnl::memory::desc plain(dims, onednn_type(from), dnnl::memory::dims{row, column});
  auto& engine = onednn_engine();
  dnnl::memory source(plain, engine, const_cast<void*>(w)), target(product.w, engine, packed);
  dnnl::reorder(source, target).execute(thread_stream(), source, target);
}

// Rows are taken in blocks of 256, then 128, 64 ...: few primitives serve every number of rows.
template <class Body>
void for_row_pieces(int64_t m, Body body) {
  for (int64_t row = 0; row < m;) {
    const int64_t left = m - row;
    const int64_t rows =
        left >= kRowBlock ? kRowBlock : static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(left)));
    body(row, rows);
    row += rows;
  }
}

const std::byte* offset(const void* data, int64_t elements, DType t) {
  return static_cast<const std::byte*>(data) + elements * static_cast<int64_t>(size_of(t));
}
std::byte* offset(void* data, int64_t elements, DType t) {
  return static_cast<std::byte*>(data) + elements * static_cast<int64_t>(size_of(t));
}

}  // namespace

bool has_fast_bf16() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512bf16");
}

int64_t panel_columns(int64_t n) { return std::min(n, kPanelColumns); }

int64_t PackedMatrix::panels() const { return n_ == 0 ? 0 : up(n_, kPanelColumns) / kPanelColumns; }

void PackedMatrix::pack(ThreadPool& pool, DType t, const float* w, int64_t n, int64_t k, bool transposed) {
  dtype_ = t;
  n_ = n;
  k_ = k;
  if (n == 0 || k == 0) return;
  const int64_t wide = panel_columns(n), last = n - (panels() - 1) * kPanelColumns;
  panel_bytes_ = std::max(packing_product(t, wide, k).w.get_size(), packing_product(t, last, k).w.get_size());
  panel_bytes_ = static_cast<size_t>(up(static_cast<int64_t>(panel_bytes_), 64));
  data_.resize(panel_bytes_ * static_cast<size_t>(panels()));
  pool.parallel_for(panels(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t first = p * kPanelColumns, columns = std::min(kPanelColumns, n - first);
      const float* part = transposed ? w + first : w + first * k;
      reorder(packing_product(t, columns, k), DType::kF32, part, transposed ? n : 1, transposed ? 1 : k,
              data_.data() + static_cast<size_t>(p) * panel_bytes_);
    }
  });
}

void multiply_panels(const PackedMatrix& b, int64_t begin, int64_t end, int64_t m, const void* x, int64_t ldx, DType ty,
                     void* y, int64_t ldy, const Epilogue& epilogue) {
  const DType t = b.dtype();
  const bool relu = epilogue.activation == Activation::kRelu;
  for (int64_t p = begin; p < end; ++p) {
    const int64_t columns = std::min(kPanelColumns, b.n() - p * kPanelColumns);
    const float* bias = epilogue.bias == nullptr ? nullptr : epilogue.bias + p * kPanelColumns;
    const auto& packing = packing_product(t, columns, b.k());
    for_row_pieces(m, [&](int64_t row, int64_t rows) {
      const Product& product =
          product_for({rows, columns, b.k(), ldx, ldy, ldx, 1, 0, 0, t, ty, bias != nullptr, relu, epilogue.accumulate},
                      &packing.w);
      execute(product, offset(x, row * ldx, t), b.panel(p), offset(y, row * ldy + (p - begin) * kPanelColumns, ty),
              bias);
    });
  }
}

void multiply(ThreadPool& pool, const PackedMatrix& b, int64_t m, const void* x, int64_t ldx, DType ty, void* y,
              int64_t ldy, const Epilogue& epilogue) {
  const int64_t blocks = up(m, kRowBlock) / kRowBlock, panels = b.panels();
  pool.parallel_for(blocks * panels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t row = task / panels * kRowBlock, p = task % panels;
      multiply_panels(b, p, p + 1, std::min(kRowBlock, m - row), offset(x, row * ldx, b.dtype()), ldx, ty,
                      offset(y, row * ldy + p * kPanelColumns, ty), ldy, epilogue);
    }
  });
}

void multiply_transposed(ThreadPool& pool, DType t, int64_t m, int64_t n, int64_t k, const void* dy, int64_t lddy,
                         const void* x, int64_t ldx, float* dw, int64_t lddw) {
  if (m == 0 || n == 0 || k == 0) return;
  // Row panels of dw: enough tasks for several cores also where n is small; a function of n alone.
  const int64_t rows = n >= 1024 ? 256 : std::max<int64_t>(16, up(n / 4, 16));
  const int64_t row_panels = up(n, rows) / rows, column_panels = up(k, kPanelColumns) / kPanelColumns;
  const int64_t element = static_cast<int64_t>(size_of(t));
  thread_local std::vector<std::byte> packed;  // the caller's: x in panels
  for (int64_t first = 0; first < m; first += kTokenBlock) {
    const int64_t tokens = std::min(kTokenBlock, m - first), padded = up(tokens, 64);
    size_t panel_bytes = 0;
    for (const int64_t columns : {panel_columns(k), k - (column_panels - 1) * kPanelColumns})
      panel_bytes = std::max(panel_bytes, packing_product(t, columns, padded).w.get_size());
    panel_bytes = static_cast<size_t>(up(static_cast<int64_t>(panel_bytes), 64));
    packed.resize(panel_bytes * static_cast<size_t>(column_panels) + 64);
    auto* base = reinterpret_cast<std::byte*>(up(reinterpret_cast<int64_t>(packed.data()), 64));
    pool.parallel_for(column_panels, 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        const int64_t columns = std::min(kPanelColumns, k - p * kPanelColumns);
        const std::byte* source = offset(x, first * ldx + p * kPanelColumns, t);
        int64_t stride = ldx;
        if (padded != tokens) {  // rows of zeros behind the last token
          std::byte* copy = thread_scratch(static_cast<size_t>(padded * columns * element));
          for (int64_t r = 0; r < tokens; ++r)
            std::memcpy(copy + r * columns * element, source + r * ldx * element,
                        static_cast<size_t>(columns * element));
          std::memset(copy + tokens * columns * element, 0, static_cast<size_t>((padded - tokens) * columns * element));
          source = copy;
          stride = columns;
        }
        reorder(packing_product(t, columns, padded), t, source, stride, 1, base + static_cast<size_t>(p) * panel_bytes);
      }
    });
    pool.parallel_for(row_panels, 1, [&](int64_t begin, int64_t end) {
      for (int64_t panel = begin; panel < end; ++panel) {
        const int64_t row = panel * rows, count = std::min(rows, n - row);
        std::byte* transposed = thread_scratch(static_cast<size_t>(count * padded * element));
        if (padded != tokens) std::memset(transposed, 0, static_cast<size_t>(count * padded * element));
        transpose(t, {0, tokens}, 0, count, offset(dy, first * lddy + row, t), lddy, transposed, padded);
        for (int64_t p = 0; p < column_panels; ++p) {
          const int64_t columns = std::min(kPanelColumns, k - p * kPanelColumns);
          const Product& product =
              product_for({count, columns, padded, padded, lddw, padded, 1, 0, 0, t, DType::kF32, false, false, true},
                          &packing_product(t, columns, padded).w);
          execute(product, transposed, base + static_cast<size_t>(p) * panel_bytes, dw + row * lddw + p * kPanelColumns,
                  nullptr);
        }
      }
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
  execute(product_for({m, n, k, 0, n, transpose_a ? 1 : k, transpose_a ? m : 1, transpose_b ? 1 : n,
                       transpose_b ? k : 1, t, tc, false, false, accumulate}),
          a, b, c, nullptr);
}

}  // namespace nmt::cpu
