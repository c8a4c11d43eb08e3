#include "decode/search.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "backend/cpu/kernels.h"
#include "base/error.h"
#include "ops/elementwise.h"
#include "ops/fusion.h"
#include "ops/linear.h"
#include "ops/normalize.h"
#include "ops/project_top_k.h"

namespace nmt {

void Concatenation::add(std::span<const int32_t> sentence) {
  ids.insert(ids.end(), sentence.begin(), sentence.end());
  begin.push_back(static_cast<int32_t>(ids.size()));
}

namespace {

// Makes all others impossible. What remains keeps its log-probability: a tree's is what the model gives it, however
// little else was possible.
void keep_only(std::span<const int32_t> ids, std::span<float> log_probabilities) {
  thread_local std::vector<float> kept;
  kept.clear();
  for (const int32_t id : ids) kept.push_back(log_probabilities[static_cast<size_t>(id)]);
  std::ranges::fill(log_probabilities, -std::numeric_limits<float>::infinity());
  for (size_t i = 0; i < ids.size(); ++i) log_probabilities[static_cast<size_t>(ids[i])] = kept[i];
}

}  // namespace

// A model with what it remembers of the sentences under way. The memory is kept for the next ones.
class Search::Member {
 public:
  Member(const Scorer& scorer, double weight, Runtime& runtime)
      : transformer_(*scorer.transformer),
        parameters_(*scorer.parameters),
        weight_(static_cast<float>(weight)),
        runtime_(runtime),
        layers_(static_cast<size_t>(transformer_.config().dec_depth)) {}

  ~Member() { runtime_.forget(allowed_rows_.data()); }
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  const ModelConfig& config() const { return transformer_.config(); }
  float weight() const { return weight_; }

  void encode(const Sentences::Begun& begun, int64_t source_rows) {
    const PackedText& source = begun.source;
    const auto weights = weight_begins(source.begin, source.begin);
    Graph graph(runtime_, fusion_rules());
    Leaves leaves(graph, parameters_, false);
    const auto made = transformer_.source_keys_values(leaves, transformer_.encode(leaves, source, weights));
    graph.run(made);
    for (size_t i = 0; i < made.size(); ++i) {
      const auto width = static_cast<size_t>(made[i].shape()[1]) * size_of(made[i].dtype());
      Buffer& to = layers_[i].source;
      grow(to, static_cast<size_t>(source_rows) * width);
      const auto* from = static_cast<const std::byte*>(graph.place(made[i]));
      for (size_t s = 0; s < begun.rows.size(); ++s) {
        const auto first = static_cast<size_t>(source.begin[s]), last = static_cast<size_t>(source.begin[s + 1]);
        runtime_.backend()->copy(to.data() + static_cast<size_t>(begun.rows[s]) * width, from + first * width,
                                 (last - first) * width);
      }
    }
  }

  // Log-probabilities and ids of the k best next tokens of each row.
  void best_tokens(const Sentences& batch, int k, std::vector<float>& log_probabilities, std::vector<int32_t>& ids) {
    Graph graph(runtime_, fusion_rules());
    Leaves leaves(graph, parameters_, false);
    const Expr state = step(leaves, batch), all = transformer_.output_matrix(leaves);
    const Expr best = batch.allowed ? project_allowed(state, all, batch, k) : project_top_k(state, all, k);
    graph.run({best, best.output(1)});
    const auto count = static_cast<size_t>(best.shape().elements());
    log_probabilities.assign(graph.data<float>(best), graph.data<float>(best) + count);
    ids.assign(graph.data<int32_t>(best.output(1)), graph.data<int32_t>(best.output(1)) + count);
    if (batch.allowed)
      for (int32_t& id : ids) id = batch.allowed->ids()[static_cast<size_t>(id)];
  }

