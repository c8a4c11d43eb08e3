#include "decode/search_model.h"

#include <algorithm>

#include "ops/elementwise.h"
#include "ops/fusion.h"
#include "ops/linear.h"
#include "ops/normalize.h"
#include "ops/project_top_k.h"

namespace nmt {

SearchModel::SearchModel(const Scorer& scorer, double weight, Runtime& runtime)
    : transformer_(*scorer.transformer),
      parameters_(*scorer.parameters),
      weight_(static_cast<float>(weight)),
      runtime_(runtime),
      layers_(static_cast<size_t>(transformer_.config().dec_depth)) {}

SearchModel::~SearchModel() { runtime_.forget(allowed_rows_.data()); }

void SearchModel::release() {
  for (Layer& layer : layers_) layer = {};
  runtime_.forget(allowed_rows_.data());
  allowed_rows_ = {};
  allowed_ids_.clear();
}

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
    const size_t size = size_of(made[i].dtype()), stride = static_cast<size_t>(made[i].shape()[1]) * size;
    const auto* from = static_cast<const std::byte*>(graph.place(made[i]));
    for (size_t part = 0; part < 2; ++part) {
      Buffer& memory = layers_[i].source[part];
      const size_t bytes = static_cast<size_t>(transformer_.source_widths()[part]) * size;
      grow(memory, static_cast<size_t>(source_rows) * bytes);
      copies.push_back({memory.data(), from, bytes, stride});
      from += bytes;
    }
  }
  runtime_.backend()->copy_rows(copies, rows);
}

Expr SearchModel::best_tokens(Graph& graph, const Transformer::StepRows& rows, int64_t cache_rows,
                              const Sentences& sentences, int k) {
  Leaves leaves(graph, parameters_, false);
  const Expr state = step(leaves, rows, cache_rows, sentences), all = transformer_.output_matrix(leaves);
  return sentences.allowed ? project_allowed(state, all, sentences, k) : project_top_k(state, all, k);
}

Expr SearchModel::log_probabilities(Graph& graph, const Transformer::StepRows& rows, int64_t cache_rows,
                                    const Sentences& sentences) {
  Leaves leaves(graph, parameters_, false);
  // bf16 is too coarse for log-probabilities
  const Expr state = cast(step(leaves, rows, cache_rows, sentences), DType::kF32);
  return log_softmax(linear(state, transformer_.output_matrix(leaves)));
}

void SearchModel::add_scores(const PairInput& pairs, std::vector<float>& sums) {
  Graph graph(runtime_, fusion_rules());
  Leaves leaves(graph, parameters_, false);
  const Expr costs = transformer_.loss(leaves, pairs).output(1);
  graph.run({costs});
  const float* cost = graph.data<float>(costs);
  for (size_t i = 0; i < sums.size(); ++i) sums[i] -= weight_ * cost[i];
}

// Memory for at least so many bytes; what is there stays.
void SearchModel::grow(Buffer& memory, size_t bytes) {
  if (bytes <= memory.bytes()) return;
  Buffer larger(runtime_.backend(), std::max(bytes, memory.bytes() * 3 / 2));
  runtime_.backend()->copy(larger.data(), memory.data(), memory.bytes());
  memory = std::move(larger);
}

Expr SearchModel::step(Leaves& leaves, const Transformer::StepRows& rows, int64_t cache_rows,
                       const Sentences& sentences) {
  const auto widths = transformer_.cache_widths();
  const size_t capacity = static_cast<size_t>(cache_rows) * size_of(runtime_.compute());
  std::vector<Transformer::LayerCache> caches;
  for (Layer& layer : layers_) {
    for (size_t i = 0; i < widths.size(); ++i) grow(layer.past[i], capacity * static_cast<size_t>(widths[i]));
    caches.push_back({{layer.past[0].data(), layer.past[1].data()}, {layer.source[0].data(), layer.source[1].data()}});
  }
  return transformer_.step(leaves, {.rows = rows,
                                    .row_begin = sentences.row_begin,
                                    .source_begin = sentences.source_begin,
                                    .weight_begin = sentences.weight_begin,
                                    .caches = caches,
                                    .capacity = cache_rows,
                                    .source_tokens = sentences.source_rows()});
}

// project_top_k of the allowed tokens alone: of their rows of the matrix, collected where they have changed.
Expr SearchModel::project_allowed(Expr state, Expr matrix, const Sentences& sentences, int k) {
  const auto ids = sentences.allowed->ids();
  const auto width = static_cast<size_t>(matrix.shape()[1]);
  const int64_t count = sentences.allowed->padded_size();
  if (!std::ranges::equal(ids, allowed_ids_)) {
    allowed_ids_.clear();  // till the rows are there: memory may not suffice for them
    runtime_.forget(allowed_rows_.data());
    const size_t elements = static_cast<size_t>(count) * width;
    if (allowed_rows_.size() < elements) allowed_rows_ = FloatBuffer(runtime_.backend(), elements);
    const std::span<const float> rows = parameters_.values(parameters_.entry(transformer_.output_name()));
    const std::span<float> to = allowed_rows_.host();
    for (size_t i = 0; i < ids.size(); ++i)
      std::ranges::copy(rows.subspan(static_cast<size_t>(ids[i]) * width, width), to.data() + i * width);
    std::fill(to.begin() + static_cast<std::ptrdiff_t>(ids.size() * width), to.end(), 0.f);
    allowed_rows_.upload();
    allowed_ids_.assign(ids.begin(), ids.end());
  }
  Graph& graph = state.graph();
  const Expr rows = graph.parameter({count, matrix.shape()[1]}, allowed_rows_.data(), nullptr);
  const Expr masks =
      graph.input({{state.shape()[0], sentences.allowed->mask_bytes()}, DType::kU8}, sentences.masks.data());
  return project_top_k(state, rows, k, masks);
}

}  // namespace nmt
