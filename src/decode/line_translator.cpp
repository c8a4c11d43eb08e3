#include "decode/line_translator.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/worker.h"
#include "text/split_words.h"

namespace nmt {
namespace {

// Indices of the sentences, those of most tokens first.
std::vector<size_t> by_falling_length(std::span<const std::vector<int32_t>> sentences) {
  std::vector<size_t> order(sentences.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::ranges::greater(), [&](size_t i) { return sentences[i].size(); });
  return order;
}

int64_t tokens_of(std::span<const std::vector<int32_t>> sentences) {
  return std::accumulate(sentences.begin(), sentences.end(), int64_t{0},
                         [](int64_t sum, const auto& sentence) { return sum + std::ssize(sentence); });
}

// Of a line without text.
std::vector<Translation> nothing() { return {{"", 0, 0}}; }

// On the host, more sentences hardly make matrix products faster, and their caches take more memory. A device wants to
// be filled (other numbers were not tried there). project_top_k.cpp cuts its work for the hypotheses of kHost.
struct Usual {
  int sentences, hypotheses, tokens, lines;
};
constexpr Usual kHost{96, 256, 2000, 1000}, kDevice{1024, 4096, 40000, 10000};

}  // namespace

void LineLimits::declare(Options& o) {
  const auto usual = [](const char* what, int Usual::*number) {
    return fmt::format("{}; 0: {}, on GPUs {}", what, kHost.*number, kDevice.*number);
  };
  o.group("Lines");
  o.add("max-length", max_length,
        fmt::format("Source tokens of a line, and tokens of a translation that is given, without end tokens; what is "
                    "longer, or longer than {} KiB, is cut there, with a warning (nmt-train skips such pairs)",
                    Vocab::kMostLineBytes >> 10))
      .range(1, 1e6);
  o.group("Batches (no result depends on them, but for rounding on GPUs)");
  o.add("mini-batch", sentences,
        fmt::format("Sentences that each thread, or GPU, translates together, or that are scored together; 0: as many "
                    "as have {} hypotheses, {} at most, on GPUs {}, {} at most",
                    kHost.hypotheses, kHost.sentences, kDevice.hypotheses, kDevice.sentences))
      .range(0, 1e6);
  o.add("mini-batch-words", tokens,
        usual(
            "Source tokens that each thread, or GPU, translates together, or tokens of either side scored together, at "
            "most (a longer line is alone)",
            &Usual::tokens))
      .range(0, 1e9);
  o.add(
       "maxi-batch", lines,
       usual("Lines (not batches, as nmt-train has) read ahead and sorted by length; fewer where no more are there yet",
             &Usual::lines))
      .range(0, 1e7);
}

int LineLimits::lines_ahead(bool on_host) const { return lines > 0 ? lines : (on_host ? kHost : kDevice).lines; }

SearchLimits LineLimits::at_a_time(bool on_host, int beam) const {
  const Usual& usual = on_host ? kHost : kDevice;
  return {.sentences = sentences > 0 ? sentences : std::clamp(usual.hypotheses / beam, 1, usual.sentences),
          .tokens = tokens > 0 ? tokens : usual.tokens,
          .apart = apart};
}

LineTranslator::LineTranslator(Decoder& decoder, const Vocab& source, const Vocab& target, const LineLimits& limits,
                               std::string input)
    : decoder_(decoder),
      source_(source),
      target_(target),
      given_(limits),
      limits_(limits.at_a_time(decoder.runtime().backend()->on_host(), decoder.options().beam)),
      max_length_(static_cast<int>(std::min<int64_t>(limits.max_length, decoder.longest() - 1))),
      input_(std::move(input)) {}

LineLimits LineTranslator::limits() const {
  LineLimits limits = given_;
  limits.sentences = limits_.sentences;
  limits.tokens = static_cast<int>(limits_.tokens);
  limits.apart = limits_.apart;
  return limits;
}

std::vector<int32_t> LineTranslator::cut(Vocab::LineIds line, const std::string& file, size_t number,
                                         const char* side) {
  auto& [ids, whole] = line;
  const auto place = [&] {
    return fmt::format("{}:{}: the {}", file, totals_.lines + static_cast<int64_t>(number) + 1, side);
  };
  const size_t tokens = ids.size(), kept = std::min(tokens, static_cast<size_t>(max_length_));
  if ((!whole || kept < tokens) && ++totals_.cut <= kNamed) {
    if (whole && static_cast<int64_t>(kept) == decoder_.longest() - 1)
      log::warn(
          "{} has {} tokens and is cut after {}; with an end token, the model has learned no more positions "
          "(--transformer-max-positions)",
          place(), tokens, kept);
    else if (whole)
      log::warn("{} has {} tokens and is cut after {}; nmt-decode --max-length {} takes {} of it", place(), tokens,
                kept, std::min<int64_t>(static_cast<int64_t>(tokens), decoder_.longest() - 1),
                static_cast<int64_t>(tokens) < decoder_.longest() ? "all" : "more");
    else
      log::warn("{} is longer than {} KiB and is cut after {} tokens", place(), Vocab::kMostLineBytes >> 10, kept);
  }
  ids.resize(kept);
  return std::move(ids);
}

// Takes the translations of lines in any order and gives them to the sink in the lines' order, in a thread of its own:
// a fifth of the time of a search on an H200 went to making text, between steps.
class LineTranslator::InOrder {
 public:
  using Make = std::function<std::vector<Translation>()>;

