#pragma once

#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "base/parse_number.h"

namespace nmt::cuda::emulation {

// The number that an environment variable gives; UserError where it is none from 0 to `most`.
inline int64_t environment(const char* name, int64_t otherwise, int64_t most) {
  const char* text = std::getenv(name);
  if (text == nullptr) return otherwise;
  const auto value = parse_number<int64_t>(text);
  require(value && *value >= 0 && *value <= most, "environment variable {}: '{}' is no number from 0 to {}", name, text,
          most);
  return *value;
}

}  // namespace nmt::cuda::emulation
