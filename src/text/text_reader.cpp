#include "text/text_reader.h"

#include "base/error.h"
#include "base/log.h"
#include "base/utf8.h"

namespace nmt {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

}  // namespace

void LineCleaner::note(Finding& finding, int64_t number) {
  if (++finding.lines == 1) log::warn("{}:{}: {}; {}", name_, number, finding.what, finding.effect);
}

void LineCleaner::clean(std::string& line, int64_t number) {
  if (number == 1) drop_byte_order_mark(line);
  if (line.ends_with('\r')) {
    line.pop_back();
    note(crlf_, number);
  }
  if (line.find('\0') != std::string::npos) {
    require(on_nul_ == OnNul::kReplace,
            "{}:{}: NUL byte: this is not UTF-8 text; convert the file (iconv -t UTF-8) or remove such bytes "
            "(tr -d '\\000')",
            name_, number);
    note(nul_, number);
    std::string replaced;
    for (const char c : line) c == '\0' ? replaced.append(kReplacement) : replaced.append(1, c);
    line = std::move(replaced);
  }
  if (!is_valid_utf8(line)) {
    note(malformed_, number);
    line = repair_utf8(line);
  }
}

void LineCleaner::report(int64_t lines) const {
  for (const auto* finding : {&crlf_, &nul_, &malformed_})
    if (finding->lines > 1) log::warn("{}: {} in {} of {} lines", name_, finding->what, finding->lines, lines);
}

bool TextReader::next(std::string& line) {
  if (reader_.next(line)) {
    cleaner_.clean(line, line_number());
    return true;
  }
  if (!ended_) cleaner_.report(line_number());
  ended_ = true;
  return false;
}

}  // namespace nmt
