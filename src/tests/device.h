#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/log.h"
#include "graph/backend.h"
#ifdef NMT_HAVE_CUDA
#include "backend/cuda/device.h"
#endif
#ifdef NMT_CUDA_EMULATION
#include "backend/cuda/emulation/emulation.h"
#endif

namespace nmt::testing {

// The device that tests compute on beside the host; null, and said so once, where there is none.
inline std::shared_ptr<Backend> test_device([[maybe_unused]] const std::string& number = "0") {
#ifdef NMT_HAVE_CUDA
  if (cuda::devices().size() > std::stoul(number)) {
    // Never destroyed: libraries that they use end before what was made first.
    static auto& devices = *new std::map<std::string, std::shared_ptr<Backend>>;
    auto& device = devices[number];
    if (device == nullptr) device = backend_of(number);
    return device;
  }
#endif
  static std::once_flag said;
  std::call_once(said, [] { log::warn("SKIPPED: devices: there is none, or nmt was built without CUDA"); });
  return nullptr;
}

// Other orders in which an emulated device runs its threads: what they compute must not depend on it. On a real device,
// and with 0, its own order.
inline void set_thread_order([[maybe_unused]] uint64_t seed) {
#ifdef NMT_CUDA_EMULATION
  cuda::emulation::set_thread_order(seed);
#endif
}

}  // namespace nmt::testing
