#pragma once

#include <cstdint>

namespace nmt {

// A random order of 0 .. n-1 that takes no memory and gives any position at once: a Feistel network with Philox as its
// round function (Luby and Rackoff 1988), walked along its cycle until the value is below n (Black and Rogaway 2002,
// "Ciphers with Arbitrary Finite Domains", section 3). Equal n, seed and stream give the same order everywhere.
class Permutation {
 public:
  Permutation(uint64_t n, uint64_t seed, uint64_t stream);

  uint64_t operator()(uint64_t i) const;  // i < n

 private:
  uint64_t n_, seed_, stream_;
  int left_bits_, right_bits_;
};

}  // namespace nmt
