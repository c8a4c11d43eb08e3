#include "config/app.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <new>
#include <system_error>
#include <typeinfo>
#include <utility>

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/utf8.h"
#include "base/version.h"
#include "config/process.h"

namespace nmt {

App& App::command(std::string name, std::string description) {
  return commands_.emplace_back(std::move(name), std::move(description));
}

namespace {

// Flags as --[no-]name.
class HelpFormat : public CLI::Formatter {
  std::string make_option_name(const CLI::Option* option, bool positional) const override {
    const auto& names = option->get_lnames();
    if (positional || names.size() != 2 || names[1] != "no-" + names[0])
      return Formatter::make_option_name(option, positional);
    const auto& letters = option->get_snames();
    return fmt::format("{}--[no-]{}", letters.empty() ? "" : "-" + letters[0] + ",", names[0]);
  }
};

// CLI11 takes a list's value [a,b] apart, and for the value of --name= what follows. Both are guarded from that while
// it parses.
constexpr char kGuard = '\x1f';

std::vector<std::string> guarded(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  for (auto& argument : arguments)
    if (argument.ends_with(']') || (argument.starts_with("--") && argument.ends_with('='))) argument.push_back(kGuard);
  std::ranges::reverse(arguments);  // as CLI11 wants them
  return arguments;
}

std::vector<std::string> unguarded(std::vector<std::string> values) {
  for (auto& value : values)
    if (value.ends_with(kGuard)) value.pop_back();
  return values;
}

// The exit code for the exception that is being handled, once what it says is reported.
int code_of_exception(const std::function<void(std::string)>& report) {
  try {
    throw;
  } catch (const Exit& exit) {
    return exit.code;
  } catch (const UserError& error) {
    report(error.what());
    return 2;
  } catch (const OutOfMemory& error) {
    report(error.what());
    return 2;
  } catch (const std::system_error& error) {
    // A class of its own: that of a file, say, derives from it.
    const bool no_thread =
        typeid(error) == typeid(std::system_error) && error.code() == std::errc::resource_unavailable_try_again;
    report(no_thread ? "cannot start a thread: there is too little memory, or too many threads run already"
                     : error.what());
    return no_thread ? 2 : 1;
  } catch (const std::exception& error) {
    report(error.what());
    return 1;
  }
}

}  // namespace

// The bridge from declared options to CLI11.
class CommandLine {
 public:
  CommandLine(App& app, CLI::App& cli) : app_(app), cli_(cli) {
    if (!app.footer_.empty()) cli.footer(app.footer_);
    for (auto& option : app.options_.all()) declare(option);
    for (auto& command : app.commands_) {
      auto* sub = cli.add_subcommand(command.name_, command.description_);
      commands_.emplace_back(std::make_unique<CommandLine>(command, *sub));
    }
    if (!commands_.empty()) cli.require_subcommand(app.body_ ? 0 : 1, 1);
    if (!app.body_) return;
    cli.add_option(
           "--config", configs_,
           "Read options from FILE: lines of `name = value`, for a list one for each value, # begins a comment; a "
           "later FILE wins, the command line over all")
        ->type_name("FILE")
        ->group("General");
    cli.add_flag("--dump-config", dump_, "Print the options as a configuration file and end")->group("General");
  }

  void run() {
    for (auto& command : commands_)
      if (command->cli_.parsed()) {
        for (const auto* option : cli_.get_options())
          require(option->count() == 0, "{} stands before the command {}, whose own options follow it",
                  option->get_name(), command->app_.name_);
        return command->run();
      }
    for (auto& option : app_.options_.all()) {
      auto* parsed = parsed_.at(&option);
      if (!option.positional_) require_values(option.name_, values_[&option]);
      if (parsed->count() > 0)
        option.set(option.is_flag() ? std::vector{flag_value(*parsed)} : unguarded(values_[&option]));
    }
    app_.options_.end_source();
    require_values("config", configs_);
    const auto configs = unguarded(configs_);
    for (auto path = configs.rbegin(); path != configs.rend(); ++path) app_.options_.read_config(*path);
    if (app_.prepare_) app_.prepare_();
    if (dump_) {
      app_.options_.require_lines();
      print("{}", app_.options_.dump());
      return;
    }
    for (auto& option : app_.options_.all())
      require(!option.required_ || option.given_, "--{} is missing (see --help)", option.name_);
    app_.body_();
  }

