#include "backend/cuda/kernels.h"
#include "tests/cuda/array_testing.h"

using namespace nmt;
using namespace nmt::testing;

namespace {

// Three sentences, one of them empty, in two heads.
struct Segments {
  static constexpr int kHeads = 2;
  static constexpr int64_t kSentences = 3, kQueries = 9, kKeys = 40;
  std::vector<int32_t> q_begin = {0, 4, 4, 9}, k_begin = {0, 3, 3, 40};
  // Of elements beyond 2^35, whose block has a high word.
  std::vector<int64_t> weight_begin = {(int64_t{1} << 35) - 5, (int64_t{1} << 35) + 7, (int64_t{1} << 35) + 7,
                                       (int64_t{1} << 35) + 192};

  size_t size() const { return kHeads * kQueries * kKeys; }
  // f(element, head, sentence, query and key within the sentence); key -1: of another sentence.
  template <class F>
  void for_each(F f) const {
    for (int64_t h = 0; h < kHeads; ++h)
      for (int64_t q = 0; q < kQueries; ++q)
        for (int64_t k = 0; k < kKeys; ++k) {
          const size_t s = q < 4 ? 0 : 2;
          const bool inside = k >= k_begin[s] && k < k_begin[s + 1];
          f(static_cast<size_t>((h * kQueries + q) * kKeys + k), h, s, q - q_begin[s], inside ? k - k_begin[s] : -1);
        }
  }
};

}  // namespace

TEST_CASE("cuda: scores of other sentences, or of keys behind the query, are masked") {
  const auto device = test_device();
  if (device == nullptr) return;
  const DType t = GENERATE(DType::kF32, DType::kBF16);
  const KeyMask mask(GENERATE(false, true), GENERATE(0, 1, 3));
  const Segments segments;
  const Array x(t, random_values(segments.size(), 1));
  Array expected = x;
  segments.for_each([&](size_t i, int64_t, size_t, int64_t q, int64_t k) {
    if (k < 0 || (mask.causal && k > q) || (mask.window > 0 && std::abs(k - q) > mask.window)) expected.set(i, -kInf);
  });
  const Array y = in_any_order(*device, [&](OnDevice& on) {
    Array y = x;
    void* const at = on(x);
    cuda::mask_segments(on.stream(), t, segments.kHeads, segments.kQueries, segments.kKeys, segments.kSentences,
                        on(segments.q_begin), on(segments.k_begin), mask, at, at);
    on.read(at, y);
    return y;
  });
  CHECK(y == expected);
}

TEST_CASE("cuda: dropout of attention weights numbers them within sentences") {
  const auto device = test_device();
  if (device == nullptr) return;
  const DType t = GENERATE(DType::kF32, DType::kBF16);
  const Segments segments;
  const Dropout d{.rate = 0.3f, .site = 1, .step = 2, .seed = 3};
  const Array x(t, random_values(segments.size(), 1));
  std::vector<double> expected(x.size());
  segments.for_each([&](size_t i, int64_t h, size_t s, int64_t q, int64_t k) {
    if (k < 0) return;
    const int64_t keys = segments.k_begin[s + 1] - segments.k_begin[s];
    const int64_t element = h * segments.weight_begin.back() + segments.weight_begin[s] + q * keys + k;
    uint8_t kept = 0;
    cpu::dropout_mask(d, element, element + 1, &kept);
    if (kept != 0) expected[i] = static_cast<float>(x[i]) * (1 / (1 - d.rate));
  });
  const Array y = in_any_order(*device, [&](OnDevice& on) {
    Array y = x;
    void* const at = on(x);
    cuda::dropout_segments(on.stream(), t, segments.kHeads, segments.kQueries, segments.kKeys, segments.kSentences,
                           on(segments.q_begin), on(segments.k_begin), on(segments.weight_begin), d, at, at);
    on.read(at, y);
    return y;
  });
  CHECK(y == Array(t, expected));
}
