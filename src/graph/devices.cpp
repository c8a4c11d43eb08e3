// The only place that knows whether nmt was built with CUDA.
#include <charconv>

#include "base/error.h"
#include "graph/backend.h"
#ifdef NMT_HAVE_CUDA
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
  int index = -1;
  const char* end = device.data() + device.size();
  const auto [rest, error] = std::from_chars(device.data(), end, index);
  require(error == std::errc() && rest == end && index >= 0, "{} is no device: \"cpu\" or a number is one", device);
#ifdef NMT_HAVE_CUDA
  return std::make_shared<CudaBackend>(index);
#else
  user_error("device {}: this nmt was built without CUDA", device);
#endif
}

}  // namespace nmt
