#pragma once

namespace nmt {

// What a backend tells the host without its waiting: send(), go on, and receive() when it is needed.
class Message {
 public:
  virtual ~Message() = default;
  virtual void send(const void* from) = 0;  // what lies there when the backend's earlier work is done
  virtual const void* receive() = 0;        // waits till what was sent last is here
};

}  // namespace nmt
