#include "tests/ops/op_case.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "graph/basic_ops.h"
#include "graph/runtime.h"
#include "ops/elementwise.h"
#include "ops/fusion.h"
#include "tests/device.h"

namespace nmt::testing {
namespace {

constexpr uint64_t kSeed = 11;
constexpr uint32_t kStep = 3;

constexpr double kDeviceUnit =
    1e-2;  // where the host's gradient cancels to 0, a device's other roundings may leave a rest

using Kind = Argument::Kind;

bool has_gradient(const Argument& a) { return a.kind == Kind::kInput || a.kind == Kind::kParameter; }

DType dtype_of(const Argument& a, DType compute) {
  switch (a.kind) {
    case Kind::kParameter:
    case Kind::kF32:
      return DType::kF32;
    case Kind::kI32:
      return DType::kI32;
    case Kind::kI64:
      return DType::kI64;
    default:
      return compute;
  }
}

// An argument's data: what the op reads, and the same as float64.
struct Data {
  std::vector<std::byte> bytes;
  Values values;
};

template <class T>
std::vector<std::byte> converted(const Values& values) {
  const std::vector<T> numbers(values.begin(), values.end());
  const auto bytes = std::as_bytes(std::span(numbers));
  return {bytes.begin(), bytes.end()};
}

Data make_data(const Argument& a, DType compute, uint64_t seed) {
  const auto n = static_cast<size_t>(a.shape.elements());
  Values values = a.values.empty() ? random_values(n, seed, a.spread, a.offset) : a.values;
  REQUIRE(values.size() == n);
  if (a.kind == Kind::kI32) return {converted<int32_t>(values), values};
  if (a.kind == Kind::kI64) return {converted<int64_t>(values), values};
  // Away from zero, where ReLU has no derivative.
  if (has_gradient(a))
    for (double& v : values) v = std::fabs(v) < 1e-2 ? 1e-2 : v;
  // Parameters are representable in bf16, so that packing them for a product of bf16 loses nothing.
  if (a.kind == Kind::kParameter) values = Array(DType::kBF16, values).values();
  Array array(dtype_of(a, compute), values);
  const auto* bytes = static_cast<const std::byte*>(array.data());
  return {{bytes, bytes + n * size_of(dtype_of(a, compute))}, array.values()};
}

Values as_doubles(const void* data, const Spec& spec) {
  const auto n = static_cast<size_t>(spec.shape.elements());
  if (spec.dtype == DType::kI32)
    return Values(static_cast<const int32_t*>(data), static_cast<const int32_t*>(data) + n);
  Array array(spec.dtype, n);
  if (n > 0) std::memcpy(array.data(), data, n * size_of(spec.dtype));
  return array.values();
}

struct Outcome {
  Values output, weights;
  std::vector<Values> gradients;    // by argument; empty where there is none
  std::map<std::string, bool> ops;  // whether devices have it

  bool on_devices() const {
    return std::ranges::all_of(ops, [](const auto& op) { return op.second; });
  }

