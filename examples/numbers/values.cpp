#include "values.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/hash.h"
#include "lexicon.h"
#include "spelling.h"

namespace nmt::numbers {
namespace {

struct Token {
  std::string text;     // lower case, without punctuation
  std::string unit;     // what is glued to a number: "euros" of "€5", "year-old" of "7-year-old"
  bool closed = false;  // punctuation follows
};

struct Word {  // "twenty-one", "21st"
  int64_t value;
  bool ordinal;
};

// All cardinals and ordinals below one hundred.
const std::map<std::string, Word, std::less<>>& small_words() {
  static const auto words = [] {
    std::map<std::string, Word, std::less<>> map;
    for (int64_t n = 0; n < 100; ++n) {
      map[cardinal_en(n)] = {n, false};
      if (n > 0) map[ordinal_en(n)] = {n, true};
    }
    return map;
  }();
  return words;
}

std::vector<Token> tokenize(std::string_view text) {
  std::vector<Token> tokens;
  while (!text.empty()) {
    std::string_view raw = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), raw.size() + 1));
    Token token;
    for (const auto& [symbol, unit] : {std::pair{"€", "euros"}, std::pair{"$", "dollars"}})
      if (raw.starts_with(symbol)) {
        raw.remove_prefix(std::string_view(symbol).size());
        token.unit = unit;
      }
    while (!raw.empty() && std::string_view(".,;:?!").find(raw.back()) != std::string_view::npos) {
      raw.remove_suffix(1);
      token.closed = true;
    }
    if (constexpr std::string_view aged = "-year-old"; raw.ends_with(aged)) {
      raw.remove_suffix(aged.size());
      token.unit = "year-old";
    }
    token.text = raw;
    std::transform(token.text.begin(), token.text.end(), token.text.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    tokens.push_back(std::move(token));
  }
  return tokens;
}

std::string decimal_key(int64_t hundredths) {
  const int64_t size = hundredths < 0 ? -hundredths : hundredths;
  const int places = size % 100 == 0 ? 0 : size % 10 == 0 ? 1 : 2;
  std::string text = std::to_string(size / 100);
  if (places) text += decimal_digits(size % 100, places, ',', '.').substr(1);
  return (hundredths < 0 ? "-" : "") + text;
}

bool one_word(int64_t hundredths) {
  const int64_t size = hundredths < 0 ? -hundredths : hundredths;
  if (size % 100 == 50) return size <= 1050;
  if (size % 100) return false;
  const int64_t n = size / 100;
  return n <= 20 || (n < 100 && n % 10 == 0) || (n % 1'000'000 == 0 && n <= 20'000'000);
}

