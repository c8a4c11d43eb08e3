#pragma once

#include <filesystem>
#include <istream>
#include <optional>
#include <string>
#include <vector>

#include "config/options.h"

namespace nmt {

// Declares --cpu-threads, the same in every tool: 0 stands for one thread a core that the process may run on.
Option& declare_threads(Options& options, int& threads, const std::string& help = "Threads");

// Declares --devices, the same in every tool that computes: where.
Option& declare_devices(Options& options, std::vector<std::string>& devices);

// How many threads `threads`, as read by declare_threads, asks for: at least 1.
int threads_or_all(int threads);

// How many cores the control groups leave that a process is in, `membership` being its /proc/PID/cgroup and `root`
// where their files are: the fewest of all groups from its own to the root. None where they limit nothing, or are of
// version 1.
std::optional<int> cores_of_groups(std::istream& membership, const std::filesystem::path& root);

// How many cores a control group's cpu.max leaves: "200000 100000", microseconds of each period, are two; a part of one
// counts as one. None where it begins with "max", or is something else. (Linux, admin-guide/cgroup-v2.rst.)
std::optional<int> cores_of_quota(std::istream& limit);

}  // namespace nmt
