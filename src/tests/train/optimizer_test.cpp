#include "train/optimizer.h"

#include <cmath>

#include "base/philox.h"
#include "tests/catch.h"

using namespace nmt;

TEST_CASE("the learning rate is equation 3 of the paper, or has the peak asked for") {
  TrainOptions o;
  o.model.dim_emb = 512;
  o.lr_warmup = 4000;
  for (const int64_t step : {1, 2, 100, 3999, 4000, 4001, 16000, 100000}) {
    const auto s = static_cast<double>(step);
    const double paper = std::pow(512.0, -0.5) * std::min(std::pow(s, -0.5), s * std::pow(4000.0, -1.5));
    CHECK(learning_rate(o, step) == Approx(paper).epsilon(1e-12));
  }
  o.lr_scale = 2;
  CHECK(learning_rate(o, 4000) == Approx(2 * std::pow(512.0, -0.5) * std::pow(4000.0, -0.5)));
  o.learn_rate = 0.005;
  CHECK(learning_rate(o, 4000) == Approx(0.005));
  CHECK(learning_rate(o, 1000) == Approx(0.005 / 4));
  CHECK(learning_rate(o, 16000) == Approx(0.005 / 2));
}

// Algorithm 1 of Kingma and Ba (2015) in float64.
TEST_CASE("Adam and exponential smoothing follow their definition on any number of threads") {
  TrainOptions o;
  o.adam = {0.8, 0.95, 1e-7};
  o.exponential_smoothing = 0.1;
  Parameters parameters;
  parameters.declare("a", {300, 321});  // more than one task's elements, no multiple of a vector
  parameters.declare("b", {7});
  parameters.allocate(true);
  const auto n = static_cast<size_t>(parameters.size());
  std::vector<std::vector<float>> results;
  for (const int threads : {1, 2, 5}) {
    Random random(5);
    for (float& v : parameters.values()) v = static_cast<float>(random.uniform() - 0.5);
    Optimizer optimizer(o, parameters.size());
    optimizer.start_smoothing(parameters.values());
    Runtime runtime(threads);
    std::vector<double> p(parameters.values().begin(), parameters.values().end()), m(n), v(n), average = p;
    for (int step = 1; step <= 20; ++step) {
      double squares = 0;
      for (float& g : parameters.gradients()) {
        // Some are always zero, some very small, some large.
        const size_t i = static_cast<size_t>(&g - parameters.gradients().data());
        g = i % 7 == 0 ? 0
                       : static_cast<float>((random.uniform() - 0.5) * std::pow(10.0, static_cast<double>(i % 9) - 6));
        squares += static_cast<double>(g) * g;
      }
      CHECK(Optimizer::norm(runtime, parameters.size(), parameters.gradients().data()) ==
            Approx(std::sqrt(squares)).epsilon(1e-12));
      const double rate = 0.01 / step, scale = step % 2 == 0 ? 0.5 : 1;
      for (size_t i = 0; i < n; ++i) {
        const double g = parameters.gradients()[i] * scale;
        m[i] = 0.8 * m[i] + 0.2 * g;
        v[i] = 0.95 * v[i] + 0.05 * g * g;
        p[i] -= rate * (m[i] / (1 - std::pow(0.8, step))) / (std::sqrt(v[i] / (1 - std::pow(0.95, step))) + 1e-7);
        average[i] += 0.1 * (p[i] - average[i]);
      }
      optimizer.update(runtime, parameters, step, rate, scale);
      for (const float g : parameters.gradients()) REQUIRE(g == 0);
    }
    double worst = 0;
    for (size_t i = 0; i < n; ++i) {
      worst = std::max(worst, std::fabs(parameters.values()[i] - p[i]));
      worst = std::max(worst, std::fabs(optimizer.smoothed()[i] - average[i]));
    }
    CHECK(worst < 1e-5);
    results.emplace_back(parameters.values().begin(), parameters.values().end());
    results.back().insert(results.back().end(), optimizer.smoothed().begin(), optimizer.smoothed().end());
    CHECK(results.back() == results.front());
  }
}

TEST_CASE("without exponential smoothing there are no smoothed parameters") {
  Optimizer optimizer(TrainOptions(), 4);
  const std::vector<float> values(4);
  optimizer.start_smoothing(values);
  CHECK(optimizer.smoothed().empty());
}
