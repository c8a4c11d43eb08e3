#include "ops/cross_entropy.h"

#include <algorithm>

#include "backend/cpu/kernels.h"
#include "base/aligned.h"
#include "base/error.h"
#include "base/math.h"
#include "graph/runtime.h"
#include "graph/scratch_parts.h"

namespace nmt {
namespace {

// Rows whose logits' gradients exist together: they bound the working memory, and how often the weight's gradient is
// passed over.
constexpr int64_t kGradientRows = 1024;

// Logits that one task computes: a tile, which L2 keeps until it has been looked at. Those of all rows come one after
// another, as they read the same columns of the weight.
constexpr int64_t kTileRows = 256, kTileColumns = 512;
constexpr int64_t kRowsOfLoss = 16;  // that one task finishes

int64_t tiles_floats(int64_t rows, int64_t width) { return cpu::LogitTiles::floats(rows, width, kTileColumns); }

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
        "{}: {}, labels {}, weight {}", name, x.shape, labels.shape, weight.shape);
  return {{{1}, DType::kF32}, {{rows}, DType::kF32}};
}

}  // namespace

Expr cross_entropy(Expr logits, Expr labels, Expr weight, float smoothing) {
  return logits.graph().append(CrossEntropy{smoothing}, {logits, labels, weight});
}

std::vector<Spec> CrossEntropy::infer(std::span<const Spec> in) const {
  return infer_losses(kName, in[0], in[0].shape.dim(0), in[1], in[2]);
}

namespace {

// The logits as float32, and what is looked at of them: as one tile.
struct WholeRows {
  WholeRows(int64_t rows, int64_t width)
      : logits(parts.floats(rows * width)), loss(parts.floats(rows)), tiles(parts.floats(tiles_floats(rows, width))) {}

  ScratchParts parts;
  int64_t logits, loss, tiles;
};

int64_t whole_rows_scratch(const Spec& logits) { return WholeRows(logits.shape[0], logits.shape[1]).parts.bytes(); }

// dlogits may be null. Returns the losses of the rows, which are in the scratch.
float* whole_rows(const Launch& l, float smoothing, float weight, float* nll, void* dlogits) {
  const Tensor& logits = l.in[0];
  const int64_t rows = logits.shape()[0], width = logits.shape()[1];
  check_labels(l.in[1], width);
  const auto* labels = l.in[1].as<int32_t>();
  const WholeRows at(rows, width);
  auto* wide = reinterpret_cast<float*>(l.scratch + at.logits);
  auto* loss = reinterpret_cast<float*>(l.scratch + at.loss);
  const auto tiles = cpu::LogitTiles::in(reinterpret_cast<float*>(l.scratch + at.tiles), rows, width, width);
  cpu::convert(logits.dtype(), logits.data, DType::kF32, wide, rows * width);
  cpu::look_at_logits(logits.dtype(), tiles, {0, rows}, 0, wide, labels, dlogits);
  cpu::cross_entropy(logits.dtype(), tiles, {0, rows}, labels, smoothing, weight, loss, nll, dlogits);
  return loss;
}

}  // namespace

int64_t CrossEntropy::scratch(std::span<const Spec> in) const { return whole_rows_scratch(in[0]); }

void CrossEntropy::cpu(const Launch& l) const {
  const float* loss = whole_rows(l, smoothing, 1, l.out[1].as<float>(), nullptr);
  *l.out[0].as<float>() = total(loss, l.in[0].shape()[0], *l.in[2].as<float>());
}

void CrossEntropy::backward(Backprop& b) const {
  b.add(0, b.graph().append(CrossEntropyGradient{smoothing}, {b.input(0), b.input(1), b.input(2), b.gradient()}));
}

int64_t CrossEntropyGradient::scratch(std::span<const Spec> in) const { return whole_rows_scratch(in[0]); }

void CrossEntropyGradient::cpu(const Launch& l) const {
  whole_rows(l, smoothing, *l.in[2].as<float>() * *l.in[3].as<float>(), nullptr, l.out[0].data);
}

