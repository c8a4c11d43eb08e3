#pragma once

#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace nmt {

// Something failed while running (disk full, damaged memory map ...): the tools end with exit code 1.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Wrong usage, configuration or input; the message is one line that says what, where and what to do: exit code 2.
class UserError : public Error {
 public:
  using Error::Error;
};

// The memory of the host, or of a device, does not suffice: exit code 2. Advised: the message says what needs less.
class OutOfMemory : public Error {
 public:
  explicit OutOfMemory(const std::string& what, bool advised = false) : Error(what), advised_(advised) {}
  bool advised() const { return advised_; }

 private:
  bool advised_;
};

// body(), where containers that lack memory throw OutOfMemory, too.
template <class Body>
decltype(auto) with_out_of_memory(Body&& body) try {
  return body();
} catch (const std::bad_alloc&) {
  throw OutOfMemory("out of memory");
}

// body(); where memory does not suffice, OutOfMemory that goes on with what needs less, unless it does so already.
template <class Body>
void advise_on_memory(const std::string& advice, Body&& body) try {
  with_out_of_memory(body);
} catch (const OutOfMemory& error) {
  if (error.advised()) throw;
  throw OutOfMemory(fmt::format("{}; {}", error.what(), advice), true);
}

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
[[noreturn]] void user_error(fmt::format_string<Args...> format, Args&&... args) {
  throw UserError(fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
void require(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) throw UserError(fmt::format(format, std::forward<Args>(args)...));
}

// For what only a programmer can get wrong: shapes, ranges, call order.
template <class... Args>
void check(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) throw std::logic_error(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace nmt
