#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "decode/decoder.h"
#include "text/vocab.h"

namespace nmt {

// How much is worked on together, as SearchLimits, and how much of a line.
struct LineLimits {
  int sentences = 0, tokens = 0;  // tokens: of sources; 0 of these: what is usual
  int lines = 0;                  // read ahead and sorted by length
  bool apart = true;              // as SearchLimits
  int max_length = 1000;          // tokens of a line, or of a given translation; the rest is cut off, with a warning

  void declare(Options& options);
  // What suits the host, or a device, stands in for zeros.
  int lines_ahead(bool on_host) const;
  SearchLimits at_a_time(bool on_host, int beam) const;
};

struct Translation {
  std::string text;
  double log_probability, score;
  IdPair ids = {};  // of the line as it was translated and of this, with </s>; none for a line without text
};

// Lines of text in, translations out, in the order of the lines. Lines are sorted by length, so that those worked on
// together end at about the same time. Where memory does not suffice for as many, fewer are, with a warning. A line
// without text has the empty translation, log P 0. A decoder of trees gives their tokens (linear_tree.h): over a line's
// words as split_words has them, --max-length of them at most.
class LineTranslator {
 public:
  // `input` names the text in warnings. Decoder and vocabularies live as long as the translator.
  LineTranslator(Decoder& decoder, const Vocab& source, const Vocab& target, const LineLimits& limits,
                 std::string input);

  // Calls sink(number, line, translations), in another thread, for each line as soon as it and those before it are
  // translated; numbers go on from call to call, from 0. Lines are UTF-8; those beyond the limit, Decoder::longest() or
  // Vocab's limit are cut there, with a warning. Throws what Decoder::translate and the sink throw.
  // meanwhile(), where given, is called whenever a line is translated, in a thread of the search; it may throw, too.
  using Sink = std::function<void(int64_t number, const std::string& line, std::span<const Translation> translations)>;
  void translate(std::span<const std::string> lines, const Sink& sink, const std::function<void()>& meanwhile = {});

  // The same for given translations (as many as lines): one Translation each, the given text as the vocabulary sees it.
  // Of a line without text the empty one has log P 0 here, too.
  // targets_input: what messages call their file.
  void score(std::span<const std::string> lines, std::span<const std::string> targets, const std::string& targets_input,
             const Sink& sink);

  static constexpr int64_t kNamed = 3;  // cuts that are warned of; others are only counted
  struct Totals {
    int64_t lines = 0, source_tokens = 0, target_tokens = 0;  // without </s>
    int64_t cut = 0;                                          // lines, and translations that are given
    int64_t unknown = 0;                                      // source tokens that the vocabulary does not know
    int64_t scored_tokens = 0;                                // of translations that are given, with </s>
    double log_probability = 0;                               // of these
  };
  const Totals& totals() const { return totals_; }
  // Whether memory did not suffice for as much together as the limits say, and those that it suffices for.
  bool lacked_memory() const { return lacked_memory_; }
  LineLimits limits() const;

 private:
  // Halves the limits, after `error` in work on so many lines and tokens, by so many threads together that each have
  // what the limits say; of one line a thread, has the threads work on one together. Where that was one line alone,
  // throws it with what needs less.
  void take_fewer(const OutOfMemory& error, size_t lines, int64_t tokens, int threads = 1);
  void count_sources(std::span<const std::vector<int32_t>> sources);
  // What the limits leave of the number-th of the lines at hand of a file, with a warning where it is less.
  std::vector<int32_t> cut(Vocab::LineIds line, const std::string& file, size_t number, const char* side);
  Translation translation(std::vector<int32_t> source, const Hypothesis& hypothesis) const;
  class InOrder;

  Decoder& decoder_;
  const Vocab &source_, &target_;
  LineLimits given_;
  SearchLimits limits_;
  bool lacked_memory_ = false;
  int max_length_;  // at most what the model has positions for
  std::string input_;
  Totals totals_;
};

}  // namespace nmt
