#include "decode/search.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <ranges>

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

// One model whose best tokens are asked for as they are finds them where it computes.
bool finds_its_own_best(size_t models, const SearchOptions& options) { return models == 1 && options.trees == nullptr; }

// A message of any size.
class Letter {
 public:
  explicit Letter(Backend& backend) : backend_(backend) {}

  void send(const void* from, size_t bytes) {
    if (bytes > room_) message_ = backend_.message(room_ = 2 * bytes);
    message_->send(from, bytes);
    bytes_ = bytes;
  }
  template <class T>
  std::span<const T> receive() {
    return {static_cast<const T*>(message_->receive()), bytes_ / sizeof(T)};
  }

 private:
  Backend& backend_;
  std::unique_ptr<Message> message_;
  size_t room_ = 0, bytes_ = 0;
};

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

  // Begins to compute the k best next tokens of each row.
  void send_best_tokens(const Sentences& batch, int k, Letter& log_probabilities, Letter& ids) {
    Graph graph(runtime_, fusion_rules());
    Leaves leaves(graph, parameters_, false);
    const Expr state = step(leaves, batch), all = transformer_.output_matrix(leaves);
    const Expr best = batch.allowed ? project_allowed(state, all, batch, k) : project_top_k(state, all, k);
    graph.run({best, best.output(1)});
    const auto count = static_cast<size_t>(best.shape().elements());
    log_probabilities.send(graph.place(best), count * sizeof(float));
    ids.send(graph.place(best.output(1)), count * sizeof(int32_t));
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

// Sentences that go on together, step by step, as all models see them.
class Search::Group {
 public:
  Group(std::span<const Scorer> scorers, Runtime& runtime, const SearchOptions& options)
      : runtime_(runtime), options_(options), log_probabilities_(*runtime.backend()), ids_(*runtime.backend()) {
    double sum = 0;
    for (const Scorer& scorer : scorers) sum += scorer.weight;
    for (const Scorer& scorer : scorers)
      members_.push_back(std::make_unique<Member>(scorer, scorer.weight / sum, runtime));
  }

  std::span<const std::unique_ptr<Member>> members() const { return members_; }

  void open(SourceQueue& queue, const SearchLimits& limits, int64_t longest, const Shortlist* shortlist) {
    batch_.emplace(queue, options_, limits, members_[0]->config(), longest, shortlist);
  }
  bool under_way() const { return !batch_->ids.empty(); }

  // Begins to compute a step; what it finds is for end_step(). With nothing left in the queue nothing is under way.
  void begin_step() {
    if (const auto begun = batch_->begin(); !begun.rows.empty()) {
      const PhaseScope encoding(runtime_.profile, "encoder");
      for (const auto& member : members_) member->encode(begun, batch_->source_rows());
    }
    batch_->gather();
    if (!under_way()) return;
    const PhaseScope decoding(runtime_.profile, "decoder");
    const auto all =
        batch_->allowed ? static_cast<int>(batch_->allowed->ids().size()) : members_[0]->config().target_vocabulary;
    k_ = std::min(2 * options_.beam, all);
    if (alone())
      members_[0]->send_best_tokens(*batch_, k_, log_probabilities_, ids_);
    else
      find_best_tokens();
  }

  void end_step(const SearchDone& done) {
    if (!alone()) return batch_->advance(found_log_probabilities_, found_ids_, k_, runtime_.pool(), done);
    std::span<const float> log_probabilities;
    std::span<const int32_t> ids;
    {
      const PhaseScope decoding(runtime_.profile, "decoder");
      log_probabilities = log_probabilities_.receive<float>();
      ids = ids_.receive<int32_t>();
    }
    if (batch_->allowed) {
      found_ids_.clear();
      for (const int32_t id : ids) found_ids_.push_back(batch_->allowed->ids()[static_cast<size_t>(id)]);
      ids = found_ids_;
    }
    batch_->advance(log_probabilities, ids, k_, runtime_.pool(), done);
  }

 private:
  bool alone() const { return finds_its_own_best(members_.size(), options_); }

  void find_best_tokens() {
    std::vector<float> sums;
    for (const auto& member : members_) member->add_all(*batch_, sums);
    const int64_t rows = std::ssize(batch_->ids), width = std::ssize(sums) / rows;
    found_log_probabilities_.resize(static_cast<size_t>(rows * k_));
    found_ids_.resize(found_log_probabilities_.size());
    runtime_.pool().parallel_for(rows, 1, [&](int64_t r, int64_t) {
      float *values = found_log_probabilities_.data() + r * k_, *all = sums.data() + r * width;
      if (options_.trees != nullptr)
        keep_only(batch_->in_tree[static_cast<size_t>(r)], {all, static_cast<size_t>(width)});
      cpu::BestLogits best;
      cpu::find_best(all, width, 0, k_, best, values, found_ids_.data() + r * k_);
      if (std::isnan(best.sum)) std::fill_n(values, k_, best.sum);
    });
  }

  Runtime& runtime_;
  const SearchOptions& options_;
  std::vector<std::unique_ptr<Member>> members_;
  std::optional<Sentences> batch_;
  int k_ = 0;  // of the step
  Letter log_probabilities_, ids_;
  std::vector<float> found_log_probabilities_;
  std::vector<int32_t> found_ids_;
};

Search::Search(std::span<const Scorer> scorers, Runtime& runtime, const SearchOptions& options,
               const Shortlist* shortlist)
    : runtime_(runtime), options_(options), shortlist_(shortlist) {
  // While a device computes a step of one group, the host goes on with what the other's has found.
  const bool takes_turns = !runtime.backend()->on_host() && finds_its_own_best(scorers.size(), options);
  for (int i = 0; i < (takes_turns ? 2 : 1); ++i) groups_.push_back(std::make_unique<Group>(scorers, runtime, options));
  check(!scorers.empty(), "a search without models");
  check(shortlist == nullptr || scorers.size() == 1, "a shortlist for an ensemble");
  check(shortlist == nullptr || options.trees == nullptr, "a shortlist for trees");
  for (const Scorer& scorer : scorers) {
    const ModelConfig &config = scorer.transformer->config(), &first = scorers[0].transformer->config();
    check(config.target_vocabulary == first.target_vocabulary && config.eos == first.eos,
          "models of an ensemble have different vocabularies");
  }
}

Search::~Search() = default;

int64_t Search::longest() const {
  int64_t longest = INT64_MAX;
  for (const auto& member : groups_[0]->members()) longest = std::min(longest, member->config().longest());
  return longest;
}

void Search::translate(SourceQueue& queue, const SearchLimits& limits, const SearchDone& done) {
  const auto count = std::min(std::ssize(groups_), std::max<int64_t>(1, limits.sentences));
  const std::span groups(groups_.data(), static_cast<size_t>(count));
  const PhaseScope phase(runtime_.profile, "search");
  for (const auto& group : groups) {
    group->open(queue, {.sentences = limits.sentences / count, .words = limits.words / count}, longest(), shortlist_);
    group->begin_step();
  }
  const auto under_way = [](const auto& group) { return group->under_way(); };
  while (std::ranges::any_of(groups, under_way))
    for (const auto& group : groups | std::views::filter(under_way)) {
      group->end_step(done);
      group->begin_step();
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
  for (const auto& member : groups_[0]->members()) member->add_scores(input, sums);
  for (size_t s = 0; s < pairs.size(); ++s)
    scores.emplace_back(sums.begin() + target.begin[s], sums.begin() + target.begin[s + 1]);
  return scores;
}

}  // namespace nmt