  bool operator==(const Outcome&) const = default;
};

struct Setting {
  DType compute = DType::kF32;
  bool fusion = true;
  int threads = 1;
  std::shared_ptr<Backend> backend = host_backend();
};

Outcome evaluate(const OpCase& c, const std::vector<Data>& data, const Setting& setting) {
  const auto& backend = setting.backend;
  Runtime runtime(setting.threads, setting.compute, false, backend);
  runtime.seed = kSeed;
  runtime.step = kStep;
  Graph graph(runtime, setting.fusion ? fusion_rules() : std::span<const FusionRule>());
  std::vector<Expr> leaves;
  std::vector<FloatBuffer> parameter_gradients(data.size());
  std::vector<Buffer> memory(data.size());  // of parameters and states
  for (size_t i = 0; i < data.size(); ++i) {
    const Argument& a = c.arguments[i];
    const Spec spec{a.shape, dtype_of(a, setting.compute)};
    if (a.kind == Kind::kParameter || a.kind == Kind::kState) {
      memory[i] = Buffer(backend, data[i].bytes.size());
      backend->upload(memory[i].data(), data[i].bytes.data(), data[i].bytes.size());
    }
    if (a.kind == Kind::kParameter) {
      parameter_gradients[i] = FloatBuffer(backend, data[i].values.size());
      leaves.push_back(
          graph.parameter(a.shape, reinterpret_cast<const float*>(memory[i].data()), parameter_gradients[i].data()));
    } else if (a.kind == Kind::kState) {
      leaves.push_back(graph.state(spec, memory[i].data()));
    } else {
      leaves.push_back(graph.input(spec, data[i].bytes.data(), a.kind == Kind::kInput));
    }
  }
  const Expr y = c.build(leaves);
  Outcome outcome;
  std::vector<Expr> wanted{y};
  const Array weights(c.differentiable ? y.dtype() : DType::kF32,
                      random_values(static_cast<size_t>(y.shape().elements()), 99));
  std::vector<Expr> gradients(data.size());
  if (c.differentiable) {
    const Expr loss =
        c.is_loss ? y : sum_leading(multiply(y, graph.input(y.spec(), weights.data())), 0, /*keep_dtype=*/false);
    graph.backward(loss);
    wanted.push_back(loss);
    for (size_t i = 0; i < data.size(); ++i)
      if (c.arguments[i].kind == Kind::kInput)
        if (const Expr gradient = graph.gradient(leaves[i])) wanted.push_back(gradients[i] = gradient);
  }
  graph.run(wanted);
  outcome.output = as_doubles(graph.data(y), y.spec());
  outcome.weights = c.is_loss ? Values{1} : weights.values();
  for (size_t i = 0; i < data.size(); ++i) {
    outcome.gradients.emplace_back();
    if (!c.differentiable || !has_gradient(c.arguments[i])) continue;
    if (c.arguments[i].kind == Kind::kParameter) {
      parameter_gradients[i].download();
      outcome.gradients[i].assign(parameter_gradients[i].host().begin(), parameter_gradients[i].host().end());
    } else {
      outcome.gradients[i] =
          gradients[i] ? as_doubles(graph.data(gradients[i]), gradients[i].spec()) : Values(data[i].values.size());
    }
  }
  for (const Node& node : graph.nodes())
    if (node.op) outcome.ops.emplace(node.op.name(), node.op.has_cuda());
  return outcome;
}

// The largest difference over the largest reference value, or over `unit` if that is larger.
double error_of(const Values& result, const Values& reference, double unit) {
  if (result.size() != reference.size()) return kInf;
  double worst = 0, largest = unit;
  for (size_t i = 0; i < result.size(); ++i) {
    if (result[i] == reference[i]) continue;  // infinities too
    const double error = std::fabs(result[i] - reference[i]);
    worst = std::isnan(error) ? kInf : std::max(worst, error);
  }
  for (const double v : reference)
    if (std::isfinite(v)) largest = std::max(largest, std::fabs(v));
  return worst == 0 ? 0 : worst / largest;
}

double weighted_sum(const Values& values, const Values& weights) {
  REQUIRE(values.size() == weights.size());
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i)
    if (weights[i] != 0) sum += values[i] * weights[i];
  return sum;
}

// Central differences of the reference, at the elements `probes`.
Values differences(const OpCase& c, const std::vector<Values>& arguments, size_t i, const std::vector<size_t>& probes,
                   const Values& weights) {
  constexpr double kStepSize = 1e-6;
  auto moved = arguments;
  Values slopes;
  for (const size_t e : probes) {
    double sums[2];
    for (const int side : {0, 1}) {
      moved[i][e] = arguments[i][e] + (side == 0 ? -kStepSize : kStepSize);
      sums[side] = weighted_sum(c.reference(moved), weights);
    }
    moved[i][e] = arguments[i][e];
    slopes.push_back((sums[1] - sums[0]) / (2 * kStepSize));
  }
  return slopes;
}

std::vector<size_t> probes_of(const OpCase& c, size_t n) {
  std::vector<size_t> all(n);
  for (size_t e = 0; e < n; ++e) all[e] = e;
  if (n > c.probes) {
    Random(5).shuffle(all);
    all.resize(c.probes);
  }
  return all;
}

std::vector<Data> data_of(const OpCase& c, DType compute) {
  std::vector<Data> data;
  for (const Argument& a : c.arguments) data.push_back(make_data(a, compute, 17 + data.size()));
  return data;
}

Values picked(const Values& values, const std::vector<size_t>& places) {
  Values some;
  for (const size_t e : places) some.push_back(values[e]);
  return some;
}

}  // namespace

const Values& case_dropout(float rate, uint32_t site, int64_t elements) {
  static std::map<std::tuple<float, uint32_t, int64_t>, Values> made;  // each difference asks for it
  Values& factors = made[{rate, site, elements}];
  if (factors.empty()) factors = dropout_factors({rate, site, kStep, kSeed}, elements);
  return factors;
}

std::map<std::string, bool> ops_of(const OpCase& c) {
  const auto data = data_of(c, DType::kF32);
  auto ops = evaluate(c, data, {}).ops;
  ops.merge(evaluate(c, data, {.fusion = false}).ops);
  return ops;
}

