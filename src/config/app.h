#pragma once

#include <functional>
#include <list>
#include <string>

#include "config/options.h"

namespace nmt {

// A command-line tool, or one of its subcommands. Every tool has --help and --version; whatever has a body has
// --config FILE (of several files the last wins, the command line over all) and --dump-config, too.
class App {
 public:
  App(std::string name, std::string description) : name_(std::move(name)), description_(std::move(description)) {}

  Options& options() { return options_; }
  App& command(std::string name, std::string description);              // adds a subcommand; it lives as long as this
  void run(std::function<void()> body) { body_ = std::move(body); }     // what main runs
  void footer(std::string examples) { footer_ = std::move(examples); }  // the end of the help text

  // Called between reading the command line and config file and the check of required options: fills in what
  // depends on other options (a --task's recipe).
  void prepare(std::function<void()> fill) { prepare_ = std::move(fill); }

  // Parses, runs the chosen body. Exit codes: 0 done; 2 UserError, wrong usage or too little memory; 1 any other
  // exception; each with one line `NAME: error: what`. A body that ends by a signal throws Exit. What else ends the
  // program: process.h.
  int main(int argc, char** argv);

 private:
  friend class CommandLine;
  std::string name_, description_, footer_;
  Options options_;
  std::list<App> commands_;
  std::function<void()> body_, prepare_;
};

// Thrown by a body that ends with an exit code of its own (stopped by a signal after saving).
struct Exit {
  int code;
};

}  // namespace nmt
