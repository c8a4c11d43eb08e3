#include "config/process.h"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <new>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "base/files.h"

namespace nmt {
namespace {

// Whoever began this may have closed them. To read such an input or to write such an output fails; what is said to a
// closed standard error is lost.
void take_standard_descriptors() {
  constexpr std::pair<int, int> kClosed[] = {
      {STDIN_FILENO, O_WRONLY}, {STDOUT_FILENO, O_RDONLY}, {STDERR_FILENO, O_RDWR}};
  for (const auto& [descriptor, mode] : kClosed)  // in this order, as each is the lowest that is free
    if (::fcntl(descriptor, F_GETFD) < 0) static_cast<void>(::open("/dev/null", mode));
}

const char* program = "";  // its name
std::terminate_handler usual_terminate = nullptr;

// Ends the program as it would have ended, with nothing half written left behind but what is meant to be.
void on_end(int signal) {
  leave_no_temporaries();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
  sigset_t blocked;  // while this runs: here it ends the program
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, signal);
  ::pthread_sigmask(SIG_UNBLOCK, &blocked, nullptr);
  ::_exit(128 + signal);  // but for a container's process 1, which no default ends
}

// Where nothing may be allocated any more.
void report_at_once(std::string_view what) {
  char line[256];
  size_t length = 0;
  for (const std::string_view part :
       {std::string_view(program), std::string_view(": error: "), what, std::string_view("\n")})
    length += part.copy(line + length, sizeof line - length);
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line, length);
}

// A file that is mapped was cut short, and its pages are gone.
void on_lost_pages(int signal) {
  static std::atomic_flag said;  // all threads may find that together
  if (!said.test_and_set())
    report_at_once("a file was cut short while it was read; replace models by renaming new ones over them");
  on_end(signal);
}

// A library's thread that lacks memory has nobody to say it to.
[[noreturn]] void on_terminate() {
  static std::atomic_flag begun;
  while (begun.test_and_set()) ::pause();  // another one ends the program
  leave_no_temporaries();
  try {
    if (const auto error = std::current_exception()) std::rethrow_exception(error);
  } catch (const std::bad_alloc&) {
    report_at_once("out of memory");
    ::_exit(2);
  } catch (...) {
  }
  usual_terminate();
  std::abort();
}

}  // namespace

void take_signals(std::initializer_list<int> signals, void (*handler)(int)) {
  for (const int signal : signals) {
    struct sigaction before;
    if (::sigaction(signal, nullptr, &before) != 0 || before.sa_handler != SIG_IGN) std::signal(signal, handler);
  }
}

void prepare_process(const std::string& name) {
  take_standard_descriptors();
  take_signals({SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGXCPU, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM}, on_end);
  take_signals({SIGBUS}, on_lost_pages);
  static auto* const kept = new std::string;  // for as long as anything runs
  program = (*kept = name).c_str();
  if (const auto before = std::set_terminate(on_terminate); before != on_terminate) usual_terminate = before;
  std::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace nmt
