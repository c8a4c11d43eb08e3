#include "base/error.h"
#include "base/parse_number.h"
#include "metrics/brackets.h"
#include "text/split_words.h"
#include "text/text_reader.h"

namespace nmt {
namespace {

int number_of(std::string_view text, const std::string& where) {
  const auto number = parse_number<int>(text);
  require(number.has_value(), "{}: '{}' is not a whole number", where, text);
  return *number;
}

}  // namespace

BracketParameters BracketParameters::read(const std::string& path) {
  BracketParameters p{.deleted = {}, .not_in_length = {}, .equal_labels = {}};
  TextReader reader(path, OnNul::kRefuse);
  for (std::string line; reader.next(line);) {
    const auto fields = split_words(line);
    if (fields.empty() || line.starts_with('#')) continue;
    const auto where = fmt::format("{}:{}", reader.name(), reader.line_number());
    const auto key = fields[0];
    const size_t values = key.starts_with("EQ_") ? 2 : 1;
    require(fields.size() == 1 + values, "{}: {} takes {} value{}, found {}", where, key, values,
            values == 1 ? "" : "s", fields.size() - 1);
    const std::string value(fields[1]);
    if (key == "LABELED")
      p.labelled = number_of(value, where) != 0;
    else if (key == "CUTOFF_LEN")
      p.cutoff = number_of(value, where);
    else if (key == "MAX_ERROR")
      p.max_errors = number_of(value, where);
    else if (key == "DELETE_LABEL")
      p.deleted.push_back(value);
    else if (key == "DELETE_LABEL_FOR_LENGTH")
      p.not_in_length.push_back(value);
    else if (key == "QUOTE_LABEL")
      p.quotes.push_back(value);
    else if (key == "EQ_LABEL")
      p.equal_labels.emplace_back(value, fields[2]);
    else if (key == "EQ_WORD")
      p.equal_words.emplace_back(value, fields[2]);
    else
      require(key == "DEBUG", "{}: '{}' is not a parameter of EVALB", where, key);
  }
  return p;
}

}  // namespace nmt
