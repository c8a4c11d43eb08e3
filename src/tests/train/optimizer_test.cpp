#include "train/optimizer.h"

#include <algorithm>
#include <cmath>

#include "base/philox.h"
#include "tests/catch.h"
#include "tests/device.h"
#include "train/learning_rate.h"
#include "train/loss_scale.h"

using namespace nmt;
using namespace nmt::testing;

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
  o.lr_schedule = "constant";
  CHECK(learning_rate(o, 1000) == Approx(0.005 / 4));
  CHECK(learning_rate(o, 16000) == Approx(0.005));
}

// Algorithm 1 of Kingma and Ba (2015) in float64; and what is decided before it.
TEST_CASE("updates follow their definition, on any number of threads and of shares, and on a device") {
  TrainOptions o;
  o.adam = {0.8, 0.95, 1e-7};
  o.exponential_smoothing = 0.6;
  o.clip_norm = 50;
  o.skip_factor = 3;
  o.lr_warmup = 1;
  o.learn_rate = 0.01;
  struct Where {
    std::shared_ptr<Backend> backend;
    int threads, shares;
  };
  std::vector<Where> places = {{host_backend(), 1, 1}, {host_backend(), 2, 1}, {host_backend(), 5, 3}};
  if (const auto device = test_device()) places.insert(places.end(), {{device, 1, 1}, {device, 1, 3}});
  std::vector<std::vector<float>> results;
  for (const auto& [backend, threads, shares] : places) {
    Parameters parameters;
    parameters.declare("a", {300, 321});  // more than one task's elements, no multiple of a vector
    parameters.declare("b", {7});
    parameters.allocate(true, backend);
    const auto n = static_cast<size_t>(parameters.size());
    Random random(5);
    for (float& v : parameters.values()) v = static_cast<float>(random.uniform() - 0.5);
    Moments moments(parameters.size(), true);
    moments.start_smoothing(parameters.values());
    parameters.value_buffer().upload();
    std::vector<Optimizer> optimizers;
    for (int i = 0; i < shares; ++i)
      optimizers.emplace_back(backend, moments, parameters.size() * i / shares, parameters.size() * (i + 1) / shares);
    Runtime runtime(threads, DType::kF32, false, backend);
    std::vector<double> p(parameters.values().begin(), parameters.values().end()), m(n), v(n), average = p;
    double mean_norm = 0;
    int made = 0;
    for (int step = 1; step <= 20; ++step) {
      const double size = step == 7 ? 100 : step == 9 ? 2 : 1;  // the seventh explodes, the ninth is shortened
      double squares = 0;
      for (float& g : parameters.gradients()) {
        // Some are always zero, some very small, some large.
        const size_t i = static_cast<size_t>(&g - parameters.gradients().data());
        const double uniform = random.uniform() - 0.5;
        g = i % 7 == 0 ? 0 : static_cast<float>(uniform * size * std::pow(10.0, static_cast<double>(i % 9) - 8));
        squares += static_cast<double>(g) * g;
      }
      const std::vector<double> gradients(parameters.gradients().begin(), parameters.gradients().end());
      parameters.gradient_buffer().upload();
      CHECK(norm(runtime, parameters.size(), parameters.gradient_buffer().data()) ==
            Approx(std::sqrt(squares)).epsilon(1e-12));
      const float losses[] = {0.75f, step == 12 ? NAN : step / 8.f};
      const Buffer on_backend(backend, sizeof losses);
      backend->upload(on_backend.data(), losses, sizeof losses);
      UpdateTotals sum;
      for (Optimizer& optimizer : optimizers) {
        optimizer.begin_update();
        if (&optimizer == &optimizers.front())
          for (int i = 0; i < 2; ++i) optimizer.add_loss(reinterpret_cast<float*>(on_backend.data()) + i);
        optimizer.take_squares(runtime.pool(), parameters.gradient_buffer().data());
        UpdateTotals totals;
        backend->download(&totals, optimizer.totals(), sizeof totals);
        sum.squares += totals.squares;
        sum.loss += totals.loss;
      }
      for (Optimizer& optimizer : optimizers) {
        backend->upload(optimizer.totals(), &sum, sizeof sum);
        optimizer.update(runtime.pool(), update_rule(o, step), parameters);
      }
      Update update;
      for (Optimizer& optimizer : optimizers) update = optimizer.outcome();
      parameters.gradient_buffer().download();
      CHECK(std::ranges::count(parameters.gradients(), 0.f) == parameters.size());

      const double length = std::sqrt(squares);
      INFO("update " << step << " of norm " << length);
      CHECK(update.norm == Approx(length));
      CHECK((step == 12 || update.loss == 0.75 + step / 8.0));
      CHECK(update.made == (step != 7 && step != 12));
      if (!update.made) continue;
      CHECK((length > 50) == (step == 9));
      ++made;
      mean_norm = mean_norm == 0 ? length : 0.99 * mean_norm + 0.01 * length;
      CHECK(update.mean_norm == Approx(mean_norm));
      CHECK(update.count == made);
      const double rate = 0.01 / std::sqrt(step), scale = length > 50 ? 50 / length : 1;
      for (size_t i = 0; i < n; ++i) {
        const double g = gradients[i] * scale;
        m[i] = 0.8 * m[i] + 0.2 * g;
        v[i] = 0.95 * v[i] + 0.05 * g * g;
        p[i] -= rate * (m[i] / (1 - std::pow(0.8, made))) / (std::sqrt(v[i] / (1 - std::pow(0.95, made))) + 1e-7);
        average[i] += std::max(0.6, 9.0 / (made + 10)) * (p[i] - average[i]);
      }
    }
    parameters.value_buffer().download();
    for (Optimizer& optimizer : optimizers) optimizer.download();
    double worst = 0;
    for (size_t i = 0; i < n; ++i) {
      worst = std::max(worst, std::fabs(parameters.values()[i] - p[i]));
      worst = std::max(worst, std::fabs(moments.smoothed[i] - average[i]));
    }
    CHECK(worst < 1e-5);
    results.emplace_back(parameters.values().begin(), parameters.values().end());
    results.back().insert(results.back().end(), moments.smoothed.begin(), moments.smoothed.end());
    // Devices round as they do; the host always as the host.
    CHECK(results.back() == (backend->on_host() ? results.front() : results[std::min<size_t>(3, results.size() - 1)]));
  }
}

