#include "backend/cuda/emulation/fiber.h"

#include <sys/mman.h>

#include "base/error.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace nmt::cuda::emulation {
namespace {

using boost::context::detail::transfer_t;

constexpr size_t kPage = 4096;
#ifdef __SANITIZE_ADDRESS__
constexpr size_t kStack = 256 << 10;
#else
constexpr size_t kStack = 64 << 10;
#endif

}  // namespace

Fiber::Fiber(void (*entry)()) : entry_(entry), bytes_(kStack) {
  void* memory = mmap(nullptr, kPage + kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail("no memory for the stack of an emulated thread");
  mprotect(memory, kPage, PROT_NONE);
  stack_ = static_cast<std::byte*>(memory) + kPage;
  context_ = boost::context::detail::make_fcontext(stack_ + bytes_, bytes_, begin);
}

Fiber::~Fiber() {
  if (entry_ == nullptr) return;
#ifdef __SANITIZE_ADDRESS__
  ASAN_UNPOISON_MEMORY_REGION(stack_, bytes_);
#endif
  munmap(stack_ - kPage, kPage + bytes_);
}

void Fiber::switch_to(Fiber& to) {
  to_ = &to;
  void* note = nullptr;  // of the sanitizer, which must know where the stack is
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(&note, to.stack_, to.bytes_);
#endif
  arrive(boost::context::detail::jump_fcontext(to.context_, this), note);
}

void Fiber::begin(transfer_t from) { arrive(from, nullptr)->to_->entry_(); }

// On the fiber that goes on: notes where the other one stands, and returns that one.
Fiber* Fiber::arrive(transfer_t from, [[maybe_unused]] void* note) {
  auto* left = static_cast<Fiber*>(from.data);
  left->context_ = from.fctx;
#ifdef __SANITIZE_ADDRESS__
  const void* stack = nullptr;
  __sanitizer_finish_switch_fiber(note, &stack, &left->bytes_);
  left->stack_ = static_cast<std::byte*>(const_cast<void*>(stack));
#endif
  return left;
}

}  // namespace nmt::cuda::emulation
