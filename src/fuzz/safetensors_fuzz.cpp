// Any bytes either parse into tensors that lie inside them, or are a UserError.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "base/error.h"
#include "fuzz/fuzz.h"
#include "io/safetensors.h"

std::vector<std::string> examples() {
  const auto file = [](std::string header, size_t data) {
    header.resize((header.size() + 7) / 8 * 8, ' ');
    std::string bytes;
    for (size_t i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(header.size() >> 8 * i));
    return bytes + header + std::string(data, '\1');
  };
  return {
      file("{}", 0), file(R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})", 24),
      file(
          R"({"__metadata__":{"k":"v \u00e9"},"w":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]},)"
          R"("v":{"dtype":"U8","shape":[3],"data_offsets":[8,11]},"e":{"dtype":"I64","shape":[0,5],"data_offsets":[0,0]}})",
          11)};
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto content = nmt::parse_safetensors("fuzz", std::as_bytes(std::span(data, size)));
    size_t bytes = 0;
    for (const auto& tensor : content.tensors) {
      if (static_cast<size_t>(tensor.shape.elements()) * size_of(tensor.dtype) != tensor.data.size()) std::abort();
      for (const auto byte : tensor.data) bytes += byte == std::byte{1} ? 2 : 1;
    }
    if (bytes > 2 * size) std::abort();
  } catch (const nmt::UserError&) {
  }
  return 0;
}
