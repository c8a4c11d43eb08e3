#include "backend/cpu/attention_amx.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attention_backward.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/attention-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nmt::cpu::HWY_NAMESPACE {
namespace {

// The rows of one item in the arguments of attention_backward.
template <class T>
struct Gradients {
  const T *q, *k, *v, *dout;
  const float* logsumexp;
  T *dq, *dk, *dv;
};

// An item's products, by vectors in float32.
template <class T>
class VectorGradients {
 public:
  static constexpr int64_t kUnit = kLanes;

  VectorGradients(const Attention& a, const Item& item, const T* k, const T* v)
      : block(query_block(item, a.mask, kFewestQueries, 1)),
        length(row_length(item.keys)),
        k_width(round_up(a.d_k)),
        v_width(round_up(a.d_v)),
        a_(a) {
    const int64_t all_keys = round_up(item.keys);
    float* values;
    cut_scratch({{&weights, block * length},
                 {&dweights, block * length},
                 {&dqueries, block * k_width},
                 {&dkeys, item.keys * k_width},
                 {&dvalues, item.keys * v_width},
                 {&queries_, block * k_width},
                 {&dsums_, block * v_width},
                 {&keys_, all_keys * k_width},
                 {&transposed_keys_, k_width * length},
                 {&values, all_keys * v_width},
                 {&transposed_values_, v_width * length}});
    load_rows(k, a.k_stride, item.keys, all_keys, a.d_k, 1.0f, keys_);
    transpose_rows(keys_, k_width, all_keys, k_width, transposed_keys_, length);
    load_rows(v, a.v_stride, item.keys, all_keys, a.d_v, 1.0f, values);
    transpose_rows(values, v_width, all_keys, v_width, transposed_values_, length);
    std::fill_n(dkeys, item.keys * k_width, 0.0f);
    std::fill_n(dvalues, item.keys * v_width, 0.0f);
  }

  // weights = Q K^T and dweights = dO V^T, of a block's queries and the keys that they see.
  void score(const SeenKeys& seen, const T* q, const T* dout) {
    const Triangle triangle = seen.triangle(Triangle::kOutput);
    const int64_t vectors = seen.padded / kLanes, diagonal = seen.diagonal();
    load_rows(q, a_.q_stride, seen.rows, seen.rows, a_.d_k, 1.0f, queries_);
    load_rows(dout, a_.out_stride, seen.rows, seen.rows, a_.d_v, 1.0f, dsums_);
    multiply_small({seen.rows, vectors, a_.d_k, queries_, k_width, 1, transposed_keys_ + seen.first, length, weights,
                    length, false, triangle, diagonal});
    multiply_small({seen.rows, vectors, a_.d_v, dsums_, v_width, 1, transposed_values_ + seen.first, length, dweights,
                    length, false, triangle, diagonal});
  }

  // dV += P^T dO, dK += dS^T Q and dQ = dS K, where weights are P and dweights dS.
  void add(const SeenKeys& seen) {
    const int64_t diagonal = seen.diagonal();
    multiply_small({seen.count, v_width / kLanes, seen.rows, weights, 1, length, dsums_, v_width,
                    dvalues + seen.first * v_width, v_width, true, seen.triangle(Triangle::kUpper), diagonal});
    multiply_small({seen.count, k_width / kLanes, seen.rows, dweights, 1, length, queries_, k_width,
                    dkeys + seen.first * k_width, k_width, true, seen.triangle(Triangle::kUpper), diagonal});
    multiply_small({seen.rows, k_width / kLanes, seen.count, dweights, length, 1, keys_ + seen.first * k_width, k_width,
                    dqueries, k_width, false, seen.triangle(Triangle::kLower), diagonal});
  }

  int64_t block, length, k_width, v_width;  // queries of a block; floats of a row of weights, of keys, of values
  float *weights, *dweights, *dqueries;     // of a block
  float *dkeys, *dvalues;                   // of the item, so far

