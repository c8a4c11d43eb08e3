#include "backend/cpu/attention_amx.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attention.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/few_queries-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nmt::cpu::HWY_NAMESPACE {
namespace {

// As in a step of decoding, where they are a sentence's hypotheses: copies of all keys, transposed, would take longer
// than what they are for.
constexpr int64_t kFewQueries = 8;

// An item's products, by vectors in float32.
template <class T>
class VectorProducts {
 public:
  static constexpr int64_t kUnit = kLanes;  // by which blocks of queries, unless they have all, and seen keys are cut

  VectorProducts(const Attention& a, const Item& item, const T* k, const T* v)
      : block(query_block(item, a.mask, kFewestQueries, 1)),
        length(row_length(item.keys)),
        v_width(round_up(a.d_v)),
        a_(a),
        k_width_(round_up(a.d_k)) {
    const int64_t all_keys = round_up(item.keys);
    float* keys;
    cut_scratch({{&scores, block * length},
                 {&sums, block * v_width},
                 {&shifts, round_up(block)},
                 {&normalisers, round_up(block)},
                 {&queries_, block * k_width_},
                 {&keys, all_keys * k_width_},
                 {&transposed_keys_, k_width_ * length},
                 {&values_, item.keys * v_width}});
    load_rows(k, a.k_stride, item.keys, all_keys, a.d_k, 1.0f, keys);
    transpose_rows(keys, k_width_, all_keys, k_width_, transposed_keys_, length);
    load_rows(v, a.v_stride, item.keys, item.keys, a.d_v, 1.0f, values_);
  }

  // scores = Q K^T, of a block's queries and the keys that they see.
  void score(const SeenKeys& seen, const T* q) {
    load_rows(q, a_.q_stride, seen.rows, seen.rows, a_.d_k, 1.0f, queries_);
    multiply_small({seen.rows, seen.padded / kLanes, a_.d_k, queries_, k_width_, 1, transposed_keys_ + seen.first,
                    length, scores, length, false, seen.triangle(Triangle::kOutput), seen.diagonal()});
  }

  // sums = P V, where scores are P.
  void weigh(const SeenKeys& seen) {
    multiply_small({seen.rows, v_width / kLanes, seen.count, scores, length, 1, values_ + seen.first * v_width, v_width,
                    sums, v_width, false, seen.triangle(Triangle::kLower), seen.diagonal()});
  }

  int64_t block, length, v_width;  // queries of a block; floats of a row of scores, of sums
  float *scores, *sums;            // of a block
  float *shifts, *normalisers;     // its queries'

 private:
  const Attention& a_;
  int64_t k_width_;
  float *queries_, *transposed_keys_, *values_;
};

template <class Products, bool kDropout, class T>
void attend(const Attention& a, const Item& item, const T* q, const T* k, const T* v, T* out, float* logsumexp) {
  Products x(a, item, k, v);
  auto kept = kept_weights(a, item);
  const float kept_scale = 1 / (1 - a.dropout.rate);
  for (int64_t begin = 0; begin < item.queries; begin += x.block) {
    const int64_t rows = std::min(x.block, item.queries - begin);
    const SeenKeys seen(a.mask, item, begin, rows, Products::kUnit);
    x.score(seen, q + begin * a.q_stride);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t i = begin + r;
      float* const scores = x.scores + r * x.length;
      std::fill_n(scores, seen.first_of(i), -kInfinity);
      const Normaliser n = exponentials<kDropout>(scores, a.scale, seen.end_of(i), seen.padded, &kept,
                                                  item.weight_first + i * item.keys + seen.first);
      x.shifts[r] = n.shift;
      x.normalisers[r] = n.sum;
    }
    x.weigh(seen);
    for (int64_t r = 0; r < rows; ++r) {  // no keys: zeros
      const float factor = x.normalisers[r] == 0 ? 0 : kept_scale / x.normalisers[r];
      store_rows(x.sums + r * x.v_width, 1, a.d_v, factor, out + (begin + r) * a.out_stride, a.out_stride);
    }
    if (logsumexp != nullptr) log_normalisers(x.shifts, x.normalisers, rows, logsumexp + begin);
  }
}

// So many heads of the item's sentence, from its own on.
template <class T>
void attend_few(const Attention& a, const Item& item, int64_t heads, const T* q, const T* k, const T* v, T* out) {
  const FewQueries f{heads, a.d_k, a.d_v, item.queries};
  const FewQueries::Arrays x = f.arrays(item.keys);
  load_queries(f, q, a.q_stride, a.scale, x);
  attend_to_rows<kQueriesTogether>(f, 0, RowsInOrder<T>{k, a.k_stride}, RowsInOrder<T>{v, a.v_stride}, item.keys, x);
  store_attended(f, x, out, a.out_stride);
}

}  // namespace

void attention(DType t, const Attention& a, int64_t item_begin, int64_t item_end, const void* q, const void* k,
               const void* v, void* out, float* logsumexp) {
  // For the gradient, which computes them again, scores must be these to the last bit.
  const bool plain = logsumexp == nullptr && a.mask == KeyMask() && a.dropout.rate == 0;
  with_type(t, [&](auto type) HWY_ATTR {
    using T = decltype(type);
    ItemTiles tiles;
    for (int64_t i = item_begin; i < item_end;) {
      const Item item(a, i);
      const T *item_q = static_cast<const T*>(q) + item.q_at, *item_k = static_cast<const T*>(k) + item.k_at,
              *item_v = static_cast<const T*>(v) + item.v_at;
      T* item_out = static_cast<T*>(out) + item.out_at;
      if (plain && item.queries <= kFewQueries) {
        const int64_t heads = std::min(a.heads - item.head, item_end - i);
        attend_few(a, item, heads, item_q, item_k, item_v, item_out);
        i += heads;
        continue;
      }
      if (i + 1 < item_end) {
        const Item next(a, i + 1);
        fetch_rows(static_cast<const T*>(q) + next.q_at, a.q_stride, next.queries, a.d_k);
        fetch_rows(static_cast<const T*>(k) + next.k_at, a.k_stride, next.keys, a.d_k);
        fetch_rows(static_cast<const T*>(v) + next.v_at, a.v_stride, next.keys, a.d_v);
        fetch_rows(static_cast<const T*>(out) + next.out_at, a.out_stride, next.queries, a.d_v);
      }
      const bool all = a.dropout.rate == 0;
      auto run = all ? attend<VectorProducts<T>, false, T> : attend<VectorProducts<T>, true, T>;
      if constexpr (kHasAmx<T>) {
        if (tiles.serve(a, item)) run = all ? attend<AmxProducts, false, T> : attend<AmxProducts, true, T>;
      }
      run(a, item, item_q, item_k, item_v, item_out, logsumexp == nullptr ? nullptr : logsumexp + item.logsumexp_at);
      ++i;
    }
  });
}

}  // namespace nmt::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nmt::cpu {

HWY_EXPORT(attention);

void attention(DType t, const Attention& a, int64_t item_begin, int64_t item_end, const void* q, const void* k,
               const void* v, void* out, float* logsumexp) {
  HWY_DYNAMIC_DISPATCH(attention)(t, a, item_begin, item_end, q, k, v, out, logsumexp);
}

}  // namespace nmt::cpu
#endif  // HWY_ONCE
