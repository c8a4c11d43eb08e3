#include "text/vocab_sentencepiece_trainer.h"

#include <algorithm>
#include <exception>
#include <unordered_map>

#include <sentencepiece_trainer.h>
#include <unicode/uchar.h>

#include "base/error.h"
#include "base/log.h"
#include "base/utf8.h"
#include "text/vocab_trainer.h"

namespace nmt {
namespace {

namespace sp = sentencepiece;

constexpr size_t kMaxLineBytes = 16384;                 // positions in a word are 16-bit numbers in the library
constexpr std::string_view kReserved = "\xE2\x96\x85";  // U+2585, the library's mark for unknown characters
constexpr char32_t kSpace = 0x2581;                     // the library's mark for spaces

class Lines : public sp::SentenceIterator {
 public:
  Lines(const VocabTraining& settings, const std::function<bool(std::string&)>& next)
      : settings_(settings), next_(next) {
    Next();
  }

  bool done() const override { return done_; }
  void Next() override {
    try {
      do done_ = !next_(line_);
      while (!done_ && !fits());
    } catch (...) {  // must not pass through the library
      error_ = std::current_exception();
      done_ = true;
    }
  }
  const std::string& value() const override { return line_; }
  // An error: the library is not to learn from what came before it.
  sp::util::Status status() const override {
    return error_ ? sp::util::Status(sp::util::StatusCode::kDataLoss, "the text cannot be read") : sp::util::Status();
  }

  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }
  void report() const {
    if (long_ > 0) log::warn("{} lines of more than {} bytes were left out", long_, kMaxLineBytes);
    if (reserved_ > 0) log::warn("{} lines with U+2585, which SentencePiece reserves, were left out", reserved_);
  }

 private:
  bool fits() {
    if (line_.size() > kMaxLineBytes) return ++long_, false;
    if (line_.find(kReserved) != line_.npos) return ++reserved_, false;
    visible_ = visible_ || has_visible_text();
    return visible_;
  }
  // The library aborts the process where normalisation leaves it nothing: so the first line has something to keep.
  bool has_visible_text() const {
    std::string rest = line_;
    for (const auto& symbol : settings_.user_defined_symbols)
      for (size_t at; (at = rest.find(symbol)) != rest.npos;) rest.erase(at, symbol.size());
    return std::ranges::any_of(to_utf32(rest), [](char32_t c) {
      constexpr uint32_t kKept = U_GC_L_MASK | U_GC_N_MASK | U_GC_P_MASK | U_GC_S_MASK;
      return c != kSpace && c != 0xFFFD && (U_GET_GC_MASK(static_cast<UChar32>(c)) & kKept) != 0;
    });
  }

  const VocabTraining& settings_;
  const std::function<bool(std::string&)>& next_;
  std::string line_;
  bool done_ = false, visible_ = false;
  std::exception_ptr error_;
  int64_t long_ = 0, reserved_ = 0;
};

// The library's list options are comma-separated values with quotes.
std::string quoted_list(const std::vector<std::string>& values) {
  std::string list;
  for (const auto& value : values) {
    list += list.empty() ? "\"" : ",\"";
    for (const char c : value) list.append(c == '"' ? 2 : 1, c);
    list += '"';
  }
  return list;
}

// The digits after `mark`, empty without it.
std::string number_after(std::string_view text, std::string_view mark) {
  const size_t at = text.find(mark);
  if (at == text.npos) return {};
  text.remove_prefix(at + mark.size());
  return std::string(text.substr(0, text.find_first_not_of("0123456789")));
}

[[noreturn]] void explain(const std::string& message, const VocabTraining& settings) {
  if (const auto most = number_after(message, "value <= "); !most.empty())
    user_error("--size {} is too large for this text: at most {} pieces can be made", settings.size, most);
  if (const auto needed = number_after(message, fmt::format("required_chars. {} vs ", settings.size)); !needed.empty())
    user_error("--size {} is too small: the text needs at least {} pieces; or take a lower --character-coverage",
               settings.size, needed);
  user_error("SentencePiece cannot train on this text: {}", message);
}

}  // namespace

std::string train_sentencepiece(const VocabTraining& settings, const std::function<bool(std::string&)>& next) {
  std::unordered_map<std::string, std::string> arguments = {
      {"model_type", settings.type},
      {"vocab_size", fmt::format("{}", settings.size)},
      {"character_coverage", fmt::format("{}", settings.character_coverage)},
      {"normalization_rule_name", settings.normalization},
      {"byte_fallback", settings.byte_fallback ? "true" : "false"},
      {"unk_id", "0"},
      {"eos_id", "1"},
      {"bos_id", "-1"},
      {"pad_id", "-1"},
      {"max_sentence_length", fmt::format("{}", kMaxLineBytes)},
      {"num_threads", fmt::format("{}", kSentencePieceThreads)},
      {"minloglevel", "3"},
  };
  if (!settings.user_defined_symbols.empty())
    arguments["user_defined_symbols"] = quoted_list(settings.user_defined_symbols);
  sp::SetRandomGeneratorSeed(1);
  Lines lines(settings, next);
  lines.rethrow();
  std::string model;
  if (lines.done()) {
    lines.report();
    return model;
  }
  const auto status = sp::SentencePieceTrainer::Train(arguments, &lines, &model);
  lines.rethrow();
  lines.report();
  if (!status.ok()) explain(status.error_message(), settings);
  return model;
}

}  // namespace nmt
