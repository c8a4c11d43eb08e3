#include "config/options.h"

#include <algorithm>
#include <sstream>
#include <type_traits>

#include <boost/program_options.hpp>

#include "base/error.h"
#include "base/line_reader.h"
#include "base/parse_number.h"
#include "base/utf8.h"

namespace nmt {
namespace {

template <class T>
T number_of(const std::string& option, const std::string& text) {
  const auto value = parse_number<T>(text);
  require(value.has_value(), "--{}: '{}' is not {}", option, text,
          std::is_floating_point_v<T> ? "a number" : "a whole number that fits");
  return *value;
}

bool parse_flag(const std::string& option, const std::string& text) {
  if (text == "true" || text == "1" || text == "yes" || text == "on") return true;
  if (text == "false" || text == "0" || text == "no" || text == "off") return false;
  user_error("--{}: '{}' is neither true nor false", option, text);
}

template <class T>
T parse(const std::string& option, const std::string& text) {
  if constexpr (std::is_same_v<T, bool>)
    return parse_flag(option, text);
  else if constexpr (std::is_same_v<T, std::string>)
    return text;
  else
    return number_of<T>(option, text);
}

template <class T>
std::string print(const T& value) {
  if constexpr (std::is_same_v<T, bool>) return value ? "true" : "false";
  return fmt::format("{}", value);
}

// A line `key = value` of a configuration file gives the value back as it is.
bool fits_a_line(const std::string& value) {
  const auto space = [](char c) { return c == ' ' || c == '\t'; };
  return value.empty() ||
         (!space(value.front()) && !space(value.back()) && value.find_first_of("#\r\n") == std::string::npos);
}

// A word that a POSIX shell takes for this text.
std::string shell_word(const std::string& text) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./,:=+@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

// How many letters are to be changed, added, left out, or swapped with their neighbours (Damerau 1964).
size_t edits(const std::string& from, const std::string& to) {
  std::vector<std::vector<size_t>> of(from.size() + 1, std::vector<size_t>(to.size() + 1));  // of their beginnings
  for (size_t i = 0; i <= from.size(); ++i)
    for (size_t j = 0; j <= to.size(); ++j) {
      if (i == 0 || j == 0) {
        of[i][j] = i + j;
        continue;
      }
      const size_t changed = of[i - 1][j - 1] + (from[i - 1] == to[j - 1] ? 0 : 1);
      of[i][j] = std::min({changed, of[i - 1][j] + 1, of[i][j - 1] + 1});
      if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1])
        of[i][j] = std::min(of[i][j], of[i - 2][j - 2] + 1);
    }
  return of.back().back();
}

template <class T>
struct ElementOf {
  using type = T;
  static constexpr bool kList = false;
};
template <class T>
struct ElementOf<std::vector<T>> {
  using type = T;
  static constexpr bool kList = true;
};

}  // namespace

Option& Option::choices(std::vector<std::string> allowed) {
  choices_ = std::move(allowed);
  return allow_default();
}
Option& Option::range(double low, double high) {
  low_ = low;
  high_ = high;
  bounded_ = true;
  return allow_default();
}
Option& Option::required() {
  required_ = true;
  return *this;
}
Option& Option::automatic() {
  automatic_ = true;
  return *this;
}
Option& Option::positional() {
  positional_ = true;
  return *this;
}
Option& Option::short_name(char letter) {
  letter_ = letter;
  return *this;
}
Option& Option::check(std::function<void(const std::string&)> test) {
  test_ = std::move(test);
  return allow_default();
}

void Option::allow(const std::string& value) const {
  require(choices_.empty() || std::ranges::find(choices_, value) != choices_.end(), "--{}: '{}' is not one of: {}",
          name_, value, fmt::join(choices_, ", "));
  if (bounded_) {
    const auto number = number_of<double>(name_, value);
    require(number >= low_ && number <= high_, "--{}: {} is not between {} and {}", name_, value, low_, high_);
  }
  if (test_) test_(value);
}

Option& Option::allow_default() {
  try {
    for (const auto& value : get())
      if (!value.empty()) allow(value);
  } catch (const UserError& error) {
    throw std::logic_error(fmt::format("a default is not allowed: {}", error.what()));
  }
  return *this;
}

bool Option::is_list() const {
  return std::visit([](auto* p) { return ElementOf<std::remove_pointer_t<decltype(p)>>::kList; }, target_);
}

void Option::set(const std::vector<std::string>& values) {
  for (const auto& value : values) allow(value);
  std::visit(
      [&](auto* target) {
        using T = std::remove_pointer_t<decltype(target)>;
        using Element = typename ElementOf<T>::type;
        if constexpr (ElementOf<T>::kList) {
          T list;
          for (const auto& value : values) list.push_back(parse<Element>(name_, value));
          *target = std::move(list);
        } else {
          require(values.size() == 1, "--{} takes one value, not {}", name_, values.size());
          *target = parse<Element>(name_, values[0]);
        }
      },
      target_);
  given_ = true;
}

