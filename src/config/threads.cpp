#include "config/threads.h"

#include <algorithm>
#include <thread>

namespace nmt {

Option& declare_threads(Options& options, int& threads) {
  return options.add("cpu-threads", threads, "Threads; 0: one a core").range(0, 4096);
}

Option& declare_devices(Options& options, std::vector<std::string>& devices) {
  return options.add("devices", devices,
                     "Where to compute: cpu, numbers of GPUs, or auto: the first GPU, if there is one");
}

int threads_or_all(int threads) {
  return threads > 0 ? threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace nmt
