#include "train/validator.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/files.h"
#include "base/hash.h"
#include "base/log.h"
#include "config/computing.h"
#include "decode/beam.h"
#include "ops/fusion.h"
#include "train/pair_input.h"

namespace nmt {
namespace {

Expr loss(Graph& graph, Model& model, const PairInput& input) {
  Leaves leaves(graph, model.parameters, false);
  return model.transformer.loss(leaves, input);
}

void advised(const std::function<void()>& body) { advise_on_memory("a smaller --valid-batch-words needs less", body); }

}  // namespace

Validator::Validator(const TrainOptions& options, std::shared_ptr<const Vocab> source,
                     std::shared_ptr<const Vocab> target, const TreeGrammar* trees)
    : options_(options), source_(std::move(source)), target_(std::move(target)), trees_(trees) {
  limits_.tokens = static_cast<int>(options_.valid_batch_words);
  limits_.max_length = std::numeric_limits<int>::max();  // cross-entropy is of whole lines, too
  const BatchLimits limits{INT32_MAX, options_.valid_batch_words, options_.valid_batch_words};
  if (options_.trains() && !options_.valid_output.empty())
    AtomicFile(options_.translations_path(0));  // can be written: known now, not after hours
  text_ = ParallelText::read(options_.valid_sets, *source_, *target_, limits, options_.model.longest(),
                             threads_or_all(options_.threads), options_.model.target_trees);
  for (auto& line : text_.target) line = target_->join(line);
  std::vector<bool> is_measured(text_.source.size());
  for (const Batch& b : text_.batches)
    for (const int64_t pair : b.pairs) is_measured[static_cast<size_t>(pair)] = true;
  for (const auto* side : {&text_.source, &text_.target})
    for (size_t i = 0; i < side->size(); ++i)
      if (is_measured[i]) text_hash_ = hash64((*side)[i], text_hash_);
}

uint64_t Validator::fingerprint(const std::string& metric) const {
  if (!valid_metric(metric).translates) return text_hash_;
  return hash64(fmt::format("{} {}", options_.search.beam, options_.search.alpha), text_hash_);
}

void Validator::reserve(Runtime& runtime, Model& model) const {
  if (!options_.measures_cross_entropy()) return;
  for (const Batch& b : text_.batches) {
    const PairInput input = pair_input(b);
    Graph graph(runtime, fusion_rules());
    const Expr mean = loss(graph, model, input);
    advised([&] { graph.reserve({mean, mean.output(1)}); });
  }
}

double Validator::cross_entropy(Runtime& runtime, Model& model, const std::function<void()>& meanwhile) const {
  double sum = 0;
  int64_t tokens = 0;
  for (const Batch& b : text_.batches) {
    meanwhile();
    const PairInput input = pair_input(b);
    Graph graph(runtime, fusion_rules());
    const Expr mean = loss(graph, model, input);
    advised([&] { graph.run({mean, mean.output(1)}); });
    const float* rows = graph.data<float>(mean.output(1));
    for (int64_t i = 0; i < b.target_words(); ++i) sum += rows[i];
    tokens += b.target_words();
  }
  return sum / static_cast<double>(tokens);
}

std::vector<std::string> Validator::translate(Runtime& runtime, Model& model, const std::function<void()>& meanwhile) {
  const Scorer scorer{&model.transformer, &model.parameters};
  SearchOptions search = options_.search;
  search.trees = trees_;
  if (lacked_memory_) runtime.release_workspace();  // the limits are what memory has sufficed for without it
  Decoder decoder(std::span(&scorer, 1), runtime, search);
  LineTranslator translator(decoder, *source_, *target_, limits_, options_.valid_sets[0]);
  std::vector<std::string> translations;
  translator.translate(
      text_.source, [&](int64_t, const std::string&, auto found) { translations.push_back(found.front().text); },
      meanwhile);
  if (translator.lacked_memory()) {
    lacked_memory_ = true;
    limits_ = translator.limits();
  }
  return translations;
}

std::map<std::string, double> Validator::measure(Runtime& runtime, Model& model, int64_t update,
                                                 const std::function<void()>& meanwhile) {
  Measured measured;
  if (options_.measures_cross_entropy()) measured.cross_entropy = cross_entropy(runtime, model, meanwhile);
  bool broken = false;
  if (options_.translates()) {
    measured.references = text_.target;
    measured.sources = text_.source;
    try {
      measured.translations = translate(runtime, model, meanwhile);
    } catch (const BrokenModel& error) {  // a training may mend it
      log::warn("the validation set is not translated: {}", error.what());
      broken = true;
    }
  }
  if (!broken && !options_.valid_output.empty()) {
    AtomicFile file(options_.translations_path(update));
    for (const auto& line : measured.translations) file.write(line + "\n");
    file.commit();
  }
  std::map<std::string, double> values;
  for (const auto& name : options_.valid_metrics) {
    const ValidMetric& metric = valid_metric(name);
    values[name] = broken && metric.translates ? std::nan("") : metric.value(measured);
  }
  return values;
}

}  // namespace nmt
