#pragma once

#include <chrono>

namespace nmt {

// Seconds since some time before the program began.
inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace nmt
