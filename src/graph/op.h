#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "tensor/tensor.h"

namespace nmt {

class Backprop;
class Runtime;

// What an op gets to compute with. Outputs that accumulate (gradients of parameters) are added to, not overwritten.
struct Launch {
  Runtime& runtime;
  std::span<const Tensor> in, out;
  // As many bytes as the op's scratch(), on a device its cuda_scratch(), asked for; 64-byte aligned.
  std::byte* scratch;
};

#ifdef NMT_HAVE_CUDA
inline constexpr bool kHaveCuda = true;
#else
inline constexpr bool kHaveCuda = false;
#endif

// An op is a trivially copyable value with its attributes. It has a name, says what it makes and computes on the CPU.
// Optional members, found by name:
//   void cuda(const Launch&) const                       computes on a device; without, models are refused there
//   void backward(Backprop& b) const                     appends its gradient to the graph; ops without have none:
//                                                        those that are gradients, and those of decoding
//   int64_t scratch(std::span<const Spec> in) const      bytes of working memory of cpu()
//   int64_t cuda_scratch(std::span<const Spec> in) const the same of cuda()
//   int in_place() const                                 the input whose memory output 0 may take over
//   double flops(std::span<const Tensor> in) const       floating point operations of a run: a multiply-add is two
// cuda() begins kernels and does nothing else: a run may be recorded, to be begun again with the same arguments
// (Runtime::execute). So it takes no memory (but for copies of weights, which the runs before a recording have made),
// waits for nothing, and gives kernels no number that changes from run to run, but for what dropout draws (runs that
// draw are not recorded).
template <class T>
concept OpType = std::is_trivially_copyable_v<T> && sizeof(T) <= 64 &&
                 requires(const T& op, std::span<const Spec> in, const Launch& l) {
  { T::kName } -> std::convertible_to<std::string_view>;
  { op.infer(in) } -> std::same_as<std::vector<Spec>>;
  op.cpu(l);
  { op == op } -> std::convertible_to<bool>;
};

// An op of any type, by a table of its functions.
class Op {
 public:
  Op() = default;
  template <OpType T>
  Op(const T& op) : table_(&kTable<T>) {  // NOLINT: an op is an Op
    std::memcpy(storage_, &op, sizeof op);
  }

  explicit operator bool() const { return table_ != nullptr; }
  std::string_view name() const { return table_->name; }
  std::vector<Spec> infer(std::span<const Spec> in) const { return table_->infer(storage_, in); }
  void backward(Backprop& b) const { table_->backward(storage_, b); }
  void cpu(const Launch& launch) const { table_->cpu(storage_, launch); }
  void cuda(const Launch& launch) const { table_->cuda(storage_, launch); }
  bool has_cuda() const { return table_->has_cuda; }
  int64_t scratch(std::span<const Spec> in, bool on_host) const {
    return (on_host ? table_->scratch : table_->cuda_scratch)(storage_, in);
  }
  int in_place() const { return table_->in_place(storage_); }
  double flops(std::span<const Tensor> in) const { return table_->flops(storage_, in); }
  bool operator==(const Op& other) const {
    return table_ == other.table_ && (table_ == nullptr || table_->equal(storage_, other.storage_));
  }

  // The op as a T, or null where it is of another type.
  template <OpType T>
  const T* as() const {
    return table_ == &kTable<T> ? reinterpret_cast<const T*>(storage_) : nullptr;
  }

 private:
  struct Table {
    std::string_view name;
    std::vector<Spec> (*infer)(const void*, std::span<const Spec>);
    void (*backward)(const void*, Backprop&);
    void (*cpu)(const void*, const Launch&);
    void (*cuda)(const void*, const Launch&);
    bool has_cuda;
    int64_t (*scratch)(const void*, std::span<const Spec>);
    int64_t (*cuda_scratch)(const void*, std::span<const Spec>);
    int (*in_place)(const void*);
    double (*flops)(const void*, std::span<const Tensor>);
    bool (*equal)(const void*, const void*);
  };

  template <class T>
  static const T& cast(const void* op) {
    return *static_cast<const T*>(op);
  }

  template <class T>
  static constexpr bool kOnDevices = kHaveCuda&& requires(const T& op, const Launch& l) {
    op.cuda(l);
  };

  template <class T>
  static constexpr Table kTable = {
      T::kName,
      [](const void* op, std::span<const Spec> in) { return cast<T>(op).infer(in); },
      [](const void* op, Backprop& b) {
        if constexpr (requires { cast<T>(op).backward(b); })
          cast<T>(op).backward(b);
        else
          check(false, "{} has no gradient", T::kName);
      },
      [](const void* op, const Launch& l) { cast<T>(op).cpu(l); },
      [](const void* op, const Launch& l) {
        if constexpr (kOnDevices<T>)
          cast<T>(op).cuda(l);
        else
          check(false, "{}: not computed on devices", T::kName);
      },
      kOnDevices<T>,
      [](const void* op, std::span<const Spec> in) -> int64_t {
        if constexpr (requires { cast<T>(op).scratch(in); }) return cast<T>(op).scratch(in);
        return 0;
      },
      [](const void* op, std::span<const Spec> in) -> int64_t {
        if constexpr (kHaveCuda && requires { cast<T>(op).cuda_scratch(in); }) return cast<T>(op).cuda_scratch(in);
        return 0;
      },
      [](const void* op) {
        if constexpr (requires { cast<T>(op).in_place(); }) return cast<T>(op).in_place();
        return -1;
      },
      [](const void* op, std::span<const Tensor> in) -> double {
        if constexpr (requires { cast<T>(op).flops(in); }) return cast<T>(op).flops(in);
        return 0;
      },
      [](const void* a, const void* b) { return cast<T>(a) == cast<T>(b); },
  };

  const Table* table_ = nullptr;
  alignas(8) std::byte storage_[64];
};

}  // namespace nmt
