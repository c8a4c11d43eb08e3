#include <span>
#include <vector>

#include "backend/cpu/kernels.h"
#include "backend/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/recurrence.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/attention-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nmt::cpu::HWY_NAMESPACE {
namespace {

// The row of a sentence that stands at a step, counted from where the recurrence begins.
struct Sentence {
  Sentence(const int32_t* begin, int64_t s, bool reversed)
      : first(reversed ? begin[s + 1] - 1 : begin[s]), step(reversed ? -1 : 1), length(begin[s + 1] - begin[s]) {}

  int64_t row(int64_t t) const { return first + t * step; }

  int64_t first, step, length;
};

// h = tanh(x + U previous), several rows at a time; the matrix is laid out once.
template <class T>
class States {
 public:
  struct Row {
    const T *x, *previous;  // previous: null for zeros
    T* h;
  };

  States(int64_t width, const float* u, int64_t most)
      : width_(width), padded_(round_up(width)), length_(row_length(width)) {
    float* rows;
    cut_scratch({{&rows, padded_ * padded_},
                 {&transposed_, padded_ * length_},
                 {&states_, most * padded_},
                 {&sums_, most * padded_}});
    load_rows(u, width, width, padded_, width, 1.0f, rows);
    transpose_rows(rows, padded_, padded_, padded_, transposed_, length_);
  }

  void advance(std::span<const Row> rows) {
    const DF d;
    for (size_t i = 0; i < rows.size(); ++i) {
      float* state = states_ + static_cast<int64_t>(i) * padded_;
      if (rows[i].previous == nullptr)
        std::fill_n(state, padded_, 0.0f);
      else
        load_rows(rows[i].previous, width_, 1, 1, width_, 1.0f, state);
    }
    multiply_small(
        {std::ssize(rows), padded_ / kLanes, width_, states_, padded_, 1, transposed_, length_, sums_, padded_});
    for (size_t i = 0; i < rows.size(); ++i) {
      const float* sum = sums_ + static_cast<int64_t>(i) * padded_;
      for_each(d, width_, [&](int64_t c, size_t n) HWY_ATTR {
        store(d, hn::Tanh(d, hn::Add(load(d, rows[i].x + c, n), hn::Load(d, sum + c))), rows[i].h + c, n);
      });
    }
  }

 private:
  int64_t width_, padded_, length_;
  float *transposed_, *states_, *sums_;
};

template <class T>
void run(int64_t sentence_begin, int64_t sentence_end, const int32_t* begin, bool reversed, int64_t width, const T* x,
         const float* u, T* h) {
  States<T> states(width, u, sentence_end - sentence_begin);
  std::vector<typename States<T>::Row> rows;
  for (int64_t t = 0;; ++t) {
    rows.clear();
    for (int64_t s = sentence_begin; s < sentence_end; ++s) {
      const Sentence sentence(begin, s, reversed);
      if (t >= sentence.length) continue;
      T* state = h + sentence.row(t) * width;
      rows.push_back({x + sentence.row(t) * width, t == 0 ? nullptr : h + sentence.row(t - 1) * width, state});
    }
    if (rows.empty()) return;
    states.advance(rows);
  }
}

// With a = x + U h_{t-1}: da_t = (1 - h_t^2) (dh_t + U^T da_{t+1}), which is dx_t.
template <class T>
void differentiate(int64_t sentence_begin, int64_t sentence_end, const int32_t* begin, bool reversed, int64_t width,
                   const T* h, const T* dh, const float* u, T* dx) {
  const DF d;
  const int64_t sentences = sentence_end - sentence_begin, padded = round_up(width), length = row_length(width);
  float *matrix, *later, *sums;
  cut_scratch({{&matrix, width * length}, {&later, sentences * padded}, {&sums, sentences * padded}});
  for (int64_t r = 0; r < width; ++r) load_rows(u + r * width, width, 1, 1, width, 1.0f, matrix + r * length);
  int64_t steps = 0;
  for (int64_t s = sentence_begin; s < sentence_end; ++s) steps = std::max(steps, Sentence(begin, s, reversed).length);
  for (int64_t t = steps - 1; t >= 0; --t) {
    int64_t rows = 0;
    for (int64_t s = sentence_begin; s < sentence_end; ++s) {
      const Sentence sentence(begin, s, reversed);
      if (t >= sentence.length) continue;
      float* gradient = later + rows++ * padded;
      if (t + 1 == sentence.length)
        std::fill_n(gradient, padded, 0.0f);
      else
        load_rows(dx + sentence.row(t + 1) * width, width, 1, 1, width, 1.0f, gradient);
    }
    multiply_small({rows, padded / kLanes, width, later, padded, 1, matrix, length, sums, padded});
    const float* sum = sums;
    for (int64_t s = sentence_begin; s < sentence_end; ++s) {
      const Sentence sentence(begin, s, reversed);
      if (t >= sentence.length) continue;
      const int64_t first = sentence.row(t) * width;
      for_each(d, width, [&](int64_t c, size_t n) HWY_ATTR {
        const auto state = load(d, h + first + c, n);
        const auto gradient = hn::Add(load(d, dh + first + c, n), hn::Load(d, sum + c));
        store(d, hn::Mul(hn::NegMulAdd(state, state, hn::Set(d, 1.0f)), gradient), dx + first + c, n);
      });
      sum += padded;
    }
  }
}

}  // namespace

