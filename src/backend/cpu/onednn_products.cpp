#include "backend/cpu/onednn_products.h"

#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include <omp.h>

#include "backend/cpu/scratch.h"
#include "base/hash.h"

namespace nmt::cpu {

using Tag = dnnl::memory::format_tag;

// oneDNN runs sequentially in a thread whose OpenMP team is the thread alone; primitives are made for the team of the
// thread that makes them.
dnnl::stream& thread_stream() {
  thread_local dnnl::stream stream = [] {
    omp_set_num_threads(1);
    return dnnl::stream(onednn_engine());
  }();
  return stream;
}

namespace {

struct KeyHash {
  size_t operator()(const OneDnnKey& key) const {
    const int64_t numbers[] = {key.m,
                               key.n,
                               key.k,
                               key.a_row,
                               key.a_column,
                               key.b_row,
                               key.b_column,
                               (static_cast<int64_t>(key.t) << 8) | static_cast<int64_t>(key.ty),
                               key.partial * 8 + key.bias * 4 + key.relu * 2 + key.accumulate};
    return hash64(std::as_bytes(std::span(numbers)));
  }
};

// In these layouts whole blocks of columns follow one another, so that a panel of B's columns is packed as B is.
Tag panel_tag(DType t, const dnnl::memory::desc& layout) {
  for (const Tag tag : {Tag::BA16a64b2a, Tag::BA16a64b, Tag::BA16a64b4a})
    if (layout == dnnl::memory::desc(dims_of(layout), onednn_type(t), tag)) return tag;
  return Tag::undef;
}

// `layout` is B's layout where it is packed already; null: oneDNN chooses.
std::shared_ptr<const OneDnnProduct> make(const OneDnnKey& key, const dnnl::memory::desc* layout) {
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
  std::shared_ptr<const OneDnnProduct> get(OneDnnKey key, const dnnl::memory::desc* layout = nullptr) {
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
  std::unordered_map<OneDnnKey, std::shared_ptr<const OneDnnProduct>, KeyHash> products_;
};

}  // namespace

std::shared_ptr<const OneDnnProduct> packed_product(const OneDnnKey& key, const dnnl::memory::desc* layout) {
  static ProductCache cache(SIZE_MAX);  // there are few sizes
  return cache.get(key, layout);
}
std::shared_ptr<const OneDnnProduct> plain_product(const OneDnnKey& key) {
  static ProductCache cache(256);  // sizes are those of sentences, of which a long run sees ever new ones
  return cache.get(key);
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

}  // namespace nmt::cpu