// 1 to 12; 0 for other words
int month_number(std::string_view lower_case) {
  for (int month = 0; month < 12; ++month) {
    const std::string_view name = kMonths[month].en;
    if (!lower_case.empty() && lower_case.substr(1) == name.substr(1) && lower_case[0] == name[0] + ('a' - 'A'))
      return month + 1;
  }
  return 0;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : tokens_(tokenize(text)) {}

  std::vector<std::string> run() {
    while (at_ < tokens_.size())
      if (!iso_date() && !month_first() && !clock() && !spoken_time() && !year() && !number()) ++at_;
    return std::move(keys_);
  }

 private:
  // The text at an offset from the current token; empty beyond the sentence or across punctuation.
  std::string_view word(size_t offset) const {
    if (at_ + offset >= tokens_.size()) return {};
    for (size_t i = 0; i < offset; ++i)
      if (tokens_[at_ + i].closed) return {};
    return tokens_[at_ + offset].text;
  }

  std::optional<Word> small(size_t offset) const {
    const auto found = small_words().find(word(offset));
    return found == small_words().end() ? std::nullopt : std::optional(found->second);
  }

  std::optional<int64_t> cardinal(size_t offset) const {  // below one hundred
    const auto found = small(offset);
    return found && !found->ordinal ? std::optional(found->value) : std::nullopt;
  }

  std::optional<int64_t> hour(size_t offset) const {
    const auto n = cardinal(offset);
    return n && *n >= 1 && *n <= 12 ? n : std::nullopt;
  }

  // Digits with commas, a point with up to two digits, or an ordinal ending: hundredths.
  static std::optional<int64_t> numeral(std::string_view text) {
    for (const auto* ending : {"st", "nd", "rd", "th"})
      if (text.ends_with(ending)) {
        text.remove_suffix(2);
        break;
      }
    int64_t value = 0;
    int places = -1;
    if (text.empty()) return std::nullopt;
    for (const char c : text) {
      if (c == ',') continue;
      if (c == '.' && places < 0) {
        places = 0;
      } else if (c >= '0' && c <= '9' && places < 2 && value < 1'000'000'000) {
        value = value * 10 + (c - '0');
        if (places >= 0) ++places;
      } else {
        return std::nullopt;
      }
    }
    for (int i = std::max(places, 0); i < 2; ++i) value *= 10;
    return value;
  }

  void add_time(int64_t hour, int64_t minute, size_t tokens) {
    keys_.push_back(fmt::format("{}:{:02}", (hour + 11) % 12 + 1, minute));
    at_ += tokens;
  }
  void add_date(int64_t month, int64_t day, size_t tokens) {
    keys_.push_back(fmt::format("{}-{}", month, day));
    at_ += tokens;
  }

  bool iso_date() {  // 2019-05-21
    const std::string_view text = word(0);
    if (text.size() != 10 || text[4] != '-' || text[7] != '-') return false;
    const auto year = numeral(text.substr(0, 4)), month = numeral(text.substr(5, 2)), day = numeral(text.substr(8, 2));
    if (!year || !month || !day) return false;
    add_date(*month / 100, *day / 100, 1);
    keys_.push_back(decimal_key(*year));
    return true;
  }

  bool month_first() {  // May 21, May 21st
    const int month = month_number(word(0));
    if (month == 0) return false;
    const auto day = numeral(word(1));
    if (!day || *day > 3100) return false;
    add_date(month, *day / 100, 2);
    return true;
  }

  bool clock() {  // 3:45 pm
    const std::string_view text = word(0);
    const size_t colon = text.find(':');
    if (colon == std::string_view::npos) return false;
    const auto hour = numeral(text.substr(0, colon)), minute = numeral(text.substr(colon + 1));
    if (!hour || !minute) return false;
    add_time(*hour / 100, *minute / 100, 1);
    return true;
  }

  bool spoken_time() {
    const bool past = word(1) == "past", to = word(1) == "to";
    if (past || to) {
      const auto next = hour(2);
      const auto minutes = word(0) == "half" ? 30 : word(0) == "quarter" ? 15 : cardinal(0).value_or(0);
      if (!next || minutes == 0 || minutes > 30 || minutes % 5) return false;
      past ? add_time(*next, minutes, 3) : add_time(*next + 11, 60 - minutes, 3);
      return true;
    }
    const auto hours = hour(0);
    if (!hours) return false;
    if (word(1) == "o'clock") return add_time(*hours, 0, 2), true;
    if (const auto minute = cardinal(2); word(1) == "oh" && minute) return add_time(*hours, *minute, 3), true;
    if (const auto minute = cardinal(1); minute && *minute >= 10) return add_time(*hours, *minute, 2), true;
    return false;
  }

  bool year() {  // nineteen eighty-seven, eighteen oh five
    const auto century = cardinal(0);
    if (!century || *century < 13 || *century > 20) return false;
    const bool oh = word(1) == "oh";
    const auto rest = cardinal(oh ? 2 : 1);
    if (!rest) return false;
    keys_.push_back(std::to_string(*century * 100 + *rest));
    at_ += oh ? 3 : 2;
    return true;
  }

  struct Amount {
    int64_t hundredths;
    size_t tokens;
  };

  // Number words or digits that begin at the offset.
  std::optional<Amount> amount(size_t offset) const {
    if (const auto value = numeral(word(offset))) {
      if (word(offset + 1) == "million") return Amount{*value * 1'000'000, 2};
      return Amount{*value, 1};
    }
    if (!small(offset)) return std::nullopt;
    int64_t total = 0, group = 0;
    bool open = true;     // a part below one hundred may come
    bool scaled = false;  // after hundred, thousand, million: "and" may come
    size_t at = offset;
    for (;; ++at) {
      const std::string_view text = word(at);
      if (const auto part = small(at); part && open) {
        group += part->value;
        open = scaled = false;
      } else if (text == "hundred" && group < 100) {
        group *= 100;
        scaled = true;
      } else if (text == "thousand" || text == "million") {
        total += group * (text == "million" ? 1'000'000 : 1000);
        group = 0;
        open = scaled = true;
      } else if (text == "and" && scaled && small(at + 1)) {
        open = true;
      } else {
        break;
      }
    }
    int64_t hundredths = (total + group) * 100;
    if (word(at) == "point") {
      ++at;
      for (int64_t place = 10; place > 0; place /= 10, ++at) {
        const auto digit = cardinal(at);
        if (!digit || *digit > 9) break;
        hundredths += *digit * place;
      }
      if (word(at) == "million" && total == 0) hundredths *= 1'000'000, ++at;
    } else if (word(at) == "and" && word(at + 1) == "a" && word(at + 2) == "half") {
      hundredths += 50;
      at += 3;
    }
    return Amount{hundredths, at - offset};
  }

  bool number() {
    const auto found = amount(0);
    if (!found) return false;
    const auto [size, length] = *found;
    const std::string_view next = word(length);
    if (const size_t of = next == "of" ? 1 : 0; const int month = month_number(word(length + of)))
      return add_date(month, size / 100, length + of + 1), true;  // 21 May, the twenty-first of May

    const std::string before = at_ > 0 ? tokens_[at_ - 1].text : "";
    std::string unit = tokens_[at_ + length - 1].unit.empty() ? std::string(next) : tokens_[at_ + length - 1].unit;
    if (unit == "euro" || unit == "dollar") unit += 's';
    int64_t value = before == "minus" ? -size : size;
    at_ += length;
    if (unit == "euros" || unit == "dollars") value += cents();
    if (!one_word(value)) {
      keys_.push_back(decimal_key(value));
    } else if (std::find(std::begin(kLabels), std::end(kLabels), before) != std::end(kLabels) || unit.empty()) {
      keys_.push_back(before + ' ' + decimal_key(value));
    } else {
      keys_.push_back(decimal_key(value) + ' ' + unit);
    }
    return true;
  }

  int64_t cents() {  // twelve euros and fifty cents: from "euros" on
    if (word(1) != "and") return 0;
    const auto found = amount(2);
    if (!found || !word(2 + found->tokens).starts_with("cent")) return 0;
    at_ += 2 + found->tokens + 1;
    return found->hundredths / 100;
  }

  std::vector<Token> tokens_;
  std::vector<std::string> keys_;
  size_t at_ = 0;
};

}  // namespace

std::vector<std::string> values(std::string_view english) { return Parser(english).run(); }

Part part_of(std::string_view value) {
  if (value.starts_with("1 ")) return Part::kTrain;
  switch (hash64(value, 1) % 16) {
    case 0:
      return Part::kDev;
    case 1:
      return Part::kTest;
    default:
      return Part::kTrain;
  }
}

}  // namespace nmt::numbers
