#include <algorithm>

#include "backend/cuda/kernels.h"
#include "graph/backend_cuda.h"
#include "graph/scratch_parts.h"
#include "ops/cross_entropy.h"
#include "ops/logits_cuda.h"

namespace nmt {
namespace {

// The logits as float32, and their losses.
struct WholeRows {
  WholeRows(int64_t rows, int64_t width) : logits(parts.floats(rows * width)), loss(parts.floats(rows)) {}

  ScratchParts parts;
  int64_t logits, loss;
};

// Losses of all rows, and of those that exist together the logits and their gradients.
struct RowsTogether {
  RowsTogether(DType t, int64_t rows, int64_t width, bool gradients)
      : together(device_logit_rows(rows, width)),
        loss(parts.floats(rows)),
        logits(parts.floats(together * width)),
        dlogits(parts.part(gradients ? together * width * static_cast<int64_t>(size_of(t)) : 0)) {}

  ScratchParts parts;
  int64_t together, loss, logits, dlogits;
};

}  // namespace

int64_t CrossEntropy::cuda_scratch(std::span<const Spec> in) const {
  return WholeRows(in[0].shape[0], in[0].shape[1]).parts.bytes();
}

void CrossEntropy::cuda(const Launch& l) const {
  const Tensor& logits = l.in[0];
  const int64_t rows = logits.shape()[0], width = logits.shape()[1];
  const auto stream = CudaBackend::of(l).stream();
  const WholeRows at(rows, width);
  auto* wide = reinterpret_cast<float*>(l.scratch + at.logits);
  auto* loss = reinterpret_cast<float*>(l.scratch + at.loss);
  const auto* weight = l.in[2].as<float>();
  cuda::convert(stream, logits.dtype(), logits.data, DType::kF32, wide, rows * width);
  cuda::cross_entropy(stream, DType::kF32, rows, width, wide, l.in[1].as<int32_t>(), smoothing, weight, nullptr, loss,
                      l.out[1].as<float>(), nullptr);
  cuda::weighted_sum(stream, rows, loss, weight, l.out[0].as<float>());
}

int64_t CrossEntropyGradient::cuda_scratch(std::span<const Spec> in) const {
  return Plan::f32_bytes(in[0].shape.elements());
}

void CrossEntropyGradient::cuda(const Launch& l) const {
  const Tensor& logits = l.in[0];
  const int64_t rows = logits.shape()[0], width = logits.shape()[1];
  const auto stream = CudaBackend::of(l).stream();
  auto* wide = reinterpret_cast<float*>(l.scratch);
  cuda::convert(stream, logits.dtype(), logits.data, DType::kF32, wide, rows * width);
  cuda::cross_entropy(stream, logits.dtype(), rows, width, wide, l.in[1].as<int32_t>(), smoothing, l.in[2].as<float>(),
                      l.in[3].as<float>(), nullptr, nullptr, l.out[0].data);
}

int64_t ProjectCrossEntropy::cuda_scratch(std::span<const Spec> in) const {
  return RowsTogether(in[0].dtype, in[0].shape[0], in[1].shape[0], gradients).parts.bytes();
}

void ProjectCrossEntropy::cuda(const Launch& l) const {
  const Tensor &x = l.in[0], &w = l.in[1];
  const DType t = x.dtype();
  const int64_t rows = x.shape()[0], depth = x.shape()[1], width = w.shape()[0];
  const RowsTogether at(t, rows, width, gradients);
  const int64_t chunk = at.together;
  auto& backend = CudaBackend::of(l);
  const auto stream = backend.stream();
  auto* loss = reinterpret_cast<float*>(l.scratch + at.loss);
  auto* logits = reinterpret_cast<float*>(l.scratch + at.logits);
  void* dlogits = gradients ? l.scratch + at.dlogits : nullptr;
  const auto* weight = l.in[3].as<float>();
  for (int64_t first = 0; first < rows; first += chunk) {
    const int64_t count = std::min(chunk, rows - first);
    project_logits(l, first, count, logits);
    cuda::cross_entropy(stream, t, count, width, logits, l.in[2].as<int32_t>() + first, smoothing, weight, nullptr,
                        loss + first, l.out[1].as<float>() + first, dlogits);
    if (!gradients) continue;
    backend.products().multiply({.m = count, .n = depth, .k = width, .t = t, .ty = t}, dlogits, backend.weight(w, t),
                                l.out[2].at(first * depth));
    backend.products().multiply(
        {.transpose_a = true, .m = width, .n = depth, .k = count, .t = t, .ty = DType::kF32, .accumulate = true},
        dlogits, x.at(first * depth), l.out[3].data);
  }
  cuda::weighted_sum(stream, rows, loss, weight, l.out[0].as<float>());
}

}  // namespace nmt