std::vector<std::string> Option::get() const {
  return std::visit(
      [](auto* target) {
        std::vector<std::string> texts;
        if constexpr (ElementOf<std::remove_pointer_t<decltype(target)>>::kList) {
          for (const auto& value : *target) texts.push_back(print(value));
        } else {
          texts.push_back(print(*target));
        }
        return texts;
      },
      target_);
}

Option& Options::add(std::string name, Option::Target target, std::string help) {
  check(find(name) == nullptr, "option --{} is declared twice", name);
  Option& option = options_.emplace_back();
  option.name_ = std::move(name);
  option.help_ = std::move(help);
  option.group_ = group_;
  option.target_ = target;
  return option;
}

Option* Options::find(const std::string& name) {
  const auto it = std::ranges::find(options_, name, &Option::name_);
  return it == options_.end() ? nullptr : &*it;
}

std::string meant_by(const std::string& name, const std::vector<std::string>& names) {
  constexpr size_t kLongest = 100;
  if (name.empty() || name.size() > kLongest) return "";
  const auto begins = [&](const std::string& known) { return known.starts_with(name); };
  if (std::ranges::count_if(names, begins) == 1) return *std::ranges::find_if(names, begins);
  std::string nearest;
  size_t fewest = std::max<size_t>(1, name.size() / 3) + 1;
  for (const std::string& known : names) {
    const size_t needed = edits(name, known);
    if (needed < fewest) nearest = known;
    fewest = std::min(fewest, needed);
  }
  return nearest;
}

void Options::read_config(const std::string& path) {
  namespace po = boost::program_options;
  require(path != "-", "--config names a file, and is not read from standard input");
  LineReader reader(path);
  configurations_.push_back(path);
  // The library parses; it does not know line numbers, so each line is given to it alone.
  std::vector<std::pair<Option*, std::vector<std::string>>> found;
  for (std::string line; reader.next(line);) {
    const int64_t number = reader.line_number();
    if (number == 1) drop_byte_order_mark(line);
    require(line.find('\0') == std::string::npos, "{}:{}: a NUL byte: this is no text", path, number);
    const auto text = line.find_first_not_of(" \t\r");
    if (text == std::string::npos || line[text] == '#') continue;
    std::istringstream one(line);
    po::parsed_options parsed(nullptr);
    try {
      parsed = po::parse_config_file(one, po::options_description(), true);
    } catch (const po::error&) {
      parsed.options.clear();
    }
    require(parsed.options.size() == 1 && parsed.options[0].value.size() == 1, "{}:{}: expected `key = value`", path,
            number);
    const auto& [key, values] = std::tie(parsed.options[0].string_key, parsed.options[0].value);
    Option* option = find(key);
    if (option == nullptr) {
      std::vector<std::string> names;
      for (const Option& known : options_) names.push_back(known.name_);
      const std::string meant = meant_by(key, names);
      user_error("{}:{}: unknown key '{}'{}", path, number, key,
                 meant.empty() ? "" : fmt::format("; is '{}' meant?", meant));
    }
    auto known = std::ranges::find(found, option, [](const auto& f) { return f.first; });
    require(known == found.end() || option->is_list(), "{}:{}: '{}' is set twice", path, number, key);
    if (known == found.end()) known = found.insert(found.end(), {option, {}});
    known->second.push_back(values[0]);
    const bool given = option->given_;
    const auto kept = option->get();
    try {
      option->set(known->second);
      if (given) option->set(kept);
      option->given_ = given;  // more elements may follow
    } catch (const UserError& error) {
      user_error("{}:{}: {}", path, number, error.what());
    }
  }
  for (auto& [option, values] : found) option->given_ = true;
  end_source();
}

void Options::end_source() {
  ++sources_;
  for (auto& option : options_)
    if (option.given_ && option.source_ == 0) option.source_ = sources_;
}

void Options::require_lines() const {
  for (const auto& option : options_)
    for (const auto& value : option.get())
      require(value.empty() || fits_a_line(value),
              "--{}: '{}' cannot stand in a configuration file (comments begin with #, spaces at the ends are dropped)",
              option.name_, value);
}

std::string Options::dump() const {
  std::string text, group;
  for (const auto& option : options_) {
    if (option.group_ != group) text += fmt::format("{}# {}\n", group.empty() ? "" : "\n", option.group_);
    group = option.group_;
    for (const auto& value : option.get()) {
      if (!option.is_list() && value.empty()) continue;
      text += fmt::format("{}{} = {}\n", option.automatic_ && !option.given_ ? "# " : "", option.name_, value);
    }
  }
  return text;
}

std::string Options::command_line() const {
  std::vector<std::string> words;
  for (const auto& option : options_) {
    if (!option.given_) continue;
    const auto values = option.get();
    if (option.is_flag()) {
      words.push_back((values[0] == "true" ? "--" : "--no-") + option.name_);
      continue;
    }
    if (!option.positional_) words.push_back("--" + option.name_);
    for (const auto& value : values) words.push_back(shell_word(value));
  }
  return fmt::format("{}", fmt::join(words, " "));
}

}  // namespace nmt