std::vector<Spec> ProjectCrossEntropy::infer(std::span<const Spec> in) const {
  check(in[1].shape.rank() == 2 && in[1].shape[1] == in[0].shape.dim(-1), "{}: x {}, weight {}", kName, in[0].shape,
        in[1].shape);
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
  Node& node = b.node();
  ProjectCrossEntropy op = *this;
  op.gradients = true;
  node.op = op;
  node.outputs.push_back(b.input(0).spec());
  node.outputs.push_back(b.input(1).spec());
  node.sinks = {-1, -1, -1, b.wants(1) ? b.sink(1) : -1};
  if (b.wants(0)) b.add(0, b.output(2));
}

namespace {

// Losses of all rows; of those that exist together what is looked at of their logits, and the logits' gradients.
struct RowsTogether {
  RowsTogether(DType t, int64_t rows, int64_t width, bool gradients)
      : together(std::min(rows, kGradientRows)),
        loss(parts.floats(rows)),
        tiles(parts.floats(tiles_floats(together, width))),
        dlogits(parts.part(gradients ? together * width * static_cast<int64_t>(size_of(t)) : 0)) {}

  ScratchParts parts;
  int64_t together, loss, tiles, dlogits;
};

}  // namespace

int64_t ProjectCrossEntropy::scratch(std::span<const Spec> in) const {
  return RowsTogether(in[0].dtype, in[0].shape[0], in[1].shape[0], gradients).parts.bytes();
}

void ProjectCrossEntropy::cpu(const Launch& l) const {
  const Tensor &x = l.in[0], &w = l.in[1];
  const DType t = x.dtype();
  const int64_t rows = x.shape()[0], depth = x.shape()[1], width = w.shape()[0];
  check_labels(l.in[2], width);
  auto& pool = l.runtime.pool();
  const float weight = *l.in[3].as<float>();
  const auto& packed = l.runtime.packed(w, t, false);
  const int64_t tile = std::min(kTileColumns, width);
  const RowsTogether at(t, rows, width, gradients);
  auto* loss = reinterpret_cast<float*>(l.scratch + at.loss);
  const auto tiles = cpu::LogitTiles::in(reinterpret_cast<float*>(l.scratch + at.tiles), at.together, width, tile);
  std::byte* dlogits = gradients ? l.scratch + at.dlogits : nullptr;
  for (int64_t chunk = 0; chunk < rows; chunk += kGradientRows) {
    const int64_t count = std::min(kGradientRows, rows - chunk);
    const auto* labels = l.in[2].as<int32_t>() + chunk;
    const int64_t blocks = divide_up(count, kTileRows);
    pool.parallel_for(tiles.tiles() * blocks, 1, [&](int64_t task, int64_t) {
      const int64_t begin = task % blocks * kTileRows, end = std::min(begin + kTileRows, count);
      const int64_t first = task / blocks * tile, last = std::min(first + tile, width);
      thread_local UnsetVector<float> logits;
      logits.resize(static_cast<size_t>((end - begin) * (last - first)));
      thread_local cpu::Operand operand;
      operand.assign(packed, end - begin, t, x.at((chunk + begin) * depth));
      cpu::multiply_block(packed, first, last, operand, 0, end - begin, logits.data());
      cpu::look_at_logits(t, tiles, {begin, end}, task / blocks, logits.data(), labels, dlogits);
    });
    pool.parallel_for(count, kRowsOfLoss, [&](int64_t begin, int64_t end) {
      cpu::cross_entropy(t, tiles, {begin, end}, labels, smoothing, weight, loss + chunk, l.out[1].as<float>() + chunk,
                         dlogits);
    });
    if (!gradients) continue;
    const auto& transposed = l.runtime.packed(w, t, true);
    cpu::multiply(pool, transposed, count, t, dlogits, t, l.out[2].at(chunk * depth));
    cpu::multiply_transposed(pool, t, count, width, depth, dlogits, x.at(chunk * depth), l.out[3].as<float>());
  }
  *l.out[0].as<float>() = total(loss, rows, weight);
}

}  // namespace nmt