void recurrence(DType t, int64_t sentence_begin, int64_t sentence_end, const int32_t* begin, bool reversed,
                int64_t width, const void* x, const float* u, void* h) {
  with_type(t, [&](auto type) HWY_ATTR {
    using T = decltype(type);
    run(sentence_begin, sentence_end, begin, reversed, width, static_cast<const T*>(x), u, static_cast<T*>(h));
  });
}

void recurrence_backward(DType t, int64_t sentence_begin, int64_t sentence_end, const int32_t* begin, bool reversed,
                         int64_t width, const void* h, const void* dh, const float* u, void* dx) {
  with_type(t, [&](auto type) HWY_ATTR {
    using T = decltype(type);
    differentiate(sentence_begin, sentence_end, begin, reversed, width, static_cast<const T*>(h),
                  static_cast<const T*>(dh), u, static_cast<T*>(dx));
  });
}

void recurrent_step(DType t, Rows rows, int64_t width, const void* x, const float* u, const void* states,
                    const int32_t* entry, int64_t entry_stride, const int32_t* length, void* h) {
  with_type(t, [&](auto type) HWY_ATTR {
    using T = decltype(type);
    std::vector<typename States<T>::Row> all;
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const T* cache = static_cast<const T*>(states);
      const T* previous = length[r] > 1 ? cache + entry[r * entry_stride + length[r] - 2] * width : nullptr;
      all.push_back({static_cast<const T*>(x) + r * width, previous, static_cast<T*>(h) + r * width});
    }
    States<T>(width, u, rows.end - rows.begin).advance(all);
  });
}

}  // namespace nmt::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nmt::cpu {

HWY_EXPORT(recurrence);
HWY_EXPORT(recurrence_backward);
HWY_EXPORT(recurrent_step);

void recurrence(DType t, int64_t sentence_begin, int64_t sentence_end, const int32_t* begin, bool reversed,
                int64_t width, const void* x, const float* u, void* h) {
  HWY_DYNAMIC_DISPATCH(recurrence)(t, sentence_begin, sentence_end, begin, reversed, width, x, u, h);
}

void recurrence_backward(DType t, int64_t sentence_begin, int64_t sentence_end, const int32_t* begin, bool reversed,
                         int64_t width, const void* h, const void* dh, const float* u, void* dx) {
  HWY_DYNAMIC_DISPATCH(recurrence_backward)(t, sentence_begin, sentence_end, begin, reversed, width, h, dh, u, dx);
}

void recurrent_step(DType t, Rows rows, int64_t width, const void* x, const float* u, const void* states,
                    const int32_t* entry, int64_t entry_stride, const int32_t* length, void* h) {
  HWY_DYNAMIC_DISPATCH(recurrent_step)(t, rows, width, x, u, states, entry, entry_stride, length, h);
}

}  // namespace nmt::cpu
#endif  // HWY_ONCE
