#pragma once

#include <cstdint>

namespace nmt {

// The smallest multiple of `multiple` that is not less than `value`; both not negative.
constexpr int64_t round_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

}  // namespace nmt
