#pragma once

#include <cstddef>

#include <boost/context/detail/fcontext.hpp>

namespace nmt::cuda::emulation {

// A stack, and where on it the execution stands.
class Fiber {
 public:
  Fiber() = default;                // the calling thread's own stack
  explicit Fiber(void (*entry)());  // a new one, above a page that nobody may touch; entry() must not return
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber();

  // Leaves this fiber, the running one, for another; returns when somebody switches back.
  void switch_to(Fiber& to);

 private:
  static void begin(boost::context::detail::transfer_t from);
  static Fiber* arrive(boost::context::detail::transfer_t from, void* note);

  boost::context::detail::fcontext_t context_ = nullptr;
  void (*entry_)() = nullptr;
  Fiber* to_ = nullptr;         // where it switched to
  std::byte* stack_ = nullptr;  // its lowest byte
  size_t bytes_ = 0;
};

}  // namespace nmt::cuda::emulation
