#pragma once

// CUDA's vectors, with CUDA's alignment.
// NOLINTBEGIN: the names are CUDA's
struct uint3 {
  unsigned x, y, z;
};

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
// NOLINTEND
