#include "decode/search.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <ranges>

#include "backend/cpu/kernels.h"
#include "base/error.h"

namespace nmt {

PairInput pair_input(std::span<const IdPair> pairs) {
  std::vector<int32_t> source, target, source_begin = {0}, target_begin = {0};
  const auto add = [](const std::vector<int32_t>& sentence, std::vector<int32_t>& ids, std::vector<int32_t>& begin) {
    check(!sentence.empty(), "a sentence without </s>");
    ids.insert(ids.end(), sentence.begin(), sentence.end());
    begin.push_back(static_cast<int32_t>(ids.size()));
  };
  for (const IdPair& pair : pairs) {
    add(pair.source, source, source_begin);
    add(pair.target, target, target_begin);
  }
  return {source, source_begin, target, target_begin};
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

// A model alone finds its best tokens where it computes; those of ensembles and of trees are found on the host.
bool finds_its_own_best(size_t models, const SearchOptions& options) { return models == 1 && options.trees == nullptr; }

}  // namespace

// Sentences that go on together, step by step, as all models see them.
class Search::Group {
 public:
  Group(std::span<const Scorer> scorers, Runtime& runtime, const SearchOptions& options)
      : runtime_(runtime), options_(options) {
    double sum = 0;
    for (const Scorer& scorer : scorers) sum += scorer.weight;
    for (const Scorer& scorer : scorers)
      models_.push_back(std::make_unique<SearchModel>(scorer, scorer.weight / sum, runtime));
  }

  std::span<const std::unique_ptr<SearchModel>> models() const { return models_; }

  void open(SourceQueue& queue, const SearchLimits& limits, int64_t longest, const Shortlist* shortlist) {
    batch_.emplace(queue, options_, limits, models_[0]->config(), longest, shortlist);
  }
  bool under_way() const { return !batch_->ids.empty(); }

  // Begins to compute a step; what it finds is for end_step(). With nothing left in the queue nothing is under way.
  void begin_step() {
    if (const auto begun = batch_->begin(); !begun.rows.empty()) {
      const PhaseScope encoding(runtime_.profile, "encoder");
      for (const auto& model : models_) model->encode(begun, batch_->source_rows());
    }
    batch_->gather();
    if (!under_way()) return;
    const PhaseScope decoding(runtime_.profile, "decoder");
    const auto all =
        batch_->allowed ? static_cast<int>(batch_->allowed->ids().size()) : models_[0]->config().target_vocabulary;
    k_ = std::min(2 * options_.beam, all);
    if (alone())
      models_[0]->begin_best_tokens(*batch_, k_);
    else
      find_best_tokens();
  }

  void end_step(const SearchDone& done) {
    if (alone()) {
      const PhaseScope decoding(runtime_.profile, "decoder");
      models_[0]->best_tokens(*batch_, log_probabilities_, ids_);
    }
    batch_->advance(log_probabilities_, ids_, k_, runtime_.pool(), done);
  }

 private:
  bool alone() const { return finds_its_own_best(models_.size(), options_); }

  void find_best_tokens() {
    std::vector<float> sums;
    for (const auto& model : models_) model->add_all(*batch_, sums);
    const int64_t rows = std::ssize(batch_->ids), width = std::ssize(sums) / rows;
    log_probabilities_.resize(static_cast<size_t>(rows * k_));
    ids_.resize(log_probabilities_.size());
    runtime_.pool().parallel_for(rows, 1, [&](int64_t r, int64_t) {
      float *values = log_probabilities_.data() + r * k_, *all = sums.data() + r * width;
      if (options_.trees != nullptr)
        keep_only(batch_->in_tree[static_cast<size_t>(r)], {all, static_cast<size_t>(width)});
      cpu::BestLogits best;
      cpu::find_best(all, width, 0, k_, best, values, ids_.data() + r * k_);
      if (std::isnan(best.sum)) std::fill_n(values, k_, best.sum);
    });
  }

  Runtime& runtime_;
  const SearchOptions& options_;
  std::vector<std::unique_ptr<SearchModel>> models_;
  std::optional<Sentences> batch_;
  int k_ = 0;  // of the step
  std::vector<float> log_probabilities_;
  std::vector<int32_t> ids_;
};

Search::Search(std::span<const Scorer> scorers, Runtime& runtime, const SearchOptions& options,
               const Shortlist* shortlist)
    : runtime_(runtime), options_(options), shortlist_(shortlist) {
  check(!scorers.empty(), "a search without models");
  check(shortlist == nullptr || scorers.size() == 1, "a shortlist for an ensemble");
  check(shortlist == nullptr || options.trees == nullptr, "a shortlist for trees");
  for (const Scorer& scorer : scorers) {
    const ModelConfig &config = scorer.transformer->config(), &first = scorers[0].transformer->config();
    check(config.target_vocabulary == first.target_vocabulary && config.eos == first.eos,
          "models of an ensemble have different vocabularies");
  }
  // While a device computes a step of one group, the host goes on with what the other's has found.
  const bool takes_turns = !runtime.backend()->on_host() && finds_its_own_best(scorers.size(), options);
  for (int i = 0; i < (takes_turns ? 2 : 1); ++i) groups_.push_back(std::make_unique<Group>(scorers, runtime, options));
}

Search::~Search() = default;

int64_t Search::longest() const {
  int64_t longest = INT64_MAX;
  for (const auto& model : groups_[0]->models()) longest = std::min(longest, model->config().longest());
  return longest;
}

void Search::translate(SourceQueue& queue, const SearchLimits& limits, const SearchDone& done) {
  const auto count = std::min(std::ssize(groups_), std::max<int64_t>(1, limits.sentences));
  const std::span groups(groups_.data(), static_cast<size_t>(count));
  const PhaseScope phase(runtime_.profile, "search");
  for (const auto& group : groups) {
    group->open(queue, {.sentences = limits.sentences / count, .tokens = limits.tokens / count}, longest(), shortlist_);
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
  std::vector<std::vector<float>> scores;
  if (pairs.empty()) return scores;
  const PairInput input = pair_input(pairs);
  std::vector<float> sums(input.target.ids.size());
  for (const auto& model : groups_[0]->models()) model->add_scores(input, sums);
  for (size_t s = 0; s < pairs.size(); ++s)
    scores.emplace_back(sums.begin() + input.target.begin[s], sums.begin() + input.target.begin[s + 1]);
  return scores;
}

}  // namespace nmt
