#pragma once

#include <cstdint>

namespace nmt {

// The quotient, rounded up; a not negative, b positive.
constexpr int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The smallest multiple of `multiple` that is not less than `value`; signs as above.
constexpr int64_t round_up(int64_t value, int64_t multiple) { return divide_up(value, multiple) * multiple; }

// 100 * part / whole; 0 of nothing.
constexpr double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

}  // namespace nmt
