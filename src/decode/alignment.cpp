#include "decode/alignment.h"

#include <algorithm>

#include "base/error.h"

namespace nmt {

void AlignmentOptions::declare(Options& o) {
  o.add("alignment-layer", layer, "With --alignment: decoder layer to go by, from 1; 0: the last but one")
      .range(0, 1e3);
  o.add("alignment-head", head, "With --alignment: its head to go by, from 1; 0: the mean of all").range(0, 1e3);
  o.add("alignment-threshold", threshold,
        "With --alignment: link words of at least this weight; 0: each target word with the source word of its largest")
      .range(0, 1);
  o.add("alignment-step", step,
        "With --alignment: go by the step where the decoder writes a word (output) or then reads it (input)")
      .choices({"output", "input"});
}

void AlignmentOptions::check_model(const ModelConfig& config) const {
  require(layer <= config.dec_depth, "--alignment-layer {}: the model's decoder has {} layers", layer,
          config.dec_depth);
  require(head <= config.heads, "--alignment-head {}: the model has {} heads", head, config.heads);
}

std::vector<WordLink> align_words(const AttentionWeights& cross, std::span<const int32_t> source_words,
                                  std::span<const int32_t> target_words, const AlignmentOptions& options) {
  const int64_t layer = options.layer > 0 ? options.layer - 1 : std::max<int64_t>(0, cross.layers - 2);
  const int64_t first_head = std::max(0, options.head - 1);
  const int64_t last_head = options.head > 0 ? options.head : cross.heads;
  const int64_t behind = options.step == "input" ? 1 : 0;
  const auto count = [](std::span<const int32_t> words) {
    return words.empty() ? size_t{0} : static_cast<size_t>(std::ranges::max(words) + 1);
  };
  const size_t sources = count(source_words), targets = count(target_words);
  std::vector<WordLink> links;
  if (sources == 0) return links;
  check(layer < cross.layers && last_head <= cross.heads, "alignment by head {} of layer {}: there are {} of {}",
        last_head, layer + 1, cross.heads, cross.layers);
  std::vector<double> weights(sources * targets);
  std::vector<int64_t> pieces(targets);
  for (size_t t = 0; t < target_words.size(); ++t) {
    if (target_words[t] < 0) continue;
    const auto word = static_cast<size_t>(target_words[t]);
    ++pieces[word];
    for (int64_t head = first_head; head < last_head; ++head) {
      const auto row = cross.row(layer, head, static_cast<int64_t>(t) + behind);
      for (size_t s = 0; s < source_words.size(); ++s)
        if (source_words[s] >= 0) weights[word * sources + static_cast<size_t>(source_words[s])] += row[s];
    }
  }
  for (size_t t = 0; t < targets; ++t) {
    if (pieces[t] == 0) continue;
    const auto of_word = std::span(weights).subspan(t * sources, sources);
    const double least = options.threshold * static_cast<double>(pieces[t] * (last_head - first_head));
    const auto link = [&](size_t s) { links.push_back({static_cast<int32_t>(s), static_cast<int32_t>(t)}); };
    if (options.threshold == 0) link(static_cast<size_t>(std::ranges::max_element(of_word) - of_word.begin()));
    for (size_t s = 0; options.threshold > 0 && s < sources; ++s)
      if (of_word[s] >= least) link(s);
  }
  std::ranges::sort(links);
  return links;
}

std::string alignment_text(std::span<const WordLink> links) {
  std::string text;
  for (const WordLink& link : links) text += fmt::format("{}{}-{}", text.empty() ? "" : " ", link.source, link.target);
  return text;
}

}  // namespace nmt
