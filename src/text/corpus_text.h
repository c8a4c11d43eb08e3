#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "text/vocab.h"

namespace nmt {

enum class OnNul { kRefuse, kReplace };

// Lines of text as the toolkit takes them: the '\r' of Windows line ends and a byte order mark are removed, malformed
// UTF-8 becomes U+FFFD; each kind of finding is logged with file and line where it first occurs, and counted at the
// end. A NUL byte tells of a file that is no text (UTF-16, binary): refused with a UserError, or replaced by U+FFFD.
class TextReader {
 public:
  TextReader(const std::string& path, OnNul on_nul) : reader_(path), on_nul_(on_nul) {}

  bool next(std::string& line);
  int64_t line_number() const { return reader_.line_number(); }
  const std::string& name() const { return reader_.name(); }

  int64_t crlf_lines() const { return crlf_; }
  int64_t nul_lines() const { return nul_; }
  int64_t malformed_lines() const { return malformed_; }

 private:
  void note(int64_t& count, const char* what) const;

  LineReader reader_;
  OnNul on_nul_;
  int64_t crlf_ = 0, nul_ = 0, malformed_ = 0;
};

struct TextPair {
  std::string source, target;
  int64_t set = 0;   // which pair of files, from 0
  int64_t line = 0;  // in both files, from 1
};

// The sentence pairs of SOURCE TARGET SOURCE TARGET ... files, one pair of files after another. All are opened at once,
// so that a missing one is known before work begins. Throws UserError where a pair's files differ in their number of
// lines or cannot be read.
class PairReader {
 public:
  explicit PairReader(const std::vector<std::string>& paths);

  bool next(TextPair& pair);
  std::string place(int64_t set, int64_t line, bool target) const;  // "FILE:LINE"
  std::string names() const;                                        // "A and B, C and D"

 private:
  std::vector<std::pair<TextReader, TextReader>> sets_;
  size_t current_ = 0;
};

// A line of a text to translate; ids are without </s>.
struct Line {
  int64_t index = 0;  // from 0
  std::string text;
  std::vector<int32_t> ids;
};

// All lines of a file, of standard input with "-", whatever is in them.
class LineStream {
 public:
  LineStream(const std::string& path, std::shared_ptr<const Vocab> vocab)
      : reader_(path, OnNul::kReplace), vocab_(std::move(vocab)) {}

  bool next(Line& line);

 private:
  TextReader reader_;
  std::shared_ptr<const Vocab> vocab_;
};

}  // namespace nmt
