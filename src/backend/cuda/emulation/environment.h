#pragma once

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/error.h"

namespace nmt::cuda::emulation {

// The number that an environment variable gives; UserError where it is none from 0 to `most`.
inline int64_t environment(const char* name, int64_t otherwise, int64_t most) {
  const char* text = std::getenv(name);
  if (text == nullptr) return otherwise;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text, text + std::strlen(text), value);
  require(error == std::errc() && *end == 0 && value >= 0 && value <= most,
          "environment variable {}: '{}' is no number from 0 to {}", name, text, most);
  return value;
}

}  // namespace nmt::cuda::emulation