TEST_CASE("a gradient is skipped that float32 cannot hold squared, or that is longer than so many times the mean") {
  const UpdateRule rule{.skip_factor = 5};
  CHECK(!decide(rule, {.squares = 4e36, .loss = 1}, {}).made);
  CHECK(decide(rule, {.squares = 4e34, .loss = 1}, {}).made);
  CHECK(decide(rule, {.squares = 100, .loss = 1}, {.mean_norm = 2}).made);
  CHECK(!decide(rule, {.squares = 101, .loss = 1}, {.mean_norm = 2}).made);
}

TEST_CASE("the loss scale is undone, whether the gradient is shortened or not") {
  for (const double clip_norm : {1, 10}) {
    const Update u = decide({.clip_norm = clip_norm, .loss_scale = 8}, {.squares = 16 * 64, .loss = 24}, {});
    CHECK(u.loss == 3);
    CHECK(u.norm == 4);
    CHECK(u.adam.grad_scale == (clip_norm < 4 ? 0.25f : 1) / 8);
  }
}

TEST_CASE("the loss scale halves at an overflow and doubles after 2,000 updates without") {
  LossScale scale;
  scale.start(true);
  CHECK(scale.value == 65536);
  const auto go = [&](int updates) {
    for (int i = 0; i < updates; ++i) CHECK(!scale.adapt(false));
  };
  go(1999);
  CHECK(scale.adapt(true));
  CHECK(scale.value == 32768);
  go(1999);
  CHECK(scale.value == 32768);
  go(1);
  CHECK(scale.value == 65536);
  go(2000);
  CHECK(scale.value == 131072);
  scale.value = 1;
  CHECK(!scale.adapt(true));
  CHECK(scale.value == 1);
  scale.start(false);
  go(2000);
  CHECK(scale.value == 1);
}
