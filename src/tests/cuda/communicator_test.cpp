#include "backend/cuda/communicator.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <exception>
#include <thread>

#include "base/error.h"
#include "tests/cuda/device_testing.h"
#include "tests/variable.h"

using namespace nmt;
using namespace nmt::testing;

namespace {

// work(rank) for each device on a thread of its own; what each threw.
template <class Work>
std::vector<std::string> together(size_t devices, Work work) {
  std::vector<std::string> errors(devices);
  {
    std::vector<std::jthread> threads;
    for (size_t rank = 0; rank < devices; ++rank)
      threads.emplace_back([&, rank] {
        try {
          work(rank);
        } catch (const std::exception& error) {
          errors[rank] = error.what();
        }
      });
  }
  return errors;
}

// Whether x is a number of bfloat16.
bool in_bf16(float x) { return (std::bit_cast<uint32_t>(x) & 0xffff) == 0; }

}  // namespace

TEST_CASE("cuda: devices exchange what they have", "[device]") {
  const Variable emulated("NMT_EMULATED_DEVICES", "3");
  const auto n = static_cast<size_t>(GENERATE(1, 2, 3));
  if (cuda::devices().size() < n) {
    WARN("SKIPPED: '" << Catch::getResultCapture().getCurrentTestName() << "': there are not " << n << " devices");
    return;
  }
  std::vector<std::unique_ptr<cuda::Device>> devices;
  std::vector<cuda::Device*> pointers;
  for (size_t i = 0; i < n; ++i) {
    devices.push_back(std::make_unique<cuda::Device>(static_cast<int>(i)));
    pointers.push_back(devices.back().get());
  }
  const auto members = cuda::Communicator::connect(pointers);
  const size_t count = GENERATE(1, 65);

  SECTION("sums") {
    const DType sent = GENERATE(DType::kF32, DType::kBF16);
    std::vector<std::vector<float>> sums(n);
    std::vector<std::vector<double>> totals(n);
    const auto errors = together(n, [&](size_t rank) {
      cuda::Device& device = *devices[rank];
      std::vector<float> x(n * count);
      for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>((rank + 1) * (i + 1));
      const auto memory = upload(device, x);
      const auto all = upload(device, std::vector<double>{static_cast<double>(rank), 0.5});
      for (int again = 0; again < 3; ++again) {
        device.upload(memory.data(), x.data(), memory.bytes());
        members[rank]->reduce_scatter(static_cast<float*>(memory.data()), static_cast<int64_t>(count), sent);
        members[rank]->all_gather(static_cast<float*>(memory.data()), static_cast<int64_t>(count));
      }
      members[rank]->all_reduce(static_cast<double*>(all.data()), 2);
      sums[rank] = download<float>(device, memory);
      totals[rank] = download<double>(device, all);
    });
    const auto ranks = static_cast<float>(n * (n + 1) / 2);  // 1 + 2 + ... + n
    for (size_t rank = 0; rank < n; ++rank) {
      CHECK(errors[rank].empty());
      // In bf16 each of n parts and each sum are rounded by half of 2^-7 at most.
      const double rounding = sent == DType::kF32 ? 0 : static_cast<double>(n) * 0x1p-8;
      for (size_t i = 0; i < n * count; ++i)
        CHECK(std::fabs(sums[rank][i] - ranks * static_cast<float>(i + 1)) <= rounding * sums[rank][i]);
      if (sent == DType::kBF16) CHECK(std::ranges::all_of(sums[rank], [](float x) { return in_bf16(x); }));
      CHECK(totals[rank] == std::vector<double>{static_cast<double>(n * (n - 1) / 2), 0.5 * static_cast<double>(n)});
    }
  }
  SECTION("one fails, and the others do not wait for it") {
    if (n == 1) return;
    const auto errors = together(n, [&](size_t rank) {
      if (rank == 0) {
        members[rank]->abort();
        return;
      }
      const auto memory = upload(*devices[rank], std::vector<float>(n * count));
      members[rank]->all_gather(static_cast<float*>(memory.data()), static_cast<int64_t>(count));
      devices[rank]->synchronize();
      members[rank]->all_gather(static_cast<float*>(memory.data()), static_cast<int64_t>(count));
    });
    CHECK(errors[1].find("another device has failed") != std::string::npos);
  }
}

#ifdef NMT_CUDA_EMULATION
TEST_CASE("cuda emulation: devices that make different calls are told so", "[device]") {
  const Variable emulated("NMT_EMULATED_DEVICES", "2");
  cuda::Device zero(0), one(1);
  const std::vector<cuda::Device*> devices = {&zero, &one};
  const auto members = cuda::Communicator::connect(devices);
  const auto errors = together(2, [&](size_t rank) {
    const auto memory = upload(*devices[rank], std::vector<float>(8));
    auto* data = static_cast<float*>(memory.data());
    rank == 0 ? members[0]->all_gather(data, 4) : members[1]->reduce_scatter(data, 4, DType::kF32);
  });
  CHECK((errors[0] + errors[1]).find("others are ") != std::string::npos);
  const auto small = upload(zero, std::vector<float>(3));
  CHECK_THROWS_AS(members[0]->all_gather(static_cast<float*>(small.data()), 2), Error);
}
#endif
