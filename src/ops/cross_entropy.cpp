#include "ops/cross_entropy.h"

#include <algorithm>

#include "backend/cpu/kernels.h"
#include "base/aligned.h"
#include "base/error.h"
#include "graph/plan.h"
#include "graph/runtime.h"

namespace nmt {
namespace {

// Rows whose logits' gradients exist together: they bound the working memory, and how often the weight's gradient is
// passed over.
constexpr int64_t kGradientRows = 1024;

// Rows whose logits one task computes and reads again. Where the weight stays in the cache, as many as leave the logits
// there too; else enough to be worth the way of the weight from memory.
int64_t logit_rows(int64_t width, const cpu::PackedMatrix& weight) {
  constexpr int64_t kCachedWeight = 8 << 20, kCachedLogits = 1 << 18;
  return weight.bytes() <= kCachedWeight ? std::clamp<int64_t>(kCachedLogits / width, 32, 256) : 128;
}

float total(const float* loss, int64_t rows, float weight) {
  double sum = 0;
  for (int64_t r = 0; r < rows; ++r) sum += loss[r];
  return static_cast<float>(sum * weight);
}

void check_labels(const Tensor& labels, int64_t vocabulary) {
  for (int64_t r = 0; r < labels.elements(); ++r)
    check(labels.as<int32_t>()[r] < vocabulary, "cross_entropy: label {} of {}", labels.as<int32_t>()[r], vocabulary);
}

std::vector<Spec> infer_losses(std::string_view name, const Spec& x, int64_t rows, const Spec& labels,
                               const Spec& weight) {
  check(x.shape.rank() == 2 && labels.shape == Shape{rows} && labels.dtype == DType::kI32 && weight.shape == Shape{1} &&
            weight.dtype == DType::kF32,
        "{}: {}, labels {}, weight {}", name, x.shape.str(), labels.shape.str(), weight.shape.str());
  return {{{1}, DType::kF32}, {{rows}, DType::kF32}};
}

}  // namespace

Expr cross_entropy(Expr logits, Expr labels, Expr weight, float smoothing) {
  return logits.graph().append(CrossEntropy{smoothing}, {logits, labels, weight});
}

std::vector<Spec> CrossEntropy::infer(std::span<const Spec> in) const {
  return infer_losses(kName, in[0], in[0].shape.dim(0), in[1], in[2]);
}

int64_t CrossEntropy::scratch(std::span<const Spec> in) const {
  return Plan::f32_bytes(in[0].shape.elements()) + Plan::f32_bytes(in[0].shape[0]);
}

void CrossEntropy::cpu(const Launch& l) const {
  const Tensor& logits = l.in[0];
  const int64_t rows = logits.shape()[0], width = logits.shape()[1];
  check_labels(l.in[1], width);
  auto* wide = reinterpret_cast<float*>(l.scratch);
  auto* loss = reinterpret_cast<float*>(l.scratch + Plan::f32_bytes(rows * width));
  cpu::convert(logits.dtype(), logits.data, DType::kF32, wide, rows * width);
  cpu::cross_entropy(DType::kF32, {0, rows}, width, wide, l.in[1].as<int32_t>(), smoothing, 1, loss,
                     l.out[1].as<float>(), nullptr);
  *l.out[0].as<float>() = total(loss, rows, *l.in[2].as<float>());
}

void CrossEntropy::backward(Backprop& b) const {
  b.add(0, b.graph().append(CrossEntropyGradient{smoothing}, {b.input(0), b.input(1), b.input(2), b.gradient()}));
}

int64_t CrossEntropyGradient::scratch(std::span<const Spec> in) const {
  return Plan::f32_bytes(in[0].shape.elements()) + Plan::f32_bytes(in[0].shape[0]);
}

void CrossEntropyGradient::cpu(const Launch& l) const {
  const Tensor& logits = l.in[0];
  const int64_t rows = logits.shape()[0], width = logits.shape()[1];
  auto* wide = reinterpret_cast<float*>(l.scratch);
  auto* loss = reinterpret_cast<float*>(l.scratch + Plan::f32_bytes(rows * width));
  cpu::convert(logits.dtype(), logits.data, DType::kF32, wide, rows * width);
  cpu::cross_entropy(logits.dtype(), {0, rows}, width, wide, l.in[1].as<int32_t>(), smoothing,
                     *l.in[2].as<float>() * *l.in[3].as<float>(), loss, nullptr, l.out[0].data);
}

std::vector<Spec> ProjectCrossEntropy::infer(std::span<const Spec> in) const {
  check(in[1].shape.rank() == 2 && in[1].shape[1] == in[0].shape.dim(-1), "{}: x {}, weight {}", kName,
        in[0].shape.str(), in[1].shape.str());
  auto out = infer_losses(kName, in[0], in[0].shape.dim(0), in[2], in[3]);
  if (gradients) {
    out.push_back(in[0]);
    out.push_back(in[1]);
  }
  return out;
}

void ProjectCrossEntropy::backward(Backprop& b) const {
  check(b.is_seed(0) && !b.gradient(1), "{}: the loss must be what backward() starts from", kName);
  // The node itself becomes the one that computes its gradients.
  Node& node = b.graph().nodes()[static_cast<size_t>(b.node())];
  ProjectCrossEntropy op = *this;
  op.gradients = true;
  node.op = op;
  node.outputs.push_back(b.input(0).spec());
  node.outputs.push_back(b.input(1).spec());
  node.sinks = {-1, -1, -1, b.wants(1) ? b.sink(1) : -1};
  if (b.wants(0)) b.add(0, b.output(2));
}

int64_t ProjectCrossEntropy::scratch(std::span<const Spec> in) const {
  const int64_t rows = in[0].shape[0], width = in[1].shape[0];
  int64_t bytes = Plan::f32_bytes(rows);
  if (gradients)
    bytes += Plan::aligned(std::min(rows, kGradientRows) * width * static_cast<int64_t>(size_of(in[0].dtype)));
  return bytes;
}

void ProjectCrossEntropy::cpu(const Launch& l) const {
  const Tensor &x = l.in[0], &w = l.in[1];
  const DType t = x.dtype();
  const int64_t rows = x.shape()[0], depth = x.shape()[1], width = w.shape()[0];
  check_labels(l.in[2], width);
  auto& pool = l.runtime.pool();
  const auto* labels = l.in[2].as<int32_t>();
  const float weight = *l.in[3].as<float>();
  auto* loss = reinterpret_cast<float*>(l.scratch);
  std::byte* dlogits = l.scratch + Plan::f32_bytes(rows);
  const auto& packed = l.runtime.packed(w, t, false);
  const auto size = static_cast<int64_t>(size_of(t));
  for (int64_t chunk = 0; chunk < rows; chunk += kGradientRows) {
    const int64_t count = std::min(kGradientRows, rows - chunk);
    pool.parallel_for(count, logit_rows(width, packed), [&](int64_t begin, int64_t end) {
      thread_local AlignedVector<float> logits;
      logits.resize(static_cast<size_t>((end - begin) * width));
      const int64_t first = chunk + begin;
      thread_local cpu::Operand operand;
      operand.assign(packed, end - begin, t, x.at(first * depth));
      cpu::multiply_block(packed, 0, width, operand, 0, end - begin, logits.data());
      cpu::cross_entropy(t, {0, end - begin}, width, logits.data(), labels + first, smoothing, weight, loss + first,
                         l.out[1].as<float>() + first, gradients ? dlogits + begin * width * size : nullptr);
    });
    if (!gradients) continue;
    const auto& transposed = l.runtime.packed(w, t, true);
    cpu::multiply(pool, transposed, count, t, dlogits, t, l.out[2].at(chunk * depth));
    cpu::multiply_transposed(pool, t, count, width, depth, dlogits, x.at(chunk * depth), l.out[3].as<float>());
  }
  *l.out[0].as<float>() = total(loss, rows, weight);
}

}  // namespace nmt
