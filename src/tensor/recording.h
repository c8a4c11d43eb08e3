#pragma once

namespace nmt {

// Work of a backend that can be begun again as a whole: the same kernels with the same arguments, at the cost of one.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual void begin() = 0;
};

}  // namespace nmt
