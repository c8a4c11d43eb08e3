#include "decode/line_translator.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/log.h"

namespace nmt {
namespace {

constexpr int kHypotheses = 256;  // of a batch: more make matrix products hardly faster

}  // namespace

void LineLimits::declare(Options& o) {
  o.group("Batches (no result depends on them)");
  o.add("mini-batch", sentences, "Sentences translated together; 0: as many as have 256 hypotheses").range(0, 1e6);
  o.add("mini-batch-words", words,
        "Source tokens translated together, at most (a longer line is alone; for nmt-train, it limits both sides)")
      .range(1, 1e9);
  o.add("max-length", max_length,
        "Source tokens of a line; what is longer is cut there, with a warning (nmt-train skips such pairs)")
      .range(1, 1e6);
}

LineTranslator::LineTranslator(Decoder& decoder, const Vocab& source, const Vocab& target, const LineLimits& limits,
                               std::string input)
    : decoder_(decoder), source_(source), target_(target), limits_(limits), input_(std::move(input)) {
  if (limits_.sentences == 0) limits_.sentences = std::max(1, kHypotheses / decoder.options().beam);
}

std::vector<int32_t> LineTranslator::encode(const Vocab& vocab, std::string_view line, int64_t number,
                                            const char* side) {
  std::vector<int32_t> ids = vocab.encode(line);
  if (const auto limit = static_cast<size_t>(limits_.max_length); ids.size() > limit) {
    if (++totals_.cut <= kNamed)
      log::warn("{}:{}: the {} has {} tokens and is cut after {}; nmt-decode --max-length {} takes all of it", input_,
                number + 1, side, ids.size(), limit, ids.size());
    ids.resize(limit);
  }
  return ids;
}

// Runs batches of sentences, those of most tokens first, and gives the results out in order.
template <class Run>
void LineTranslator::in_batches(std::span<const std::vector<int32_t>> sources, const Run& run, const Sink& sink) {
  std::vector<size_t> order(sources.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::ranges::greater(), [&](size_t i) { return sources[i].size(); });
  std::vector<std::vector<Translation>> results(sources.size());
  std::vector<bool> done(sources.size());
  size_t next = 0;
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    size_t words = 0;
    for (; end < order.size() && end - begin < static_cast<size_t>(limits_.sentences); ++end) {
      words += sources[order[end]].size();
      if (end > begin && words > static_cast<size_t>(limits_.words)) break;
    }
    const auto batch = std::span(order).subspan(begin, end - begin);
    auto made = run(batch);
    for (size_t i = 0; i < batch.size(); ++i) {
      results[batch[i]] = std::move(made[i]);
      done[batch[i]] = true;
    }
    for (; next < done.size() && done[next]; ++next) {
      sink(totals_.lines++, results[next]);
      results[next].clear();
    }
  }
}

Translation LineTranslator::translation(const Hypothesis& hypothesis) const {
  return {target_.decode(hypothesis.ids), hypothesis.log_probability, hypothesis.score};
}

void LineTranslator::translate(std::span<const std::string> lines, const Sink& sink) {
  std::vector<std::vector<int32_t>> sources;
  for (size_t i = 0; i < lines.size(); ++i) {
    sources.push_back(encode(source_, lines[i], totals_.lines + static_cast<int64_t>(i), "source"));
    totals_.source_tokens += static_cast<int64_t>(sources.back().size());
  }
  const auto run = [&](std::span<const size_t> batch) {
    std::vector<std::vector<int32_t>> texts;  // without the empty ones, which are the last by length
    for (const size_t i : batch) {
      if (sources[i].empty()) break;
      texts.push_back(sources[i]);
      texts.back().push_back(source_.eos_id());
    }
    const auto found = decoder_.translate(texts);
    std::vector<std::vector<Translation>> made(batch.size(), {{"", 0, 0}});
    for (size_t i = 0; i < found.size(); ++i) {
      made[i].clear();
      totals_.target_tokens += static_cast<int64_t>(found[i].front().ids.size());
      for (const Hypothesis& hypothesis : found[i]) made[i].push_back(translation(hypothesis));
    }
    return made;
  };
  in_batches(sources, run, sink);
}

void LineTranslator::score(std::span<const std::string> lines, std::span<const std::string> targets, const Sink& sink) {
  check(lines.size() == targets.size(), "{} lines with {} translations", lines.size(), targets.size());
  std::vector<std::vector<int32_t>> sources, translations;
  for (size_t i = 0; i < lines.size(); ++i) {
    const int64_t number = totals_.lines + static_cast<int64_t>(i);
    sources.push_back(encode(source_, lines[i], number, "source"));
    translations.push_back(encode(target_, targets[i], number, "translation"));
    totals_.source_tokens += static_cast<int64_t>(sources.back().size());
    totals_.target_tokens += static_cast<int64_t>(translations.back().size());
  }
  const auto run = [&](std::span<const size_t> batch) {
    std::vector<IdPair> pairs;
    for (const size_t i : batch) {
      pairs.push_back({sources[i], translations[i]});
      pairs.back().source.push_back(source_.eos_id());
      pairs.back().target.push_back(target_.eos_id());
    }
    const auto scores = decoder_.score(pairs);
    std::vector<std::vector<Translation>> made;
    for (size_t i = 0; i < pairs.size(); ++i) {
      pairs[i].target.pop_back();
      const double sum = std::accumulate(scores[i].begin(), scores[i].end(), 0.0);
      const double penalty = decoder_.options().penalty(static_cast<int64_t>(scores[i].size()));
      made.push_back({translation({pairs[i].target, sum, sum / penalty})});
    }
    return made;
  };
  in_batches(sources, run, sink);
}

}  // namespace nmt
