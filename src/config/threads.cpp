#include "config/threads.h"

#include <algorithm>
#include <thread>

#include <sched.h>

namespace nmt {

Option& declare_threads(Options& options, int& threads) {
  return options.add("cpu-threads", threads, "Threads; 0: one a core that the program may run on").range(0, 4096);
}

Option& declare_devices(Options& options, std::vector<std::string>& devices) {
  return options.add("devices", devices,
                     "Where to compute: cpu, numbers of GPUs, or auto: the first GPU, if there is one");
}

int threads_or_all(int threads) {
  if (threads > 0) return threads;
  // hardware_concurrency() counts all cores: taskset and batch systems leave a program some of them.
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) return CPU_COUNT(&cores);
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));  // more than cpu_set_t has bits for
}

}  // namespace nmt
