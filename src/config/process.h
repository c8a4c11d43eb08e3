#pragma once

#include <initializer_list>
#include <string>

// How a program begins and, by a signal or without anybody to report to, ends.
namespace nmt {

// To be called before anything else, by the name that messages begin with. From then on files that are opened are never
// standard input, output or error; a program that a signal or std::terminate ends leaves no temporary files; a mapped
// file that somebody cuts short ends it by SIGBUS, after a line that says so; a file that may not grow is an error like
// a full disk, no signal.
void prepare_process(const std::string& name);

// Handles these signals, but for those that whoever began the program ignores: they stay so.
void take_signals(std::initializer_list<int> signals, void (*handler)(int));

}  // namespace nmt
