// Which devices a program computes on, and in which type.
#include "base/error.h"
#include "graph/backend.h"
#include "tests/catch.h"
#include "tests/complaint.h"
#include "tests/device.h"
#include "tests/variable.h"

using namespace nmt;
using namespace nmt::testing;

TEST_CASE("devices: the host stands alone, and no device twice") {
  CHECK(backends_of({"cpu"}).size() == 1);
  CHECK(backends_of({"cpu"}).front()->on_host());
  CHECK(complaint_of([] { backends_of({"cpu", "0"}); }) == "--devices: cpu stands alone");
  CHECK(complaint_of([] { backends_of({"auto", "0"}); }) == "--devices: auto stands alone");
  CHECK_THROWS_AS(backends_of({"99"}), UserError);
  CHECK_THROWS_AS(backends_of({"gpu"}), UserError);
}

TEST_CASE("devices: the host computes in float32 unless bf16 is fast there, too") {
  const auto host = backends_of({"cpu"});
  CHECK(compute_type("auto", host, false) == DType::kF32);
  CHECK(compute_type("auto", host, true) == DType::kBF16);
  CHECK(compute_type("f32", host, true) == DType::kF32);
  CHECK(compute_type("bf16", host, false) == DType::kBF16);
  CHECK_THROWS_AS(compute_type("tf32", host, false), UserError);
}

TEST_CASE("devices: a device is taken where there is one, and computes in bf16") {
  if (test_device() == nullptr) return;
  const auto automatic = backends_of({"auto"});
  REQUIRE(automatic.size() == 1);
  CHECK(!automatic.front()->on_host());
  CHECK(compute_type("auto", automatic, false) == DType::kBF16);
  CHECK(compute_type("f16", automatic, false) == DType::kF16);
  CHECK(compute_type("tf32", automatic, false) == DType::kF32);
  CHECK(device_list().starts_with("0: "));
  CHECK_THROWS_AS(backends_of({"0", "0"}), UserError);
}

#ifdef NMT_CUDA_EMULATION
TEST_CASE("devices: the host is taken where there is none, several where they are named") {
  {
    const Variable none("NMT_EMULATED_DEVICES", "0");
    CHECK(backends_of({"auto"}).front()->on_host());
    CHECK(device_list().find("no devices") == 0);
  }
  const Variable two("NMT_EMULATED_DEVICES", "2");
  const auto backends = backends_of({"1", "0"});
  REQUIRE(backends.size() == 2);
  CHECK(backends[0]->name() != backends[1]->name());
  CHECK(backends[0]->name().starts_with("device 1"));
}
#endif