  // What is put before an error is given to the sink.
  InOrder(std::span<const std::string> lines, Totals& totals, const Sink& sink)
      : lines_(lines), made_(lines.size()), totals_(totals), sink_(sink) {}

  // make() is called in that thread. Throws what it or the sink has thrown.
  void put(size_t line, Make make) {
    worker_.begin([this, line, make = std::move(make)] { with_out_of_memory([&] { give(line, make()); }); });
  }
  // Returns when all is given to the sink; throws as put().
  void finish() { worker_.wait(); }
  bool failed() const { return worker_.failed(); }

 private:
  void give(size_t line, std::vector<Translation> translations) {
    made_[line] = std::move(translations);
    for (; next_ < made_.size() && !made_[next_].empty(); ++next_) {
      sink_(totals_.lines++, lines_[next_], made_[next_]);
      made_[next_] = {};
    }
  }

  std::span<const std::string> lines_;
  std::vector<std::vector<Translation>> made_;
  size_t next_ = 0;
  Totals& totals_;
  const Sink& sink_;
  Worker worker_;  // last: it uses the others
};

Translation LineTranslator::translation(std::vector<int32_t> source, const Hypothesis& hypothesis) const {
  IdPair ids{std::move(source), hypothesis.ids};
  // One that ended with the model's positions leaves none for </s>.
  if (std::ssize(ids.target) >= decoder_.longest()) ids.target.pop_back();
  ids.target.push_back(target_.eos_id());
  return {target_.decode(hypothesis.ids), hypothesis.log_probability, hypothesis.score, std::move(ids)};
}

void LineTranslator::translate(std::span<const std::string> lines, const Sink& sink,
                               const std::function<void()>& meanwhile) {
  InOrder results(lines, totals_, sink);
  std::vector<std::vector<int32_t>> ids;
  for (auto& line : source_.encode_lines(lines, decoder_.runtime().pool()))
    ids.push_back(cut(std::move(line), input_, ids.size(), "source"));
  count_sources(ids);
  std::vector<std::vector<int32_t>> sources;
  std::vector<int32_t> words;  // for trees
  std::vector<size_t> line_of;
  for (const size_t i : by_falling_length(ids)) {
    int32_t count = 0;
    if (decoder_.options().trees != nullptr) {
      count = static_cast<int32_t>(std::min<int64_t>(std::ssize(split_words(lines[i])), max_length_));
    }
    if (ids[i].empty() && count == 0) {
      results.put(i, nothing);
      continue;
    }
    sources.push_back(std::move(ids[i]));
    sources.back().push_back(source_.eos_id());
    if (decoder_.options().trees != nullptr) words.push_back(count);
    line_of.push_back(i);
  }
  std::vector<bool> is_done;
  const auto done = [&](size_t s, std::vector<Hypothesis> best) {
    if (meanwhile) meanwhile();
    const int64_t tokens = std::ssize(best.front().ids);
    results.put(line_of[s], [this, source = sources[s], best = std::move(best)] {
      std::vector<Translation> made;
      for (const Hypothesis& hypothesis : best) made.push_back(translation(source, hypothesis));
      return made;
    });
    totals_.target_tokens += tokens;
    is_done[s] = true;
  };
  const auto keep_rest = [&](auto& of_sources) {
    size_t s = 0;
    std::erase_if(of_sources, [&](const auto&) { return is_done[s++]; });
  };
  const bool on_host = decoder_.runtime().backend()->on_host();
  while (!sources.empty()) {
    is_done.assign(sources.size(), false);
    const bool together = on_host && !decoder_.translates_apart(sources.size(), limits_);
    try {
      decoder_.translate(sources, limits_, done, words);
      break;
    } catch (const OutOfMemory& error) {
      if (results.failed()) throw;  // fewer lines would not mend that: a part may be written
      keep_rest(sources);
      keep_rest(line_of);
      if (!words.empty()) keep_rest(words);
      if (sources.empty()) continue;
      if (together) limits_.apart = false;  // of fewer lines each thread would soon have as many as failed together
      take_fewer(error, sources.size(), tokens_of(sources), together ? decoder_.runtime().pool().size() : 1);
    }
  }
  results.finish();
}

void LineTranslator::count_sources(std::span<const std::vector<int32_t>> sources) {
  totals_.source_tokens += tokens_of(sources);
  for (const auto& ids : sources) totals_.unknown += std::ranges::count(ids, source_.unk_id());
}

void LineTranslator::take_fewer(const OutOfMemory& error, size_t lines, int64_t tokens, int threads) {
  lacked_memory_ = true;
  const int together = static_cast<int>(std::min<size_t>(static_cast<size_t>(limits_.sentences), lines));
  const bool threads_apart =
      limits_.apart && decoder_.runtime().backend()->on_host() && decoder_.runtime().pool().size() > 1;
  if (together == 1 && lines > 1 && threads_apart) {
    limits_.apart = false;
    log::warn("{}: from now on all threads work on one line together", error.what());
    return;
  }
  if (together == 1) {
    throw OutOfMemory(
        fmt::format(
            "{}, for one line alone: shorter lines (nmt-decode --max-length) and a smaller --beam-size need less",
            error.what()),
        true);
  }
  limits_.sentences = together / 2;
  limits_.tokens = std::max<int64_t>(std::min(limits_.tokens, tokens / threads) / 2, 1);
  log::warn("{}: from now on {} lines at most, of {} tokens, are worked on together", error.what(), limits_.sentences,
            limits_.tokens * threads);
}

void LineTranslator::score(std::span<const std::string> lines, std::span<const std::string> targets,
                           const std::string& targets_input, const Sink& sink) {
  check(lines.size() == targets.size(), "{} lines with {} translations", lines.size(), targets.size());
  InOrder results(lines, totals_, sink);
  ThreadPool& pool = decoder_.runtime().pool();
  auto encoded_sources = source_.encode_lines(lines, pool), encoded_targets = target_.encode_lines(targets, pool);
  std::vector<std::vector<int32_t>> sources, translations;
  for (size_t i = 0; i < lines.size(); ++i) {  // warnings come line by line
    sources.push_back(cut(std::move(encoded_sources[i]), input_, i, "source"));
    translations.push_back(cut(std::move(encoded_targets[i]), targets_input, i, "translation"));
  }
  count_sources(sources);
  totals_.target_tokens += tokens_of(translations);
  auto order = by_falling_length(sources);
  const auto blank = [&](size_t i) { return sources[i].empty() && translations[i].empty(); };
  for (const size_t i : order)
    if (blank(i)) results.put(i, nothing);
  std::erase_if(order, blank);
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    std::vector<IdPair> pairs;
    int64_t tokens = 0, of_sources = 0, of_translations = 0;
    for (; end < order.size() && pairs.size() < static_cast<size_t>(limits_.sentences); ++end) {
      const size_t i = order[end];
      of_sources += std::ssize(sources[i]);
      of_translations += std::ssize(translations[i]);
      const int64_t with_it = std::max(of_sources, of_translations);
      if (!pairs.empty() && with_it > limits_.tokens) break;
      tokens = with_it;
      pairs.push_back({sources[i], translations[i]});
      pairs.back().source.push_back(source_.eos_id());
      pairs.back().target.push_back(target_.eos_id());
    }
    std::vector<std::vector<float>> scores;
    try {
      scores = decoder_.score(pairs);
    } catch (const OutOfMemory& error) {
      take_fewer(error, pairs.size(), tokens);
      end = begin;
      continue;
    }
    for (size_t i = 0; i < pairs.size(); ++i) {
      pairs[i].target.pop_back();
      const double sum = std::accumulate(scores[i].begin(), scores[i].end(), 0.0);
      totals_.log_probability += sum;
      totals_.scored_tokens += std::ssize(scores[i]);
      const double penalty = decoder_.options().penalty(static_cast<int64_t>(scores[i].size()));
      results.put(order[begin + i], [this, source = std::move(pairs[i].source),
                                     given = Hypothesis{std::move(pairs[i].target), sum, sum / penalty}] {
        return std::vector{translation(source, given)};
      });
    }
  }
  results.finish();
}

}  // namespace nmt
