#pragma once

#include "config/options.h"

namespace nmt {

// Declares --cpu-threads, the same in every tool: 0 (best the default) stands for one thread a core.
Option& declare_threads(Options& options, int& threads);

// How many threads `threads`, as read by declare_threads, asks for: at least 1.
int threads_or_all(int threads);

}  // namespace nmt
