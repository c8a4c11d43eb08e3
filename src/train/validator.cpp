#include "train/validator.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/files.h"
#include "decode/decoder.h"
#include "metrics/bleu.h"
#include "metrics/chrf.h"
#include "ops/fusion.h"

namespace nmt {

Validator::Validator(const TrainOptions& options, std::shared_ptr<const Vocab> source,
                     std::shared_ptr<const Vocab> target)
    : options_(options), source_(std::move(source)), target_(std::move(target)) {
  const BatchLimits limits{INT32_MAX, options_.valid_batch_words, options_.valid_batch_words};
  if (!options_.valid_output.empty()) AtomicFile(output_path(0));  // can be written: known now, not after hours
  text_ = ParallelText::read(options_.valid_sets, *source_, *target_, limits, options_.threads);
}

bool Validator::is_better(const std::string& metric, double value, double than) {
  return std::isfinite(value) && (metric == "cross-entropy" || metric == "perplexity" ? value < than : value > than);
}

std::string Validator::output_path(int64_t update) const {
  std::string path = options_.valid_output;
  if (const size_t at = path.find("{U}"); at != std::string::npos) path.replace(at, 3, std::to_string(update));
  return path;
}

double Validator::cross_entropy(Runtime& runtime, Model& model) const {
  const float weight = 1;
  double sum = 0;
  int64_t tokens = 0;
  for (const Batch& b : text_.batches) {
    const PairInput input(b.source, b.source_begin, b.target, b.target_begin);
    Graph graph(runtime, fusion_rules());
    Leaves leaves(graph, model.parameters, false);
    const Expr loss = model.transformer.loss(leaves, input, &weight, 0);
    graph.run({loss, loss.output(1)});
    const float* rows = graph.data<float>(loss.output(1));
    for (int64_t i = 0; i < b.target_words(); ++i) sum += rows[i];
    tokens += b.target_words();
  }
  return sum / static_cast<double>(tokens);
}

std::vector<std::string> Validator::translate(Runtime& runtime, Model& model) const {
  const Scorer scorer{&model.transformer, &model.parameters};
  SearchOptions search;
  search.beam = options_.beam_size;
  search.alpha = options_.alpha;
  Decoder decoder(std::span(&scorer, 1), runtime, search);
  std::vector<std::string> translations(text_.source.size());
  constexpr int64_t kSentences = 64;  // as many as keep the caches small
  for (const Batch& all : text_.batches)
    for (int64_t first = 0; first < all.sentences(); first += kSentences) {
      const Batch b = all.slice(first, std::min(first + kSentences, all.sentences()));
      std::vector<std::vector<int32_t>> sources;
      for (size_t s = 0; s + 1 < b.source_begin.size(); ++s)
        sources.emplace_back(b.source.begin() + b.source_begin[s], b.source.begin() + b.source_begin[s + 1]);
      const auto found = decoder.translate(sources);
      for (size_t s = 0; s < found.size(); ++s)
        translations[static_cast<size_t>(b.pairs[s])] = target_->decode(found[s].front().ids);
    }
  return translations;
}

std::map<std::string, double> Validator::measure(Runtime& runtime, Model& model, int64_t update) const {
  const auto wanted = [&](const char* metric) {
    return std::ranges::count(options_.valid_metrics, std::string(metric)) > 0;
  };
  std::map<std::string, double> values;
  if (wanted("cross-entropy") || wanted("perplexity")) {
    values["cross-entropy"] = cross_entropy(runtime, model);
    values["perplexity"] = std::exp(values["cross-entropy"]);
  }
  if (!wanted("bleu") && !wanted("chrf") && options_.valid_output.empty()) return values;
  const auto translations = translate(runtime, model);
  const std::vector<std::vector<std::string>> references{text_.target};
  values["bleu"] = corpus_bleu(translations, references).value;
  values["chrf"] = corpus_chrf(translations, references).value;
  if (!options_.valid_output.empty()) {
    AtomicFile file(output_path(update));
    for (const auto& line : translations) file.write(line + "\n");
    file.commit();
  }
  return values;
}

}  // namespace nmt
