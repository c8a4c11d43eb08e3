#pragma once

#include <cstddef>

namespace nmt {

// What a backend tells the host without its waiting: send(), go on, and receive() when it is needed.
class Message {
 public:
  virtual ~Message() = default;
  // What lies there when the backend's earlier work is done. Where there is no room for so many bytes, making it may
  // wait for all devices.
  virtual void send(const void* from, size_t bytes) = 0;
  virtual const void* receive() = 0;  // waits till what was sent last is here
};

}  // namespace nmt