 private:
  const Attention& a_;
  float *queries_, *dsums_, *keys_, *transposed_keys_, *transposed_values_;
};

template <class Products, bool kDropout, class T>
void differentiate(const Attention& a, const Item& item, const Gradients<T>& g) {
  Products x(a, item, g.k, g.v);
  auto kept = kept_weights(a, item);
  const float kept_scale = 1 / (1 - a.dropout.rate);
  for (int64_t begin = 0; begin < item.queries; begin += x.block) {
    const int64_t rows = std::min(x.block, item.queries - begin);
    const SeenKeys seen(a.mask, item, begin, rows, Products::kUnit);
    x.score(seen, g.q + begin * a.q_stride, g.dout + begin * a.out_stride);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t i = begin + r;
      float* const weights = x.weights + r * x.length;
      std::fill_n(weights, seen.first_of(i), -kInfinity);
      row_gradient<kDropout>(weights, x.dweights + r * x.length, a.scale, seen.end_of(i), seen.padded, g.logsumexp[i],
                             kept_scale, &kept, item.weight_first + i * item.keys + seen.first);
    }
    x.add(seen);
    store_rows(x.dqueries, rows, a.d_k, a.scale, g.dq + begin * a.q_stride, a.q_stride);
  }
  store_rows(x.dkeys, item.keys, a.d_k, a.scale, g.dk, a.k_stride);
  store_rows(x.dvalues, item.keys, a.d_v, kept_scale, g.dv, a.v_stride);
}

}  // namespace

void attention_backward(DType t, const Attention& a, int64_t item_begin, int64_t item_end, const void* q, const void* k,
                        const void* v, const float* logsumexp, const void* dout, void* dq, void* dk, void* dv) {
  with_type(t, [&](auto type) HWY_ATTR {
    using T = decltype(type);
    const auto of = [&](const Item& item) -> Gradients<T> {
      return {static_cast<const T*>(q) + item.q_at, static_cast<const T*>(k) + item.k_at,
              static_cast<const T*>(v) + item.v_at, static_cast<const T*>(dout) + item.out_at,
              logsumexp + item.logsumexp_at,        static_cast<T*>(dq) + item.q_at,
              static_cast<T*>(dk) + item.k_at,      static_cast<T*>(dv) + item.v_at};
    };
    ItemTiles tiles;
    for (int64_t i = item_begin; i < item_end; ++i) {
      const Item item(a, i);
      if (i + 1 < item_end) {
        const Item next(a, i + 1);
        const Gradients<T> g = of(next);
        for (const T* rows : {g.q, static_cast<const T*>(g.dq)}) fetch_rows(rows, a.q_stride, next.queries, a.d_k);
        for (const T* rows : {g.k, static_cast<const T*>(g.dk)}) fetch_rows(rows, a.k_stride, next.keys, a.d_k);
        for (const T* rows : {g.v, static_cast<const T*>(g.dv)}) fetch_rows(rows, a.v_stride, next.keys, a.d_v);
        fetch_rows(g.dout, a.out_stride, next.queries, a.d_v);
      }
      const bool all = a.dropout.rate == 0;
      auto run = all ? differentiate<VectorGradients<T>, false, T> : differentiate<VectorGradients<T>, true, T>;
      if constexpr (kHasAmx<T>) {
        if (tiles.serve(a, item))
          run = all ? differentiate<AmxGradients, false, T> : differentiate<AmxGradients, true, T>;
      }
      run(a, item, of(item));
    }
  });
}

}  // namespace nmt::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nmt::cpu {

HWY_EXPORT(attention_backward);

void attention_backward(DType t, const Attention& a, int64_t item_begin, int64_t item_end, const void* q, const void* k,
                        const void* v, const float* logsumexp, const void* dout, void* dq, void* dk, void* dv) {
  HWY_DYNAMIC_DISPATCH(attention_backward)
  (t, a, item_begin, item_end, q, k, v, logsumexp, dout, dq, dk, dv);
}

}  // namespace nmt::cpu
#endif  // HWY_ONCE
