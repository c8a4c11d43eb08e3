#include <algorithm>

#include "backend/cuda/kernels.h"
#include "graph/backend_cuda.h"
#include "graph/plan.h"
#include "ops/cross_entropy.h"
#include "ops/logits_cuda.h"

namespace nmt {

int64_t CrossEntropy::cuda_scratch(std::span<const Spec> in) const { return scratch(in); }

void CrossEntropy::cuda(const Launch& l) const {
  const Tensor& logits = l.in[0];
  const int64_t rows = logits.shape()[0], width = logits.shape()[1];
  const auto stream = CudaBackend::of(l).stream();
  auto* wide = reinterpret_cast<float*>(l.scratch);
  auto* loss = reinterpret_cast<float*>(l.scratch + Plan::f32_bytes(rows * width));
  const auto* weight = l.in[2].as<float>();
  cuda::convert(stream, logits.dtype(), logits.data, DType::kF32, wide, rows * width);
  cuda::cross_entropy(stream, DType::kF32, rows, width, wide, l.in[1].as<int32_t>(), smoothing, weight, nullptr, loss,
                      l.out[1].as<float>(), nullptr);
  cuda::weighted_sum(stream, rows, loss, weight, l.out[0].as<float>());
}

int64_t CrossEntropyGradient::cuda_scratch(std::span<const Spec> in) const { return scratch(in); }

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
  const int64_t rows = in[0].shape[0], width = in[1].shape[0], chunk = device_logit_rows(rows, width);
  int64_t bytes = Plan::f32_bytes(rows) + Plan::f32_bytes(chunk * width);
  if (gradients) bytes += Plan::aligned(chunk * width * static_cast<int64_t>(size_of(in[0].dtype)));
  return bytes;
}

void ProjectCrossEntropy::cuda(const Launch& l) const {
  const Tensor &x = l.in[0], &w = l.in[1];
  const DType t = x.dtype();
  const int64_t rows = x.shape()[0], depth = x.shape()[1], width = w.shape()[0];
  const int64_t chunk = device_logit_rows(rows, width);
  auto& backend = CudaBackend::of(l);
  const auto stream = backend.stream();
  auto* loss = reinterpret_cast<float*>(l.scratch);
  auto* logits = reinterpret_cast<float*>(l.scratch + Plan::f32_bytes(rows));
  void* dlogits = gradients ? l.scratch + Plan::f32_bytes(rows) + Plan::f32_bytes(chunk * width) : nullptr;
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
