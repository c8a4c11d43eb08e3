#include "backend/cpu/kernels.h"
#include "backend/cpu/targets.h"

#define HWY_TARGET_INCLUDE "backend/cpu/cross_entropy.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nmt::cpu::HWY_NAMESPACE {

// Logits enter relative to the tile's maximum, so that a common offset costs no bits.
void look_at_logits(DType t, const LogitTiles& tiles, Rows rows, int64_t tile, const float* logits,
                    const int32_t* labels, void* exps) {
  with_type(t, [&](auto type) HWY_ATTR {
    using T = decltype(type);
    const DF d;
    const int64_t first = tile * tiles.columns, columns = std::min(tiles.columns, tiles.width - first);
    const float* x = logits;
    for (int64_t r = rows.begin; r < rows.end; ++r, x += columns) {
      if (labels[r] < 0) continue;
      T* e = exps == nullptr ? nullptr : static_cast<T*>(exps) + r * tiles.width + first;
      const T* next = e != nullptr && r + 1 < rows.end ? e + tiles.width : e;  // to be written: comes from memory first
      const float largest = max(d, x, columns), relative_to = largest == -kInfinity ? 0 : largest;
      const auto shift = hn::Set(d, relative_to);
      const auto sums = fold(
          d, columns, VectorPair{hn::Zero(d), hn::Zero(d)},
          [&](int64_t i, size_t n) HWY_ATTR {
            const auto shifted = hn::Sub(load_or(d, relative_to, x + i, n), shift);
            const auto power = exp(d, hn::Sub(load_or(d, -kInfinity, x + i, n), shift));
            if (e != nullptr) {
              hwy::Prefetch(next + i);
              store(d, power, e + i, n);
            }
            return VectorPair{power, shifted};
          },
          add_pairs);
      const int64_t at = r * tiles.tiles() + tile;
      tiles.largest[at] = largest;
      tiles.sum_of_exp[at] = sum_of_lanes(d, sums.first);
      tiles.sum_of_shifted[at] = sum_of_lanes(d, sums.second);
      if (labels[r] >= first && labels[r] < first + columns) tiles.label_logit[r] = x[labels[r] - first];
    }
  });
}

void cross_entropy(DType t, const LogitTiles& tiles, Rows rows, const int32_t* labels, float smoothing, float weight,
                   float* loss, float* nll, void* dlogits) {
  with_type(t, [&](auto type) HWY_ATTR {
    using T = decltype(type);
    const DF d;
    const int64_t width = tiles.width, count = tiles.tiles();
    const float spread = smoothing / static_cast<float>(width);
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      T* dx = dlogits == nullptr ? nullptr : static_cast<T*>(dlogits) + r * width;
      const int64_t label = labels[r];
      if (label < 0) {
        loss[r] = 0;
        if (nll != nullptr) nll[r] = 0;
        if (dx != nullptr) std::memset(dx, 0, static_cast<size_t>(width) * sizeof(T));
        continue;
      }
      check(label < width, "label {} of row {} is not below the vocabulary's size {}", label, r, width);

      // Relative to the row's maximum; what was relative to a tile's is its share of that.
      const float* tile_largest = tiles.largest + r * count;
      float* shares = tiles.sum_of_exp + r * count;
      const float largest = max(d, tile_largest, count);
      const float label_logit = tiles.label_logit[r] - largest;
      double sum_of_exps = 0, sum_of_shifted = 0;
      for (int64_t i = 0; i < count; ++i) {
        const auto columns = static_cast<double>(std::min(tiles.columns, width - i * tiles.columns));
        const float shift = tile_largest[i] - largest, share = std::exp(shift);
        sum_of_exps += shares[i] * share;
        sum_of_shifted += tiles.sum_of_shifted[r * count + i] + columns * shift;
        shares[i] = share;
      }
      const auto sum_of_exp = static_cast<float>(sum_of_exps);
      const float log_sum = std::log(sum_of_exp);
      const float label_loss = log_sum - label_logit;
      const float mean_loss = log_sum - static_cast<float>(sum_of_shifted / static_cast<double>(width));
      loss[r] = smoothing == 0 ? label_loss : (1 - smoothing) * label_loss + smoothing * mean_loss;
      if (nll != nullptr) nll[r] = label_loss;
      if (dx == nullptr) continue;

      const auto less = hn::Set(d, weight * spread);
      for (int64_t i = 0; i < count; ++i) {
        T* part = dx + i * tiles.columns;
        const auto factor = hn::Set(d, weight / sum_of_exp * shares[i]);
        for_each(d, std::min(tiles.columns, width - i * tiles.columns), [&](int64_t c, size_t n) HWY_ATTR {
          store(d, hn::MulSub(load_ahead(d, part + c, n), factor, less), part + c, n);
        });
      }
      const auto factor = hn::Set(d, weight / sum_of_exp);
      const auto less_at_label = hn::Set(d, weight * (spread + (1 - smoothing)));
      store(d, hn::MulSub(exp(d, hn::Set(d, label_logit)), factor, less_at_label), dx + label, 1);
    }
  });
}

}  // namespace nmt::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nmt::cpu {

LogitTiles LogitTiles::in(float* memory, int64_t rows, int64_t width, int64_t columns) {
  const int64_t n = rows * divide_up(width, columns);
  return {width, columns, memory, memory + n, memory + 2 * n, memory + 3 * n};
}

int64_t LogitTiles::floats(int64_t rows, int64_t width, int64_t columns) {
  return rows * (3 * divide_up(width, columns) + 1);
}

HWY_EXPORT(look_at_logits);
HWY_EXPORT(cross_entropy);

void look_at_logits(DType t, const LogitTiles& tiles, Rows rows, int64_t tile, const float* logits,
                    const int32_t* labels, void* exps) {
  HWY_DYNAMIC_DISPATCH(look_at_logits)(t, tiles, rows, tile, logits, labels, exps);
}

void cross_entropy(DType t, const LogitTiles& tiles, Rows rows, const int32_t* labels, float smoothing, float weight,
                   float* loss, float* nll, void* dlogits) {
  HWY_DYNAMIC_DISPATCH(cross_entropy)(t, tiles, rows, labels, smoothing, weight, loss, nll, dlogits);
}

}  // namespace nmt::cpu
#endif  // HWY_ONCE
