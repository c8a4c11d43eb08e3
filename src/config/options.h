#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <variant>
#include <vector>

namespace nmt {

// One declared option: its name serves the command line (--name), config files (name = value), the help text and dumps.
// The value it is declared with is the default.
class Option {
 public:
  using Target = std::variant<bool*, int*, int64_t*, uint64_t*, double*, std::string*, std::vector<int>*,
                              std::vector<double>*, std::vector<std::string>*>;

  // What set() accepts: one of `allowed`; a number in [low, high]; what `test` does not throw a UserError for. They
  // throw std::logic_error for a default that set() would refuse (text may be empty), so that every dump can be read
  // again.
  Option& choices(std::vector<std::string> allowed);
  Option& range(double low, double high);
  Option& check(std::function<void(const std::string&)> test);
  Option& required();               // a command line or config file must set it
  Option& automatic();              // where it is not given its value follows from others; dumps show it as a comment
  Option& positional();             // words of the command line that belong to no option are its values
  Option& short_name(char letter);  // -letter is the same as --name

  const std::string& name() const { return name_; }
  bool given() const { return given_; }  // on the command line or in a config file
  // What gave it: 1 the command line, then 2, 3 ... the later, the less it counts; 0 while that is being read.
  int source() const { return source_; }

  // Parses and stores a value, which is given() from then on; all values of a list at once; a flag takes true or false.
  // Throws UserError, naming the option, for a value of the wrong type or that is not allowed; then nothing is stored.
  void set(const std::vector<std::string>& values);
  std::vector<std::string> get() const;  // the current value as text; round-trips through set
  bool is_flag() const { return std::holds_alternative<bool*>(target_); }
  bool is_list() const;  // takes several values

 private:
  friend class Options;
  friend class CommandLine;

  void allow(const std::string& value) const;
  Option& allow_default();

  std::string name_, help_, group_;
  Target target_;
  std::vector<std::string> choices_;
  double low_ = 0, high_ = 0;
  bool bounded_ = false, required_ = false, automatic_ = false, positional_ = false, given_ = false;
  char letter_ = 0;
  int source_ = 0;
  std::function<void(const std::string&)> test_;
};

// The one of these names that was meant by one that is not among them, as far as can be guessed by its letters; or
// empty.
std::string meant_by(const std::string& name, const std::vector<std::string>& names);

// The options of a command, in order of declaration. Values live in the caller's structs; what they hold at the
// declaration is the default.
class Options {
 public:
  // The heading, in help and dumps, of the options that are added from now on.
  void group(std::string title) { group_ = std::move(title); }

  // Declares an option over `value`, which must outlive it. T is bool, int, int64_t, uint64_t, double, std::string, or
  // a vector of int, double or std::string. Throws std::logic_error where the name is taken.
  template <class T>
  Option& add(std::string name, T& value, std::string help) {
    return add(std::move(name), Option::Target(&value), std::move(help));
  }

  Option* find(const std::string& name);  // null where there is none
  const std::deque<Option>& all() const { return options_; }
  std::deque<Option>& all() { return options_; }

  // Reads `key = value` lines; repeated keys make lists; # begins a comment. Options already given keep their value:
  // what counts more is read first. Throws UserError, with file and line, for an unknown key, a key set twice or a
  // value that is not allowed.
  void read_config(const std::string& path);
  // What read_config has read.
  const std::vector<std::string>& configurations() const { return configurations_; }
  // What is set from now on is of another source, which counts less.
  void end_source();
  // Throws UserError for a value that no line of a configuration can hold.
  void require_lines() const;
  // The values of all options as read_config reads them (but for those that require_lines() refuses), and as comments
  // automatic ones that are not given.
  std::string dump() const;
  // The options that are given, as a shell takes them.
  std::string command_line() const;

 private:
  Option& add(std::string name, Option::Target target, std::string help);

  std::string group_ = "Options";
  std::deque<Option> options_;
  std::vector<std::string> configurations_;
  int sources_ = 0;
};

}  // namespace nmt
