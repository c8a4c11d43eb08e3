#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <unordered_map>

#include <omp.h>

#include "backend/cpu/onednn.h"
#include "backend/cpu/products.h"
#include "backend/cpu/scratch.h"
#include "base/hash.h"

namespace nmt::cpu {
namespace {

// oneDNN runs sequentially in a thread whose OpenMP team is the thread alone; primitives are made for the team of the
// thread that makes them.
dnnl::stream& thread_stream() {
  thread_local dnnl::stream stream = [] {
    omp_set_num_threads(1);
    return dnnl::stream(onednn_engine());
  }();
  return stream;
}

struct PlainProduct {
  dnnl::matmul primitive;
  dnnl::memory::desc a, b, c, scratchpad;
};
// What a primitive depends on.
struct Key {
  int64_t m, n, k;
  bool transpose_a, transpose_b;
  DType t;
  bool operator==(const Key&) const = default;
};

struct KeyHash {
  size_t operator()(const Key& key) const {
    const int64_t numbers[] = {key.m, key.n, key.k,
                               static_cast<int64_t>(key.t) * 4 + key.transpose_a * 2 + key.transpose_b};
    return hash64(std::as_bytes(std::span(numbers)));
  }
};

std::shared_ptr<const PlainProduct> make(const Key& key) {
  thread_stream();
  const auto matrix = [&](int64_t rows, int64_t columns, bool transposed) {
    return dnnl::memory::desc({rows, columns}, onednn_type(key.t),
                              transposed ? dnnl::memory::dims{1, rows} : dnnl::memory::dims{columns, 1});
  };
  auto product = std::make_shared<PlainProduct>();
  product->a = matrix(key.m, key.k, key.transpose_a);
  product->b = matrix(key.k, key.n, key.transpose_b);
  product->c = matrix(key.m, key.n, false);
  // A scratchpad of oneDNN's own belongs to the thread that makes the primitive, but all threads execute it.
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const auto descriptor = matmul_descriptor(product->a, product->b, product->c, attributes);
  product->scratchpad = descriptor.scratchpad_desc();
  product->primitive = dnnl::matmul(descriptor);
  return product;
}

// Primitives are made once, and forgotten when there are many: sizes are those of sentences, of which a long run sees
// ever new ones. oneDNN's own cache is slower to ask.
std::shared_ptr<const PlainProduct> product_of(const Key& key) {
  constexpr size_t kMost = 256;
  static std::shared_mutex mutex;
  static std::unordered_map<Key, std::shared_ptr<const PlainProduct>, KeyHash> products;
  {
    const std::shared_lock lock(mutex);
    if (const auto it = products.find(key); it != products.end()) return it->second;
  }
  std::shared_ptr<const PlainProduct> made = make(key);
  const std::unique_lock lock(mutex);
  if (products.size() >= kMost) products.clear();
  return products.try_emplace(key, std::move(made)).first->second;
}

}  // namespace

void multiply_plain(DType t, bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const void* a,
                    const void* b, void* c) try {
  if (m == 0 || n == 0) return;
  if (k == 0) {  // which oneDNN 3 leaves as it is
    std::memset(c, 0, static_cast<size_t>(m * n) * size_of(t));
    return;
  }
  const auto product = product_of({m, n, k, transpose_a, transpose_b, t});
  auto& engine = onednn_engine();
  auto& stream = thread_stream();
  std::unordered_map<int, dnnl::memory> arguments = {
      {DNNL_ARG_SRC, dnnl::memory(product->a, engine, const_cast<void*>(a))},
      {DNNL_ARG_WEIGHTS, dnnl::memory(product->b, engine, const_cast<void*>(b))},
      {DNNL_ARG_DST, dnnl::memory(product->c, engine, c)}};
  thread_local Scratch scratchpad;
  if (const size_t bytes = product->scratchpad.get_size(); bytes > 0)
    arguments.emplace(DNNL_ARG_SCRATCHPAD, dnnl::memory(product->scratchpad, engine, scratchpad.get(bytes)));
  product->primitive.execute(stream, arguments);
} catch (const dnnl::error& e) {
  if (e.status == dnnl_out_of_memory) throw std::bad_alloc();
  throw;
}

}  // namespace nmt::cpu
