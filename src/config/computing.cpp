#include "config/computing.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include <sched.h>

#include "base/log.h"
#include "base/math.h"

namespace nmt {
namespace {

constexpr int kMostThreads = 4096;

}  // namespace

Option& declare_threads(Options& options, int& threads, const std::string& help) {
  return options.add("cpu-threads", threads, help + "; 0: one a core that the program may run on")
      .range(0, kMostThreads);
}

Option& declare_devices(Options& options, std::vector<std::string>& devices) {
  return options.add("devices", devices,
                     "Where to compute: cpu, numbers of GPUs, or auto: the first GPU, if there is one");
}

namespace {

int cores() {
  // hardware_concurrency() counts all cores: taskset, batch systems and containers leave a program some of them.
  cpu_set_t cores;
  int count = static_cast<int>(std::thread::hardware_concurrency());  // where cpu_set_t has too few bits
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) count = CPU_COUNT(&cores);
  std::ifstream membership("/proc/self/cgroup");
  return std::max(1, std::min(count, cores_of_groups(membership, "/sys/fs/cgroup").value_or(count)));
}

}  // namespace

int threads_or_all(int threads) {
  const int all = cores();
  if (threads == 0) return all;
  if (static std::once_flag once; threads > 4 * all)  // fewer may be meant: cores come and go
    std::call_once(once, [&] {
      log::warn("--cpu-threads {} on {} cores: threads that wait for each other in turns are slow", threads, all);
    });
  return threads;
}

std::optional<int> cores_of_groups(std::istream& membership, const std::filesystem::path& root) {
  constexpr std::string_view kOfVersion2 = "0::";
  std::optional<int> fewest;
  const auto look_at = [&](const std::filesystem::path& group) {
    std::ifstream limit(root / group / "cpu.max");
    if (const auto cores = cores_of_quota(limit)) fewest = std::min(*cores, fewest.value_or(*cores));
  };
  look_at("");
  for (std::string line; std::getline(membership, line);)
    if (line.starts_with(kOfVersion2))
      for (auto group = std::filesystem::path(line.substr(kOfVersion2.size())).relative_path(); !group.empty();
           group = group.parent_path())
        look_at(group);
  return fewest;
}

std::optional<int> cores_of_quota(std::istream& limit) {
  int64_t quota = 0, period = 0;
  if (!(limit >> quota >> period) || quota <= 0 || period <= 0) return std::nullopt;
  return static_cast<int>(std::min<int64_t>(divide_up(quota, period), kMostThreads));
}

}  // namespace nmt