  // Says what nobody has declared.
  [[noreturn]] void refuse_extras() {
    for (auto& command : commands_)
      if (!command->cli_.remaining().empty()) command->refuse_extras();
    const auto extras = cli_.remaining();
    const std::string& first = extras.at(0);
    std::vector<std::string> names;
    for (const auto* option : cli_.get_options())
      names.insert(names.end(), option->get_lnames().begin(), option->get_lnames().end());
    const std::string meant = first.starts_with("--") ? meant_by(first.substr(2, first.find('=') - 2), names) : "";
    user_error("'{}' was not expected{} (see --help)", fmt::join(extras, " "),
               meant.empty() ? "" : fmt::format("; is --{} meant?", meant));
  }

 private:
  // CLI11 takes an option that follows another one for its value.
  void require_values(const std::string& name, const std::vector<std::string>& values) const {
    for (const auto& value : values)
      require(!value.starts_with("--") || cli_.get_option_no_throw(value.substr(0, value.find('='))) == nullptr,
              "--{} needs a value (see --help)", name);
  }

  static std::string flag_value(const CLI::Option& parsed) { return parsed.results().back(); }

  void declare(Option& option) {
    std::string names = option.positional_ ? option.name_ : "--" + option.name_;
    if (option.letter_ != 0) names = fmt::format("-{},{}", option.letter_, names);
    std::string help = option.help_;
    if (!option.choices_.empty()) help += fmt::format(" ({})", fmt::join(option.choices_, ", "));
    if (option.required_) help += " (required)";
    const auto defaults = option.get();
    if (!defaults.empty() && !defaults[0].empty() && !(option.is_flag() && defaults[0] == "false"))
      help += fmt::format(" [{}]", fmt::join(defaults, " "));
    auto& values = values_[&option];
    CLI::Option* made = nullptr;
    if (option.is_flag())
      made = cli_.add_flag(fmt::format("{},!--no-{}", names, option.name_))->description(help);
    else if (option.is_list())
      made = cli_.add_option(names, values, help)->expected(1, CLI::detail::expected_max_vector_size);
    else
      made = cli_.add_option(names, values, help)
                 ->expected(1)
                 ->allow_extra_args(false)
                 ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    if (!option.is_flag()) made->type_name("");
    parsed_[&option] = made->group(option.group_);
  }

  App& app_;
  CLI::App& cli_;
  std::map<const Option*, CLI::Option*> parsed_;
  std::map<const Option*, std::vector<std::string>> values_;
  std::vector<std::unique_ptr<CommandLine>> commands_;
  std::vector<std::string> configs_;
  bool dump_ = false;
};

int App::main(int argc, char** argv) {
  const auto report = [&](std::string what) {
    std::ranges::replace(what, '\n', ' ');  // one line, whatever was typed
    std::erase(what, kGuard);
    what = printable(what, log::kLongest);
    std::fputs(fmt::format("{}: error: {}\n", name_, what).c_str(), stderr);  // where there is somebody to read it
    log::error_to_file(what);
  };
  prepare_process(name_);
  CLI::App cli(description_, name_);
  cli.formatter(std::make_shared<HelpFormat>());
  cli.get_formatter()->column_width(34);
  cli.set_version_flag("--version", version_text(name_));
  try {
    with_out_of_memory([&] {
      CommandLine line(*this, cli);
      try {
        cli.parse(guarded(argc, argv));
      } catch (const CLI::ExtrasError&) {
        line.refuse_extras();
      }
      line.run();
    });
    return 0;
  } catch (const CLI::Success& help) {
    const int code = cli.exit(help);
    if (std::cout.flush()) return code;
    report("cannot write standard output");
    return 1;
  } catch (const CLI::ArgumentMismatch& error) {  // OPTION: what is wrong
    const std::string what = error.what();
    report(fmt::format("{} needs a value (see --help)", what.substr(0, what.find(':'))));
    return 2;
  } catch (const CLI::RequiredError&) {
    const std::string given = argc > 1 && argv[1][0] != '-' ? argv[1] : "";
    report(fmt::format("{} (see --help)", given.empty() ? "a command is missing" : "there is no command " + given));
    return 2;
  } catch (const CLI::ParseError& error) {
    report(fmt::format("{} (see --help)", error.what()));
    return 2;
  } catch (...) {
    return code_of_exception(report);
  }
}

}  // namespace nmt
