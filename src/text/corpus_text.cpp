#include "text/corpus_text.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "base/utf8.h"

namespace nmt {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF", kReplacement = "\xEF\xBF\xBD";

void replace_nul(std::string& line) {
  std::string result;
  for (const char c : line) c == '\0' ? result.append(kReplacement) : result.append(1, c);
  line = std::move(result);
}

}  // namespace

void TextReader::note(int64_t& count, const char* what) const {
  if (++count == 1) log::warn("{}:{}: {}", name(), line_number(), what);
}

bool TextReader::next(std::string& line) {
  if (!reader_.next(line)) {
    if (nul_ > 1) log::warn("{}: NUL bytes in {} of {} lines", name(), nul_, line_number());
    if (malformed_ > 1) log::warn("{}: malformed UTF-8 in {} of {} lines", name(), malformed_, line_number());
    return false;
  }
  if (line_number() == 1 && line.starts_with(kByteOrderMark)) line.erase(0, kByteOrderMark.size());
  if (line.ends_with('\r')) {
    line.pop_back();
    note(crlf_, "Windows line end (CRLF); the CR is removed, here and in the lines below");
  }
  if (line.find('\0') != std::string::npos) {
    require(on_nul_ == OnNul::kReplace,
            "{0}:{1}: NUL byte: this is not UTF-8 text; convert the file (iconv -t UTF-8) or remove such bytes "
            "(tr -d '\\000')",
            name(), line_number());
    note(nul_, "NUL byte; such bytes are replaced by U+FFFD");
    replace_nul(line);
  }
  if (!is_valid_utf8(line)) {
    note(malformed_, "malformed UTF-8; such bytes are replaced by U+FFFD");
    line = repair_utf8(line);
  }
  return true;
}

PairReader::PairReader(const std::vector<std::string>& paths) {
  require(!paths.empty() && paths.size() % 2 == 0,
          "{} files are given for sentence pairs: name a source and a target file, or several such pairs",
          paths.size());
  require(std::ranges::count(paths, "-") <= 1, "standard input (-) can be only one of the files of sentence pairs");
  for (size_t i = 0; i < paths.size(); i += 2)
    sets_.emplace_back(TextReader(paths[i], OnNul::kRefuse), TextReader(paths[i + 1], OnNul::kRefuse));
}

bool PairReader::next(TextPair& pair) {
  for (; current_ < sets_.size(); ++current_) {
    auto& [source, target] = sets_[current_];
    const bool has_source = source.next(pair.source), has_target = target.next(pair.target);
    if (has_source && has_target) {
      pair.set = static_cast<int64_t>(current_);
      pair.line = source.line_number();
      return true;
    }
    if (has_source || has_target) {
      for (TextReader& longer = has_source ? source : target; longer.next(pair.source);) continue;
      user_error("{} has {} lines but {} has {}: sentence pairs must be aligned line by line", source.name(),
                 source.line_number(), target.name(), target.line_number());
    }
  }
  return false;
}

std::string PairReader::place(int64_t set, int64_t line, bool target) const {
  const auto& readers = sets_[static_cast<size_t>(set)];
  return fmt::format("{}:{}", (target ? readers.second : readers.first).name(), line);
}

std::string PairReader::names() const {
  std::string names;
  for (const auto& [source, target] : sets_)
    names += fmt::format("{}{} and {}", names.empty() ? "" : ", ", source.name(), target.name());
  return names;
}

bool LineStream::next(Line& line) {
  if (!reader_.next(line.text)) return false;
  line.index = reader_.line_number() - 1;
  line.ids = vocab_->encode(line.text);
  return true;
}

}  // namespace nmt
