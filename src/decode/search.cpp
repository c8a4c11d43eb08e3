#include "decode/search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/kernels.h"
#include "base/error.h"
#include "ops/fusion.h"

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

}  // namespace

Search::Search(std::span<const Scorer> scorers, Runtime& runtime, const SearchOptions& options,
               const Shortlist* shortlist)
    : runtime_(runtime), options_(options), shortlist_(shortlist) {
  check(!scorers.empty(), "a search without models");
  check(shortlist == nullptr || scorers.size() == 1, "a shortlist for an ensemble");
  check(shortlist == nullptr || options.trees == nullptr, "a shortlist for trees");
  double sum = 0;
  for (const Scorer& scorer : scorers) {
    const ModelConfig &config = scorer.transformer->config(), &first = scorers[0].transformer->config();
    check(config.target_vocabulary == first.target_vocabulary && config.eos == first.eos,
          "models of an ensemble have different vocabularies");
    sum += scorer.weight;
  }
  for (const Scorer& scorer : scorers)
    models_.push_back(std::make_unique<SearchModel>(scorer, scorer.weight / sum, runtime));
  // What ensembles and trees may go on with is found on the host.
  if (!runtime.backend()->on_host() && scorers.size() == 1 && options.trees == nullptr)
    device_beams_ = std::make_unique<DeviceBeams>(runtime.backend(), options, models_[0]->config().eos);
}

int64_t Search::longest() const {
  int64_t longest = INT64_MAX;
  for (const auto& model : models_) longest = std::min(longest, model->config().longest());
  return longest;
}

void Search::release() {
  for (const auto& model : models_) model->release();
  if (device_beams_ != nullptr) device_beams_->release();
  runtime_.release_workspace();
}

void Search::translate(SourceQueue& queue, const SearchLimits& limits, const SearchDone& done) {
  const PhaseScope phase(runtime_.profile, "search");
  Sentences sentences(queue, options_, limits, models_[0]->config(), longest(), shortlist_);
  if (device_beams_ != nullptr)
    search_on_device(sentences, done);
  else
    search_on_host(sentences, done);
}

void Search::encode(const Sentences::Begun& begun, const Sentences& sentences) {
  if (begun.rows.empty()) return;
  const PhaseScope encoding(runtime_.profile, "encoder");
  for (const auto& model : models_) model->encode(begun, sentences.source_rows());
}

int Search::candidate_count(const Sentences& sentences) const {
  const auto all =
      sentences.allowed ? static_cast<int>(sentences.allowed->ids().size()) : models_[0]->config().target_vocabulary;
  return std::min(options_.candidates(), all);
}

void Search::search_on_host(Sentences& sentences, const SearchDone& done) {
  HostBeams beams(options_, models_[0]->config().eos);
  BestTokens best;
  for (;;) {
    encode(sentences.begin(), sentences);
    beams.gather(sentences);
    if (beams.count() == 0) return;
    const int k = candidate_count(sentences);
    {
      const PhaseScope decoding(runtime_.profile, "decoder");
      find_best_tokens(beams, sentences, k, best);
    }
    beams.advance(best.log_probabilities, best.ids, k, runtime_.pool(), sentences, done);
  }
}

// A model alone finds its best tokens where it computes; those of ensembles and of trees are found here.
void Search::find_best_tokens(const HostBeams& beams, const Sentences& sentences, int k, BestTokens& best) {
  const int64_t found = beams.count() * k;
  if (models_.size() == 1 && options_.trees == nullptr) {
    Graph graph(runtime_, fusion_rules());
    const Expr values = models_[0]->best_tokens(graph, beams.rows(graph), beams.cache_rows(), sentences, k);
    graph.run({values, values.output(1)});
    best.log_probabilities.assign(graph.data<float>(values), graph.data<float>(values) + found);
    const auto* ids = graph.data<int32_t>(values.output(1));
    best.ids.assign(ids, ids + found);
    return;
  }
  std::vector<float> sums;
  for (const auto& model : models_) {
    Graph graph(runtime_, fusion_rules());
    const Expr all = model->log_probabilities(graph, beams.rows(graph), beams.cache_rows(), sentences);
    graph.run({all});
    sums.resize(static_cast<size_t>(all.shape().elements()));
    const float *data = graph.data<float>(all), weight = model->weight();
    runtime_.pool().parallel_for(std::ssize(sums), 1 << 16, [&](int64_t first, int64_t end) {
      for (int64_t i = first; i < end; ++i) sums[static_cast<size_t>(i)] += weight * data[i];
    });
  }
  const int64_t rows = beams.count(), width = std::ssize(sums) / rows;
  best.log_probabilities.resize(static_cast<size_t>(found));
  best.ids.resize(static_cast<size_t>(found));
  runtime_.pool().parallel_for(rows, 1, [&](int64_t r, int64_t) {
    float *values = best.log_probabilities.data() + r * k, *all = sums.data() + r * width;
    if (options_.trees != nullptr)
      keep_only(beams.in_tree()[static_cast<size_t>(r)], {all, static_cast<size_t>(width)});
    cpu::BestLogits logits;
    cpu::find_best(all, width, 0, k, logits, values, best.ids.data() + r * k);
    if (std::isnan(logits.sum)) std::fill_n(values, k, logits.sum);
  });
}

// The host begins a step before it looks at what the one before has found, so that the device never waits for it.
void Search::search_on_device(Sentences& sentences, const SearchDone& done) {
  DeviceBeams& beams = *device_beams_;
  beams.clear();
  for (;;) {
    const auto begun = sentences.begin();
    encode(begun, sentences);
    if (!beams.follow(sentences, !begun.rows.empty())) return;
    {
      const PhaseScope decoding(runtime_.profile, "decoder");
      Graph graph(runtime_, fusion_rules());
      const auto leaves = beams.leaves(graph);
      const Expr best = models_[0]->best_tokens(graph, beams.rows(leaves, sentences), beams.cache_rows(), sentences,
                                                candidate_count(sentences));
      const Expr report = beams.advance(leaves, best, sentences);
      graph.run({report});
      beams.send(graph.place(report));
      beams.receive();
    }
    beams.read(sentences, done);
  }
}

std::vector<std::vector<float>> Search::score(std::span<const IdPair> pairs) {
  std::vector<std::vector<float>> scores;
  if (pairs.empty()) return scores;
  const PairInput input = pair_input(pairs);
  std::vector<float> sums(input.target.ids.size());
  for (const auto& model : models_) model->add_scores(input, sums);
  for (size_t s = 0; s < pairs.size(); ++s)
    scores.emplace_back(sums.begin() + input.target.begin[s], sums.begin() + input.target.begin[s + 1]);
  return scores;
}

}  // namespace nmt
