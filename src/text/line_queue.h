#pragma once

#include <memory>
#include <string>
#include <vector>

namespace nmt {

// Lines of a file or pipe, cleaned (see TextReader) and read ahead by a thread of its own, so that lines which are
// there can be worked on while the next ones are still being written.
class LineQueue {
 public:
  // Reads at most `ahead` lines ahead. Throws UserError where the file cannot be read ("-": standard input).
  LineQueue(const std::string& path, size_t ahead);
  ~LineQueue();  // does not wait for the thread: it may be waiting for input that never comes

  // Waits for a line, then takes it and those that follow, `ahead` at most: of a file as many as there are, of others
  // those that follow at once. None: the input is over.
  // Throws UserError where the rest cannot be read.
  std::vector<std::string> take();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace nmt
