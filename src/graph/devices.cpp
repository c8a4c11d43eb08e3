// Backends by their names, in builds with CUDA and without.
#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "base/log.h"
#include "base/parse_number.h"
#include "graph/backend.h"
#ifdef NMT_HAVE_CUDA
#include "backend/cuda/unsuitable_device.h"
#include "graph/backend_cuda.h"
#endif

namespace nmt {

std::string device_list() {
#ifdef NMT_HAVE_CUDA
  std::string why = "this machine has none", text;
  const auto all = cuda::devices(&why);
  for (size_t i = 0; i < all.size(); ++i)
    text += fmt::format("{}: {}, {} MB, compute capability {}.{}\n", i, all[i].name, all[i].memory >> 20, all[i].major,
                        all[i].minor);
  return all.empty() ? fmt::format("no devices: {}\n", why) : text;
#else
  return "no devices: this nmt was built without CUDA\n";
#endif
}

std::shared_ptr<Backend> backend_of(const std::string& device) {
  if (device == "cpu") return host_backend();
  const auto index = parse_number<int>(device);
  require(index && *index >= 0 && device == std::to_string(*index), "{} is no device: cpu, auto or a number is one",
          device);
#ifdef NMT_HAVE_CUDA
  return std::make_shared<CudaBackend>(*index);
#else
  user_error("device {}: this nmt was built without CUDA", device);
#endif
}

namespace {

std::shared_ptr<Backend> first_device() {
#ifdef NMT_HAVE_CUDA
  try {
    return backend_of("0");
  } catch (const cuda::UnsuitableDevice& error) {
    log::info("computing on the CPU: {}", error.what());
  }
#endif
  return host_backend();
}

}  // namespace

std::vector<std::shared_ptr<Backend>> backends_of(const std::vector<std::string>& devices) {
  if (devices.size() == 1 && devices[0] == "auto") return {first_device()};
  std::vector<std::shared_ptr<Backend>> backends;
  for (const auto& device : devices) {
    require(devices.size() == 1 || (device != "cpu" && device != "auto"), "--devices: {} stands alone", device);
    require(std::ranges::count(devices, device) == 1, "--devices: {} is given twice", device);
    backends.push_back(backend_of(device));
  }
#ifdef NMT_HAVE_CUDA
  const auto of_one_kind = [](const std::shared_ptr<Backend>& a, const std::shared_ptr<Backend>& b) {
    const auto& one = static_cast<CudaBackend&>(*a).device().info();
    const auto& other = static_cast<CudaBackend&>(*b).device().info();
    // Some of a device's memory may be out of use.
    return one.major == other.major && one.minor == other.minor &&
           std::abs(one.memory - other.memory) <= one.memory / 16;
  };
  // Each gets as much to do as the others, so that all would wait for the slowest.
  for (const auto& backend : backends)
    require(devices.size() == 1 || of_one_kind(backends.front(), backend),
            "--devices: {} and {} are of different kinds, and would wait for each other", backends.front()->name(),
            backend->name());
#endif
  return backends;
}

std::string names_of(std::span<const std::shared_ptr<Backend>> backends) {
  std::string names;
  for (const auto& backend : backends) names += (names.empty() ? "" : "; ") + backend->name();
  return names;
}

DType compute_type(const std::string& precision, std::span<const std::shared_ptr<Backend>> backends,
                   bool bf16_on_host) {
  const bool on_host = backends.front()->on_host();
  if (precision == "tf32")
    for (const auto& backend : backends) backend->use_tf32();
  if (precision == "f16") return DType::kF16;
  const bool automatic = precision == "auto" && (!on_host || bf16_on_host);
  return precision == "bf16" || automatic ? DType::kBF16 : DType::kF32;
}

std::vector<std::unique_ptr<cuda::Communicator>> connect(
    [[maybe_unused]] std::span<const std::shared_ptr<Backend>> backends) {
#ifdef NMT_HAVE_CUDA
  std::vector<cuda::Device*> devices;
  for (const auto& backend : backends) devices.push_back(&static_cast<CudaBackend&>(*backend).device());
  return cuda::Communicator::connect(devices);
#else
  fail("there are no devices to connect: this nmt was built without CUDA");
#endif
}

}  // namespace nmt