namespace {

// Where there is no host to compare with: float16 on a device.
void check_f16(const OpCase& c) {
  const auto device = test_device();
  if (device == nullptr || !std::ranges::all_of(ops_of(c), [](const auto& op) { return op.second; })) return;
  INFO(c.name << " f16 on " << device->name());
  const auto data = data_of(c, DType::kF16);
  std::vector<Values> arguments;
  for (const Data& d : data) arguments.push_back(d.values);
  const Values reference = c.reference(arguments);
  const Tolerance bf16 = kTolerances[1];
  const double slack = (c.rounds_to_bf16 ? 1 : 0.25) * c.slack;  // it has three bits more
  const Outcome outcomes[] = {evaluate(c, data, {DType::kF16, true, 1, device}),
                              evaluate(c, data, {DType::kF16, false, 1, device})};
  for (const Outcome& computed : outcomes) CHECK(error_of(computed.output, reference, c.unit) <= bf16.forward * slack);
  for (size_t i = 0; i < data.size(); ++i) {
    if (!c.differentiable || !has_gradient(c.arguments[i])) continue;
    INFO("gradient of argument " << i);
    const auto probes = probes_of(c, arguments[i].size());
    const Values slopes = differences(c, arguments, i, probes, outcomes[0].weights);
    for (const Outcome& computed : std::span(outcomes, c.kinked ? 1 : 2)) {
      INFO((&computed == outcomes ? "fused" : "composed"));
      CHECK(error_of(picked(computed.gradients[i], probes), slopes, std::max(c.unit, kDeviceUnit)) <=
            bf16.gradient * slack);
    }
  }
}

}  // namespace

void check_case(const OpCase& c) {
  for (const Tolerance& t : kTolerances) {
    if (t.dtype == DType::kBF16 && !cpu::multiplies_bf16()) continue;
    INFO(c.name << " " << name_of(t.dtype));
    const auto data = data_of(c, t.dtype);
    std::vector<Values> arguments;
    for (const Data& d : data) arguments.push_back(d.values);
    const Values reference = c.reference(arguments);
    const Tolerance bound = c.rounds_to_bf16 ? kTolerances[1] : t;
    const Outcome one = evaluate(c, data, {t.dtype});
    std::vector<std::vector<size_t>> probes;
    std::vector<Values> slopes;
    for (size_t i = 0; i < data.size(); ++i) {
      const bool wanted = c.differentiable && has_gradient(c.arguments[i]);
      probes.push_back(wanted ? probes_of(c, arguments[i].size()) : std::vector<size_t>());
      slopes.push_back(differences(c, arguments, i, probes[i], one.weights));
    }
    for (const bool fusion : {true, false}) {
      INFO((fusion ? "fused" : "composed"));
      const Outcome result = evaluate(c, data, {t.dtype, fusion});
      CHECK(error_of(result.output, reference, c.unit) <= bound.forward * c.slack);
      for (size_t i = 0; i < data.size(); ++i) {
        if (!c.differentiable || !has_gradient(c.arguments[i])) continue;
        if (c.kinked && !fusion && t.dtype == DType::kBF16) continue;
        INFO("gradient of argument " << i);
        CHECK(error_of(picked(result.gradients[i], probes[i]), slopes[i], c.unit) <= bound.gradient * c.slack);
        CHECK(error_of(result.gradients[i], one.gradients[i], c.unit) <= 2 * bound.gradient * c.slack);
      }
      for (const int threads : {2, 3}) {
        INFO(threads << " threads");
        CHECK((evaluate(c, data, {t.dtype, fusion, threads}) == result));
      }
      const auto device = test_device();
      if (device == nullptr || !result.on_devices()) continue;
      INFO("on " << device->name());
      const Setting there{t.dtype, fusion, 1, device};
      const Outcome computed = evaluate(c, data, there);
      CHECK(error_of(computed.output, reference, c.unit) <= bound.forward * c.slack);
      for (size_t i = 0; i < data.size(); ++i) {
        if (c.kinked && !fusion && t.dtype == DType::kBF16) continue;
        INFO("gradient of argument " << i);
        const double unit = std::max(c.unit, kDeviceUnit);
        CHECK(error_of(computed.gradients[i], one.gradients[i], unit) <= 2 * bound.gradient * c.slack);
      }
      set_thread_order(fusion ? 1 : 2);
      CHECK((evaluate(c, data, there) == computed));
      set_thread_order(0);
    }
  }
  check_f16(c);
}

}  // namespace nmt::testing
