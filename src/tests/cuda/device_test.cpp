#include "backend/cuda/device.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/catch.h"
#include "tests/cuda/device_testing.h"
#include "tests/variable.h"

using namespace nmt;
using namespace nmt::cuda;
using namespace nmt::testing;

TEST_CASE("device: what is uploaded is copied, zeroed and downloaded") {
  const auto device = test_device();
  if (device == nullptr) return;
  const size_t bytes = GENERATE(1, 5, 256, 12345, 9 << 20);
  const DeviceMemory memory(*device, bytes), other(*device, bytes);
  CHECK(reinterpret_cast<uintptr_t>(memory.data()) % 256 == 0);
  CHECK(device->used() >= static_cast<int64_t>(2 * bytes));
  CHECK(device->peak() >= device->used());
  std::vector<uint8_t> from(bytes), to(bytes);
  for (size_t i = 0; i < bytes; ++i) from[i] = static_cast<uint8_t>(1 + i % 7);
  device->upload(memory.data(), from.data(), bytes);
  device->copy(other.data(), memory.data(), bytes);
  device->zero(memory.data(), bytes - 1);
  device->download(to.data(), other.data(), bytes);
  CHECK(to == from);
  device->download(to.data(), memory.data(), bytes);
  CHECK(to.back() == from.back());
  to.back() = 0;
  CHECK(to == std::vector<uint8_t>(bytes));
  CHECK(DeviceMemory(*device, 0).data() == nullptr);
  device->free(nullptr);
}

TEST_CASE("device: what is uploaded may change at once, however much is under way") {
  const auto device = test_device();
  if (device == nullptr) return;
  constexpr int kUploads = 30;
  const size_t n = 100000;
  const DeviceMemory memory(*device, kUploads * n * sizeof(int));
  std::vector<int> values(n), all(kUploads * n);
  for (int i = 0; i < kUploads; ++i) {
    std::iota(values.begin(), values.end(), i);
    device->upload(static_cast<int*>(memory.data()) + static_cast<size_t>(i) * n, values.data(), n * sizeof(int));
  }
  device->download(all.data(), memory.data(), memory.bytes());
  bool equal = true;
  for (size_t i = 0; i < all.size(); ++i) equal = equal && all[i] == static_cast<int>(i / n + i % n);
  CHECK(equal);
}

TEST_CASE("device: a message is what was there when it was sent") {
  const auto device = test_device();
  if (device == nullptr) return;
  const DeviceMemory memory(*device, 5000);
  const auto first = device->message(4), second = device->message(4);
  for (uint8_t round = 1; round < 4; ++round) {
    const std::vector<uint8_t> here(5000, round), later(5000, static_cast<uint8_t>(round + 100));
    device->upload(memory.data(), here.data(), here.size());
    first->send(memory.data(), here.size());  // more than its room at first
    device->upload(memory.data(), later.data(), later.size());
    second->send(memory.data(), 3);
    CHECK(std::memcmp(first->receive(), here.data(), here.size()) == 0);
    CHECK(std::memcmp(second->receive(), later.data(), 3) == 0);
  }
}

TEST_CASE("device: what is recorded is done when it is begun") {
  const auto device = test_device();
  if (device == nullptr) return;
  const DeviceMemory a(*device, 3), b(*device, 3);
  auto *to = static_cast<std::byte*>(a.data()), *from = static_cast<std::byte*>(b.data());
  const auto bytes = [&] {
    std::byte read[3];
    device->download(read, to, 3);
    std::vector<int> values;
    for (const std::byte value : read) values.push_back(std::to_integer<int>(value));
    return values;
  };
  device->upload(to, "\5\5\5", 3);
  device->upload(from, "\7\7\7", 3);
  const auto recording = device->record([&] {
    device->copy(to, from, 3);
    device->zero(to + 2, 1);
  });
  CHECK(bytes() == std::vector{5, 5, 5});
  recording->begin();
  CHECK(bytes() == std::vector{7, 7, 0});
  device->upload(from, "\3\3\3", 3);
  recording->begin();
  CHECK(bytes() == std::vector{3, 3, 0});
  // What fails while it is recorded is thrown, and all is as before.
  CHECK_THROWS_WITH(device->record([&] {
    device->zero(to, 3);
    throw Error("in the midst");
  }),
                    "in the midst");
  CHECK(bytes() == std::vector{3, 3, 0});
  device->zero(to, 3);
  CHECK(bytes() == std::vector{0, 0, 0});
}

#ifdef NMT_CUDA_EMULATION

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

using Catch::Matchers::Contains;

namespace {

__global__ void write_byte(std::byte* at) { *at = std::byte{1}; }

struct Target {
  int number;
  std::byte* at;
};
__global__ void write_to(Target target) { *target.at = std::byte{1}; }

}  // namespace

TEST_CASE("device: as many as the environment says", "[device]") {
  CHECK(devices().size() == 1);
  {
    const Variable two("NMT_EMULATED_DEVICES", "2");
    CHECK(devices().size() == 2);
    CHECK(Device(1).info().name == "emulated device 1");
    CHECK_THROWS_AS(Device(2), UserError);
    CHECK_THROWS_AS(Device(-1), UserError);
  }
  {
    const Variable none("NMT_EMULATED_DEVICES", "0");
    std::string why;
    CHECK(devices(&why).empty());
    CHECK(why == "NMT_EMULATED_DEVICES is 0");
    CHECK_THROWS_AS(Device(0), UserError);
  }
  for (const char* wrong : {"", "two", "-1", "1.5", "65"}) {
    const Variable variable("NMT_EMULATED_DEVICES", wrong);
    CHECK_THROWS_AS(devices(), UserError);
  }
}

