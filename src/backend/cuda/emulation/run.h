#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <vector>

#include "backend/cuda/emulation/vectors.h"

struct CUstream_st;

// How a kernel runs in this process: block after block, and the threads of a block in turns, each till it waits for
// others. Every host thread runs its own kernels. A kernel cannot wait for another block.
//
// Mistakes that a device answers with wrong numbers or not at all are an Error here that names the kernel: threads that
// wait for ever, lanes that are missing where a warp acts together, pointers to others' memory (see check_argument),
// writes outside of memory. Memory that nobody has written is NaN.
//
// Environment variables: NMT_EMULATED_DEVICES, how many devices there are (0 to 64; 1 unless given);
// NMT_EMULATED_MEMORY, the megabytes of each (2048); NMT_EMULATED_ORDER, the seed of set_thread_order() (0).
namespace nmt::cuda::emulation {

// body() once for each thread; returns when all have returned. Error where CUDA would refuse the launch, or a thread
// throws.
void run(const char* kernel, dim3 blocks, int threads, size_t shared_bytes, const std::function<void()>& body);

// Work that is begun on this thread's device: done at once, or, in record(), kept.
void begin(std::function<void()> work);
// What `work` begins, in its order; none of it is done.
std::vector<std::function<void()>> record(const std::function<void()>& work);
bool is_recording();
// Error where this thread records: that cannot be recorded.
void check_not_recording(const char* action);

// From now on: 0: blocks one after the other, and of the threads that can run always the first; else an order that the
// seed chooses, another one at each barrier. A kernel whose results change has a race.
void set_thread_order(uint64_t seed);

// The stream of the device that this thread of the host computes on; and what refuses launches on another's (streams
// that are no device's have none).
void set_current(CUstream_st* stream);
void check_current(const char* kernel, const CUstream_st* stream);

// Refuses a launch on a device's stream with a pointer to what is not its memory. Of a structure that holds pointers
// each word is looked at: it must not point to another device's.
void check_argument(const char* kernel, const CUstream_st* stream, const void* pointer);
void check_words(const char* kernel, const CUstream_st* stream, const void* structure, size_t bytes);
template <class T>
void check_argument(const char* kernel, const CUstream_st* stream, const T& argument) {
  if constexpr (std::is_pointer_v<T>)
    check_argument(kernel, stream, static_cast<const void*>(argument));
  else if constexpr (std::is_class_v<T>)
    check_words(kernel, stream, &argument, sizeof argument);
}

// The launch-th kernel from now, of any thread, fails once, as on a broken device; 0: none does.
void fail_launch(int64_t launch);

// ---- for kernels ----------------------------------------------------------------------------------------------------

// Where the running thread is. (A pointer: GCC 12's sanitizer takes the address of a thread_local variable for null.)
struct Place {
  uint3 thread, block;
  dim3 threads, blocks;
};
extern constinit thread_local const Place* place;

// The block's shared memory, 128-byte aligned, and its size.
void* shared_memory();
size_t shared_bytes();

// Waits till all threads of the block that have not returned are here.
void sync_block();

// Waits till all lanes of the mask are here, with the same operation and mask; the last one calls collect() with what
// each lane gave as its `values`, then all go on.
using Collect = void (*)(unsigned mask, void* const* lanes);
void sync_warp(const char* operation, unsigned mask, void* values, Collect collect);

// Begins a copy of 16 bytes, which is done when the thread waits for it (or, as the seed says, at once).
// end_copy_group() makes those begun since the last one a group; finish_copy_groups(but) waits for all groups but the
// newest few.
void begin_copy(void* to, const void* from);
void end_copy_group();
void finish_copy_groups(int but);

// Error that names the kernel, the block and the thread too.
[[noreturn]] void fail_in_thread(const char* operation, const char* what);

}  // namespace nmt::cuda::emulation
