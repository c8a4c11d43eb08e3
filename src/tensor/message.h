#pragma once

#include <cstddef>

namespace nmt {

// What a backend tells the host without its waiting: send(), go on, and receive() when it is needed.
class Message {
 public:
  virtual ~Message() = default;
  // So many bytes, no more than it was made for: what lies there when the backend's earlier work is done.
  virtual void send(const void* from, size_t bytes) = 0;
  virtual const void* receive() = 0;  // waits till what was sent last is here
};

}  // namespace nmt