  // Adds weight * log-probability of every token to sums [rows, vocabulary].
  void add_all(const Sentences& batch, std::vector<float>& sums) {
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

  // Adds weight * log p of each target token to sums.
  void add_scores(const PairInput& pairs, std::vector<float>& sums) {
    const float one = 1;
    Graph graph(runtime_, fusion_rules());
    Leaves leaves(graph, parameters_, false);
    const Expr costs = transformer_.loss(leaves, pairs, &one, 0).output(1);
    graph.run({costs});
    for (size_t i = 0; i < sums.size(); ++i) sums[i] -= weight_ * graph.data<float>(costs)[i];
  }

 private:
  struct Layer {
    Buffer source, past[2];
  };

  // Memory for at least so many bytes; what is there stays.
  void grow(Buffer& memory, size_t bytes) {
    if (bytes <= memory.bytes()) return;
    Buffer larger(runtime_.backend(), std::max(bytes, memory.bytes() * 3 / 2));
    runtime_.backend()->copy(larger.data(), memory.data(), memory.bytes());
    memory = std::move(larger);
  }

  Expr step(Leaves& leaves, const Sentences& batch) {
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
  Expr project_allowed(Expr state, Expr matrix, const Sentences& batch, int k) {
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

  const Transformer transformer_;  // of its own: it is for one thread
  Parameters& parameters_;
  float weight_;
  Runtime& runtime_;
  std::vector<Layer> layers_;
  std::vector<int32_t> allowed_ids_;
  FloatBuffer allowed_rows_;  // of the output matrix
  std::vector<Transformer::LayerCache> caches_;
};

Search::Search(std::span<const Scorer> scorers, Runtime& runtime, const SearchOptions& options,
               const Shortlist* shortlist)
    : runtime_(runtime), options_(options), shortlist_(shortlist) {
  double sum = 0;
  for (const Scorer& scorer : scorers) sum += scorer.weight;
  for (const Scorer& scorer : scorers)
    members_.push_back(std::make_unique<Member>(scorer, scorer.weight / sum, runtime));
  check(!members_.empty(), "a search without models");
  check(shortlist == nullptr || members_.size() == 1, "a shortlist for an ensemble");
  check(shortlist == nullptr || options.trees == nullptr, "a shortlist for trees");
  for (const auto& member : members_)
    check(member->config().target_vocabulary == members_[0]->config().target_vocabulary &&
              member->config().eos == members_[0]->config().eos,
          "models of an ensemble have different vocabularies");
}

Search::~Search() = default;

int64_t Search::longest() const {
  int64_t longest = INT64_MAX;
  for (const auto& member : members_) longest = std::min(longest, member->config().longest());
  return longest;
}

void Search::best_tokens(const Sentences& batch, int k, std::vector<float>& log_probabilities,
                         std::vector<int32_t>& ids) {
  const bool trees = options_.trees != nullptr;
  if (members_.size() == 1 && !trees) return members_[0]->best_tokens(batch, k, log_probabilities, ids);
  std::vector<float> sums;
  for (const auto& member : members_) member->add_all(batch, sums);
  const int64_t rows = std::ssize(batch.ids), width = std::ssize(sums) / rows;
  log_probabilities.resize(static_cast<size_t>(rows * k));
  ids.resize(log_probabilities.size());
  runtime_.pool().parallel_for(rows, 1, [&](int64_t r, int64_t) {
    float *values = log_probabilities.data() + r * k, *all = sums.data() + r * width;
    if (trees) keep_only(batch.in_tree[static_cast<size_t>(r)], {all, static_cast<size_t>(width)});
    cpu::BestLogits best;
    cpu::find_best(all, width, 0, k, best, values, ids.data() + r * k);
    if (std::isnan(best.sum)) std::fill_n(values, k, best.sum);
  });
}

void Search::translate(SourceQueue& queue, const SearchLimits& limits, const SearchDone& done) {
  const ModelConfig& config = members_[0]->config();
  Sentences batch(queue, options_, limits, config, longest(), shortlist_);
  std::vector<float> log_probabilities;
  std::vector<int32_t> ids;
  const PhaseScope phase(runtime_.profile, "search");
  for (;;) {
    if (const auto begun = batch.begin(); !begun.rows.empty()) {
      const PhaseScope encoding(runtime_.profile, "encoder");
      for (const auto& member : members_) member->encode(begun, batch.source_rows());
    }
    batch.gather();
    if (batch.ids.empty()) return;
    int k = 0;
    {
      const PhaseScope decoding(runtime_.profile, "decoder");
      const auto all = batch.allowed ? static_cast<int>(batch.allowed->ids().size()) : config.target_vocabulary;
      k = std::min(2 * options_.beam, all);
      best_tokens(batch, k, log_probabilities, ids);
    }
    batch.advance(log_probabilities, ids, k, done);
  }
}

std::vector<std::vector<float>> Search::score(std::span<const IdPair> pairs) {
  Concatenation source, target;
  for (const IdPair& pair : pairs) {
    check(!pair.source.empty() && !pair.target.empty(), "a pair without </s>");
    source.add(pair.source);
    target.add(pair.target);
  }
  std::vector<std::vector<float>> scores;
  if (pairs.empty()) return scores;
  std::vector<float> sums(target.ids.size());
  const PairInput input(source.ids, source.begin, target.ids, target.begin);
  for (const auto& member : members_) member->add_scores(input, sums);
  for (size_t s = 0; s < pairs.size(); ++s)
    scores.emplace_back(sums.begin() + target.begin[s], sums.begin() + target.begin[s + 1]);
  return scores;
}

}  // namespace nmt
