#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

namespace nmt {

// One declared option: its name serves the command line (--name), config files (name = value), the help text and dumps.
class Option {
 public:
  using Target = std::variant<bool*, int*, int64_t*, uint64_t*, double*, std::string*, std::vector<int>*,
                              std::vector<double>*, std::vector<std::string>*>;

  Option& choices(std::vector<std::string> allowed);
  Option& range(double low, double high);  // bounds included
  Option& required();
  Option& positional();
  Option& short_name(char letter);
  Option& check(std::function<void(const std::string&)> test);  // throws UserError for a value that is not allowed

  const std::string& name() const { return name_; }
  bool given() const { return given_; }  // on the command line or in a config file

  // Parses and stores; a flag takes true/false. Throws UserError naming the option.
  void set(const std::vector<std::string>& values);
  std::vector<std::string> get() const;  // the current value as text; round-trips through set
  bool is_flag() const { return std::holds_alternative<bool*>(target_); }
  bool is_list() const;

 private:
  friend class Options;
  friend class CommandLine;

  std::string name_, help_, group_;
  Target target_;
  std::vector<std::string> choices_;
  double low_, high_;
  bool bounded_ = false, required_ = false, positional_ = false, given_ = false;
  char letter_ = 0;
  std::function<void(const std::string&)> test_;
};

// The options of a command, in order of declaration. Values live in the caller's structs; what they hold at the
// declaration is the default.
class Options {
 public:
  void group(std::string title) { group_ = std::move(title); }

  template <class T>
  Option& add(std::string name, T& value, std::string help) {
    return add(std::move(name), Option::Target(&value), std::move(help));
  }

  Option* find(const std::string& name);
  const std::deque<Option>& all() const { return options_; }
  std::deque<Option>& all() { return options_; }

  // Reads `key = value` lines (repeated keys make lists); an unknown key is a UserError with file and line.
  // Options already given keep their value.
  void read_config(const std::string& path);
  // What read_config reads. Throws UserError for a value that no line can hold.
  std::string dump() const;

 private:
  Option& add(std::string name, Option::Target target, std::string help);

  std::string group_ = "Options";
  std::deque<Option> options_;
};

}  // namespace nmt
