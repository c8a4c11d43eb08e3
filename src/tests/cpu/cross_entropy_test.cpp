#include "tests/cpu/kernel_testing.h"

using namespace nmt;
using namespace nmt::testing;
using cpu::LogitTiles;
using cpu::Rows;

namespace {

struct Loss {
  double loss, nll;
};

Loss reference(const std::vector<double>& x, int32_t label, double smoothing) {
  const double largest = *std::max_element(x.begin(), x.end());
  double sum = 0, all = 0;
  for (const double v : x) sum += std::exp(v - largest);
  for (const double v : x) all += v - largest - std::log(sum);
  const double logp = x[static_cast<size_t>(label)] - largest - std::log(sum);
  const double uniform = smoothing == 0 ? 0 : smoothing / static_cast<double>(x.size()) * all;
  return {-(1 - smoothing) * logp - uniform, -logp};
}

// All of cross-entropy of the rows of logits, by tiles of so many columns.
void cross_entropy(DType t, Rows rows, int64_t width, int64_t columns, const float* logits, const int32_t* labels,
                   float smoothing, float weight, float* loss, float* nll, void* dlogits) {
  std::vector<float> memory(static_cast<size_t>(LogitTiles::floats(rows.end, width, columns)), kNaN);
  const auto tiles = LogitTiles::in(memory.data(), rows.end, width, columns);
  for (int64_t tile = 0; tile < tiles.tiles(); ++tile) {
    const int64_t begin = tile * columns, end = std::min(begin + columns, width);
    std::vector<float> part;
    for (int64_t r = rows.begin; r < rows.end; ++r)
      part.insert(part.end(), logits + r * width + begin, logits + r * width + end);
    cpu::look_at_logits(t, tiles, rows, tile, part.data(), labels, dlogits);
  }
  cpu::cross_entropy(t, tiles, rows, labels, smoothing, weight, loss, nll, dlogits);
}

TEST_CASE("cross-entropy and its gradient agree with float64") {
  const Target target(GENERATE(from_range(targets())));
  const DType t = GENERATE(DType::kF32, DType::kBF16);
  const int64_t width = GENERATE(1, 7, 33, 65, 511, 512, 513, 8191);
  const int64_t columns = GENERATE(16, 512, 10000);
  const float smoothing = GENERATE(0.0f, 0.1f);
  const double offset = GENERATE(0.0, 4096.0);
  const float weight = 0.125f;
  const int64_t rows = 5;
  const auto n = static_cast<size_t>(width);
  Array logits(DType::kF32, random_values(5 * n, 1, 3, offset));
  const auto last = static_cast<int32_t>(width - 1);
  const std::vector<int32_t> labels = {0, last, -1, last / 2, last / 3};
  for (size_t i = 0; i < n; ++i) logits.set(4 * n + i, offset + (static_cast<int32_t>(i) == labels[4] ? 60 : -60));

  std::vector<double> loss_ref, nll_ref, gradient;
  for (size_t r = 0; r < 5; ++r) {
    const auto all = logits.values();
    const std::vector<double> x(all.begin() + static_cast<ptrdiff_t>(r * n),
                                all.begin() + static_cast<ptrdiff_t>((r + 1) * n));
    const bool counts = labels[r] >= 0;
    const Loss ref = counts ? reference(x, labels[r], smoothing) : Loss{0, 0};
    loss_ref.push_back(ref.loss);
    nll_ref.push_back(ref.nll);
    const double first_nll = reference(x, 0, 0).nll;
    for (size_t i = 0; i < n; ++i) {
      const double p = counts ? std::exp(x[i] - x[0] - first_nll) : 0;
      const double expected =
          (static_cast<int32_t>(i) == labels[r] ? 1 - smoothing : 0) + smoothing / static_cast<double>(n);
      gradient.push_back(counts ? weight * (p - expected) : 0);
    }
  }

  // Probabilities are rounded twice where dlogits is bf16, but for the label's.
  const double rounding = t == DType::kBF16 ? 0x1p-8 : 0;
  std::vector<double> bound;
  for (size_t i = 0; i < gradient.size(); ++i) {
    const auto r = i / n, column = i % n;
    const bool twice = labels[r] >= 0 && column != static_cast<size_t>(labels[r]);
    const double p = gradient[i] + weight * smoothing / static_cast<double>(n);
    bound.push_back((rounding + 2e-6) * std::fabs(gradient[i]) + (twice ? rounding * 1.01 * p : 0) + 1e-7);
  }

  Array loss(DType::kF32, 5), nll(DType::kF32, 5), dlogits(t, 5 * n);
  cross_entropy(t, {0, rows}, width, columns, logits.f32(), labels.data(), smoothing, weight, loss.f32(), nll.f32(),
                dlogits.data());
  CHECK(worst_error(DType::kF32, loss, loss_ref, 2e-6, 1e-6) <= 1);
  CHECK(worst_error(DType::kF32, nll, nll_ref, 2e-6, 1e-6) <= 1);
  double worst = 0;
  for (size_t i = 0; i < gradient.size(); ++i) worst = std::max(worst, std::fabs(dlogits[i] - gradient[i]) / bound[i]);
  CHECK(worst <= 1);

  Array loss2(DType::kF32, 5), dlogits2(t, 5 * n);
  in_pieces(rows, [&](int64_t begin, int64_t end) {
    cross_entropy(t, {begin, end}, width, columns, logits.f32(), labels.data(), smoothing, weight, loss2.f32(), nullptr,
                  dlogits2.data());
  });
  CHECK(loss2 == loss);
  CHECK(dlogits2 == dlogits);
  Array loss3(DType::kF32, 5);
  cross_entropy(t, {0, rows}, width, columns, logits.f32(), labels.data(), smoothing, weight, loss3.f32(), nullptr,
                nullptr);
  CHECK(loss3 == loss);
}

TEST_CASE("the gradient of cross-entropy is the difference quotient of the loss") {
  const Target target(GENERATE(from_range(targets())));
  const float smoothing = GENERATE(0.0f, 0.1f);
  const size_t n = 13;
  const Array logits(DType::kF32, random_values(n, 3));
  const int32_t label = 4;
  Array loss(DType::kF32, 1), dlogits(DType::kF32, n);
  cross_entropy(DType::kF32, {0, 1}, n, 5, logits.f32(), &label, smoothing, 2, loss.f32(), nullptr, dlogits.data());
  for (size_t i = 0; i < n; ++i) {
    const double h = 1e-5;
    auto up = logits.values(), down = logits.values();
    up[i] += h;
    down[i] -= h;
    const double slope = 2 * (reference(up, label, smoothing).loss - reference(down, label, smoothing).loss) / (2 * h);
    CHECK(dlogits[i] == Approx(slope).margin(1e-6));
  }
}

TEST_CASE("a logit of -inf has no probability and, without smoothing, no influence") {
  const Target target(GENERATE(from_range(targets())));
  const int64_t columns = GENERATE(1, 2, 3);
  const Array logits(DType::kF32, {1, -kInf, 2});
  const int32_t label = 2;
  Array loss(DType::kF32, 1), dlogits(DType::kF32, 3);
  cross_entropy(DType::kF32, {0, 1}, 3, columns, logits.f32(), &label, 0, 1, loss.f32(), nullptr, dlogits.data());
  CHECK(loss[0] == Approx(std::log(1 + std::exp(-1.0))));
  CHECK(dlogits[1] == 0);
}

TEST_CASE("a logit that is not a number shows in all of its row") {
  const Target target(GENERATE(from_range(targets())));
  const int64_t columns = GENERATE(1, 2, 3);
  const Array logits(DType::kF32, {1, kNaN, 200});
  const int32_t label = 2;
  Array loss(DType::kF32, 1), dlogits(DType::kF32, 3);
  cross_entropy(DType::kF32, {0, 1}, 3, columns, logits.f32(), &label, 0, 1, loss.f32(), nullptr, dlogits.data());
  CHECK(std::isnan(loss[0]));
  for (size_t i = 0; i < 3; ++i) CHECK(std::isnan(dlogits[i]));
}

TEST_CASE("a label beyond the vocabulary is a programmer's error") {
  Array logits(DType::kF32, {1, 2});
  const int32_t label = 2;
  float loss;
  CHECK_THROWS_AS(cross_entropy(DType::kF32, {0, 1}, 2, 2, logits.f32(), &label, 0, 1, &loss, nullptr, nullptr),
                  std::logic_error);
}

}  // namespace
