#pragma once

#include "base/error.h"

namespace nmt::cuda {

// There is no such device, or it cannot compute what nmt asks for. (Not in device.h, which kernels include: nvcc does
// not compile fmt.)
class UnsuitableDevice : public UserError {
 public:
  using UserError::UserError;
};

}  // namespace nmt::cuda
