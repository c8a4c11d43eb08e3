#pragma once

#include <string>
#include <vector>

#include "config/options.h"

namespace nmt {

// Declares --cpu-threads, the same in every tool: 0 stands for one thread a core that the process may run on.
Option& declare_threads(Options& options, int& threads);

// Declares --devices, the same in every tool that computes: where.
Option& declare_devices(Options& options, std::vector<std::string>& devices);

// How many threads `threads`, as read by declare_threads, asks for: at least 1.
int threads_or_all(int threads);

}  // namespace nmt
