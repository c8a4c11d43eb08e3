#include "config/threads.h"

#include <algorithm>
#include <thread>

namespace nmt {

Option& declare_threads(Options& options, int& threads) {
  return options.add("cpu-threads", threads, "Threads; 0: one a core").range(0, 4096);
}

int threads_or_all(int threads) {
  return threads > 0 ? threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace nmt
