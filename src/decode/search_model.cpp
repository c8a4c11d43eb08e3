#include "decode/search_model.h"

#include <algorithm>

#include "ops/elementwise.h"
#include "ops/fusion.h"
#include "ops/linear.h"
#include "ops/normalize.h"
#include "ops/project_top_k.h"

namespace nmt {
namespace {

constexpr size_t kRoom = 1 << 16;  // bytes of a message, which grows

}  // namespace

SearchModel::SearchModel(const Scorer& scorer, double weight, Runtime& runtime)
    : transformer_(*scorer.transformer),
      parameters_(*scorer.parameters),
      weight_(static_cast<float>(weight)),
      runtime_(runtime),
      layers_(static_cast<size_t>(transformer_.config().dec_depth)),
      log_probabilities_(runtime.backend()->message(kRoom)),
      ids_(runtime.backend()->message(kRoom)) {}

SearchModel::~SearchModel() { runtime_.forget(allowed_rows_.data()); }

void SearchModel::encode(const Sentences::Begun& begun, int64_t source_rows) {
  const PackedText& source = begun.source;
  const auto weights = weight_begins(source.begin, source.begin);
  Graph graph(runtime_, fusion_rules());
  Leaves leaves(graph, parameters_, false);
  const auto made = transformer_.source_keys_values(leaves, transformer_.encode(leaves, source, weights));
  graph.run(made);
  std::vector<int32_t> rows;
  for (size_t s = 0; s < begun.rows.size(); ++s)
    for (int32_t i = 0; i < source.begin[s + 1] - source.begin[s]; ++i) rows.push_back(begun.rows[s] + i);
  std::vector<Backend::RowCopy> copies;
  for (size_t i = 0; i < made.size(); ++i) {
    const size_t bytes = static_cast<size_t>(made[i].shape()[1]) * size_of(made[i].dtype());
    grow(layers_[i].source, static_cast<size_t>(source_rows) * bytes);
    copies.push_back({layers_[i].source.data(), graph.place(made[i]), bytes});
  }
  runtime_.backend()->copy_rows(copies, rows);
}

void SearchModel::begin_best_tokens(const Sentences& batch, int k) {
  Graph graph(runtime_, fusion_rules());
  Leaves leaves(graph, parameters_, false);
  const Expr state = step(leaves, batch), all = transformer_.output_matrix(leaves);
  const Expr best = batch.allowed ? project_allowed(state, all, batch, k) : project_top_k(state, all, k);
  graph.run({best, best.output(1)});
  found_ = static_cast<size_t>(best.shape().elements());
  log_probabilities_->send(graph.place(best), found_ * sizeof(float));
  ids_->send(graph.place(best.output(1)), found_ * sizeof(int32_t));
}

void SearchModel::best_tokens(const Sentences& batch, std::vector<float>& log_probabilities,
                              std::vector<int32_t>& ids) {
  const auto* values = static_cast<const float*>(log_probabilities_->receive());
  const auto* tokens = static_cast<const int32_t*>(ids_->receive());
  log_probabilities.assign(values, values + found_);
  ids.assign(tokens, tokens + found_);
  if (batch.allowed)
    for (int32_t& id : ids) id = batch.allowed->ids()[static_cast<size_t>(id)];
}

void SearchModel::add_all(const Sentences& batch, std::vector<float>& sums) {
  Graph graph(runtime_, fusion_rules());
  Leaves leaves(graph, parameters_, false);
  const Expr state = cast(step(leaves, batch), DType::kF32);  // bf16 is too coarse for log-probabilities
  const Expr all = log_softmax(linear(state, transformer_.output_matrix(leaves)));
  graph.run({all});
  sums.resize(static_cast<size_t>(all.shape().elements()));
  const float* data = graph.data<float>(all);
  runtime_.pool().parallel_for(static_cast<int64_t>(sums.size()), 1 << 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) sums[static_cast<size_t>(i)] += weight_ * data[i];
  });
}

void SearchModel::add_scores(const PairInput& pairs, std::vector<float>& sums) {
  const float one = 1;
  Graph graph(runtime_, fusion_rules());
  Leaves leaves(graph, parameters_, false);
  const Expr costs = transformer_.loss(leaves, pairs, &one, 0).output(1);
  graph.run({costs});
  for (size_t i = 0; i < sums.size(); ++i) sums[i] -= weight_ * graph.data<float>(costs)[i];
}

// Memory for at least so many bytes; what is there stays.
void SearchModel::grow(Buffer& memory, size_t bytes) {
  if (bytes <= memory.bytes()) return;
  Buffer larger(runtime_.backend(), std::max(bytes, memory.bytes() * 3 / 2));
  runtime_.backend()->copy(larger.data(), memory.data(), memory.bytes());
  memory = std::move(larger);
}

Expr SearchModel::step(Leaves& leaves, const Sentences& batch) {
  const CacheRows& rows = batch.cache;
  const auto widths = transformer_.cache_widths();
  const size_t capacity = static_cast<size_t>(rows.capacity()) * size_of(runtime_.compute());
  caches_.clear();
  for (Layer& layer : layers_) {
    for (size_t i = 0; i < widths.size(); ++i) grow(layer.past[i], capacity * static_cast<size_t>(widths[i]));
    caches_.push_back({{layer.past[0].data(), layer.past[1].data()}, layer.source.data()});
  }
  return transformer_.step(leaves, {.ids = batch.ids,
                                    .positions = batch.positions,
                                    .slot = rows.slot(),
                                    .entry = rows.entry(),
                                    .length = rows.lengths(),
                                    .row_begin = batch.row_begin,
                                    .source_begin = batch.source_begin,
                                    .weight_begin = batch.weight_begin,
                                    .caches = caches_,
                                    .capacity = rows.capacity(),
                                    .source_tokens = batch.source_rows()});
}

// project_top_k of the allowed tokens alone: of their rows of the matrix, collected where they have changed.
Expr SearchModel::project_allowed(Expr state, Expr matrix, const Sentences& batch, int k) {
  const auto ids = batch.allowed->ids();
  const auto width = static_cast<size_t>(matrix.shape()[1]);
  const int64_t count = batch.allowed->padded_size();
  if (!std::ranges::equal(ids, allowed_ids_)) {
    allowed_ids_.assign(ids.begin(), ids.end());
    runtime_.forget(allowed_rows_.data());
    const size_t elements = static_cast<size_t>(count) * width;
    if (allowed_rows_.size() < elements) allowed_rows_ = FloatBuffer(runtime_.backend(), elements);
    const auto* place = static_cast<const float*>(state.graph().place(matrix));
    const float* rows = parameters_.values().data() + (place - parameters_.value_buffer().data());
    const std::span<float> to = allowed_rows_.host();
    for (size_t i = 0; i < ids.size(); ++i)
      std::copy_n(rows + static_cast<size_t>(ids[i]) * width, width, to.data() + i * width);
    std::fill(to.begin() + static_cast<std::ptrdiff_t>(ids.size() * width), to.end(), 0.f);
    allowed_rows_.upload();
  }
  Graph& graph = state.graph();
  const Expr rows = graph.parameter({count, matrix.shape()[1]}, allowed_rows_.data(), nullptr);
  const Expr masks = graph.input({{state.shape()[0], batch.allowed->mask_bytes()}, DType::kU8}, batch.masks.data());
  return project_top_k(state, rows, k, masks);
}

}  // namespace nmt
