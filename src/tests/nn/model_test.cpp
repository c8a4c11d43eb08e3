// How models are read from files.
#include "nn/model.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <fstream>

#include "backend/cpu/kernels.h"
#include "base/error.h"
#include "io/safetensors.h"
#include "tests/complaint.h"
#include "tests/device.h"
#include "tests/nn/model_testing.h"
#include "tests/temp_folder.h"

using namespace nmt;
using namespace nmt::testing;

namespace {

// With values that bf16 holds.
std::unique_ptr<Model> make_model() {
  auto model = std::make_unique<Model>(small_config());
  model->parameters.allocate(false, host_backend());
  randomise(model->parameters, 1);
  for (float& value : model->parameters.values())
    value = std::bit_cast<float>(std::bit_cast<uint32_t>(value) & 0xffff0000);
  return model;
}

void check_equal(const Model& found, const Model& expected) {
  CHECK(std::ranges::equal(found.parameters.values(), expected.parameters.values()));
}

}  // namespace

TEST_CASE("a model is read where it lies in its file, as nmt writes it") {
  const TempFolder folder;
  const auto model = make_model();
  model->save(folder / "model", model->parameters.values());
  const auto device = test_device();
  const auto found = Model::load(folder / "model"),
             there = Model::load(folder / "model", device ? device : host_backend());
  for (const auto* loaded : {found.get(), there.get()}) {
    CHECK(loaded->file);
    check_equal(*loaded, *model);
    CHECK_NOTHROW(loaded->require_unchanged());
  }
  std::ofstream(folder / "model", std::ios::app) << "more";
  for (const auto* loaded : {found.get(), there.get()}) CHECK_THROWS_AS(loaded->require_unchanged(), Error);
}

TEST_CASE("a model's file may hold its tensors in any order") {
  const TempFolder folder;
  const auto model = make_model();
  ModelContent content = model->content(model->parameters.values());
  SECTION("from last to first") { std::ranges::reverse(content.tensors); }
  SECTION("two in each other's place") {
    const auto same_shape = [&](const NamedTensor& t) {
      return &t != &content.tensors[1] && t.shape == content.tensors[1].shape;
    };
    const auto other = std::ranges::find_if(content.tensors, same_shape);
    REQUIRE(other != content.tensors.end());
    std::swap(content.tensors[1], *other);
  }
  write_model(folder / "model", content);
  const auto found = Model::load(folder / "model");
  CHECK(!found->file);
  check_equal(*found, *model);
}

TEST_CASE("a model's file may hold bf16") {
  const TempFolder folder;
  const auto model = make_model();
  const ModelContent content = model->content(model->parameters.values());
  SafetensorsWriter writer(folder / "bf16");
  model->save(folder / "f32", model->parameters.values());
  const auto as_written = SafetensorsFile::open(folder / "f32");
  for (const auto& [key, value] : as_written.metadata()) writer.set_metadata(key, value);
  for (const NamedTensor& t : content.tensors) writer.declare(t.name, DType::kBF16, t.shape);
  for (const NamedTensor& t : content.tensors) {
    std::vector<uint16_t> bits(t.values.size());
    cpu::convert(DType::kF32, t.values.data(), DType::kBF16, bits.data(), std::ssize(bits));
    writer.write(t.name, std::as_bytes(std::span(bits)));
  }
  writer.commit();
  check_equal(*Model::load(folder / "bf16"), *model);
}

TEST_CASE("a model whose parameters do not fit its configuration is refused, before memory is taken for them") {
  const TempFolder folder;
  const auto model = make_model();
  ModelContent content = model->content(model->parameters.values());
  std::string expected;
  SECTION("of another shape") {
    NamedTensor& last = content.tensors.back();
    last.shape = {1};
    last.values = last.values.first(1);
    expected = last.name;
  }
  SECTION("missing") {
    expected = content.tensors.back().name;
    content.tensors.pop_back();
  }
  SECTION("of a configuration that asks for a terabyte") {
    ModelConfig huge = small_config();
    huge.dim_emb = 65536;
    huge.dim_ffn = 1 << 20;
    content.metadata[std::string(kConfigKey)] = huge.to_json();
    expected = "has the shape";
  }
  write_model(folder / "model", content);
  const std::string complaint = complaint_of([&] { Model::load(folder / "model"); });
  CHECK(complaint.starts_with(folder / "model"));
  CHECK(complaint.find(expected) != std::string::npos);
}
