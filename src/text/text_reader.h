#pragma once

#include <cstdint>
#include <string>

#include "base/line_reader.h"

namespace nmt {

// A NUL byte tells of a file that is no text (UTF-16, binary): refused, or taken as it is found, as U+FFFD.
enum class OnNul { kRefuse, kReplace };

// What the toolkit takes of a line of text: without a byte order mark at the start of the text and without the '\r' of
// a Windows line end; malformed UTF-8 and NUL bytes are U+FFFD. The first line of each kind of finding is logged by its
// number, and report() logs how many there are.
class LineCleaner {
 public:
  // `name` stands for the text in messages.
  LineCleaner(std::string name, OnNul on_nul) : name_(std::move(name)), on_nul_(on_nul) {}

  // Cleans a line in place; the text's first has the number 1. Throws UserError for a NUL byte that is refused.
  void clean(std::string& line, int64_t number);

  // Once after the last of `lines` lines.
  void report(int64_t lines) const;

 private:
  struct Finding {
    const char *what, *effect;
    int64_t lines = 0;
  };
  void note(Finding& finding, int64_t number);

  std::string name_;
  OnNul on_nul_;
  Finding crlf_{"Windows line ends (CRLF)", "the CR is removed"};
  Finding nul_{"NUL bytes", "replaced by U+FFFD"};
  Finding malformed_{"malformed UTF-8", "replaced by U+FFFD"};
};

// The lines of a file (as LineReader reads it), cleaned.
class TextReader {
 public:
  // Opens the file; throws UserError where that fails.
  TextReader(const std::string& path, OnNul on_nul) : reader_(path), cleaner_(reader_.name(), on_nul) {}

  // The next line; false at the end. Throws UserError where the file is damaged, and for a NUL byte that is refused.
  bool next(std::string& line);
  int64_t line_number() const { return reader_.line_number(); }  // of the line read last, from 1
  const std::string& name() const { return reader_.name(); }

 private:
  LineReader reader_;
  LineCleaner cleaner_;
  bool ended_ = false;
};

}  // namespace nmt
