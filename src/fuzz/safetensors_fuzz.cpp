// A libFuzzer target, built by hand:
//   clang++ -std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined -Isrc -o safetensors_fuzz
//     src/fuzz/safetensors_fuzz.cpp src/io/{safetensors,mapped_file}.cpp src/base/{files,line_reader,utf8}.cpp
//     -lfmt -lboost_iostreams -lzstd
// Any input either parses into tensors that lie inside it, or is a UserError.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "base/error.h"
#include "io/safetensors.h"

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
