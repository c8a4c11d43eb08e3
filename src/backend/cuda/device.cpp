#include "backend/cuda/device.h"

#include "backend/cuda/unsuitable_device.h"

// What both implementations have in common.
namespace nmt::cuda {

DeviceInfo device_info(int index) {
  std::string why = "there is none";
  const auto all = devices(&why);
  if (all.empty()) throw UnsuitableDevice(fmt::format("device {}: {}", index, why));
  if (index < 0 || index >= std::ssize(all))
    throw UnsuitableDevice(fmt::format("there is no device {}: the last one is {}", index, all.size() - 1));
  return all[static_cast<size_t>(index)];
}

void refuse_launch(const char* kernel, const char* why) { fail("kernel {}: {}", kernel, why); }

}  // namespace nmt::cuda