TEST_CASE("device: memory is counted to the byte, and unset at first", "[device]") {
  Device device(0);
  {
    const DeviceMemory memory(device, 12345), other(device, 5);
    CHECK(device.used() == 12350);
  }
  CHECK(device.used() == 0);
  const DeviceMemory unset(device, 400);
  std::vector<float> values(100);
  device.download(values.data(), unset.data(), 400);
  for (const float value : values) CHECK(std::isnan(value));
}

TEST_CASE("device: memory has an end", "[device]") {
  const Variable small("NMT_EMULATED_MEMORY", "10");
  Device device(0), same(0);
  CHECK(device.info().memory == 10 << 20);
  const DeviceMemory some(device, 3 << 20);
  CHECK_THROWS_WITH(device.allocate((7 << 20) + 1), "out of memory on device 0: 8 MB are needed, 7 MB are free");
  CHECK_THROWS_AS(same.allocate(SIZE_MAX), Error);
  const DeviceMemory rest(same, 7 << 20);
  CHECK_THROWS_AS(device.allocate(1), Error);
  const Variable smaller("NMT_EMULATED_MEMORY", "5");
  Device shrunk(0);
  CHECK_THROWS_WITH(shrunk.allocate(1), "out of memory on device 0: 1 MB are needed, 0 MB are free");
}

TEST_CASE("device: what is not its memory is refused", "[device]") {
  Device device(0), other(0);
  const DeviceMemory memory(device, 100);
  auto* data = static_cast<std::byte*>(memory.data());
  std::byte host[200]{};
  CHECK_THROWS_WITH(device.upload(data, host, 101), "upload: 101 bytes that are not allocated on the device");
  CHECK_THROWS_AS(device.upload(data + 1, host, 100), Error);
  CHECK_THROWS_AS(device.upload(data - 1, host, 1), Error);
  CHECK_THROWS_AS(device.upload(host, host + 100, 10), Error);
  CHECK_THROWS_AS(device.download(host, data + 100, 1), Error);
  CHECK_THROWS_AS(device.copy(data, host, 1), Error);
  CHECK_THROWS_AS(device.copy(host, data, 1), Error);
  CHECK_THROWS_AS(device.zero(data + 50, 51), Error);
  CHECK_THROWS_AS(other.zero(data, 1), Error);
  CHECK_THROWS_AS(device.free(data + 1), Error);
  CHECK_THROWS_AS(device.free(host), Error);
  CHECK_THROWS_AS(other.free(data), Error);
}

TEST_CASE("device: kernels are given its memory alone", "[device]") {
  const Variable two("NMT_EMULATED_DEVICES", "2");
  Device other(1), device(0);
  const DeviceMemory memory(device, 100), foreign(other, 100);
  device.make_current();
  const auto begin = [&](void* data) {
    launch("write", device.stream(), {.threads = 1}, write_byte, static_cast<std::byte*>(data));
  };
  const auto begin_with = [&](void* data) {
    launch("write too", device.stream(), {.threads = 1}, write_to, Target{1, static_cast<std::byte*>(data)});
  };
  std::byte host{};
  CHECK_NOTHROW(begin(memory.data()));
  CHECK_NOTHROW(begin_with(memory.data()));
  CHECK_THROWS_WITH(begin(&host), "kernel write: is given a pointer to what is no memory of a device");
  CHECK_THROWS_WITH(begin(foreign.data()), "kernel write: on device 0 is given a pointer to memory of device 1");
  CHECK_THROWS_WITH(begin_with(foreign.data()),
                    "kernel write too: on device 0 is given a pointer to memory of device 1");
}

TEST_CASE("device: what goes to the host or comes from it, or takes memory, is not recorded", "[device]") {
  Device device(0);
  const DeviceMemory memory(device, 1);
  std::byte host{};
  for (const std::function<void()>& work : std::initializer_list<std::function<void()>>{
           [&] { device.download(&host, memory.data(), 1); }, [&] { device.upload(memory.data(), &host, 1); },
           [&] { device.allocate(1); }, [&] { device.synchronize(); }, [&] { device.record([] {}); }})
    CHECK_THROWS_WITH(device.record(work), Contains("cannot be recorded"));
}

TEST_CASE("device: kernels are recorded, too", "[device]") {
  Device device(0);
  const DeviceMemory memory(device, 2);
  auto* to = static_cast<std::byte*>(memory.data());
  device.zero(to, 2);
  const auto recording =
      device.record([&] { launch("write_byte", device.stream(), {.threads = 1}, write_byte, to + 1); });
  uint8_t bytes[2];
  for (const uint8_t expected : {0, 1}) {
    device.download(bytes, to, 2);
    CHECK((bytes[0] == 0 && bytes[1] == expected));
    recording->begin();
  }
}

TEST_CASE("device: writes outside of its memory are found", "[device]") {
  Device device(0);
  for (const int at : {-1, -1000, 77, 1000}) {
    auto* data = static_cast<std::byte*>(device.allocate(77));
    CHECK_NOTHROW(launch("inside", nullptr, {.threads = 1}, write_byte, data + 76));
#ifdef __SANITIZE_ADDRESS__
    CHECK(__asan_address_is_poisoned(data + at));
    device.free(data);
    CHECK(__asan_address_is_poisoned(data));
#else
    CHECK_THROWS_WITH(launch("stray", nullptr, {.threads = 1}, write_byte, data + at),
                      "kernel stray: something was written outside of 77 bytes of device memory");
    data[at] = std::byte{};
    CHECK_THROWS_WITH(device.free(data), "something was written outside of 77 bytes of device memory");
#endif
    CHECK(device.used() == 0);
  }
}
#endif
