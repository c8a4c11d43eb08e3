#include "io/model_file.h"

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <vector>

#include "base/error.h"
#include "io/floats.h"
#include "io/training_files.h"
#include "tests/catch.h"
#include "tests/complaint.h"
#include "tests/temp_folder.h"

using namespace nmt;
using nmt::testing::complaint_of;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

}  // namespace

TEST_CASE("A model file holds configuration, vocabularies and parameters") {
  TempFolder folder;
  const std::string path = folder / "m.safetensors", vocabulary("spm\0\xFF bytes", 11);
  const std::vector<float> w = {1, -2, 3.5f, -0.0f, 1e-42f, 3e38f}, m = {0, 1};
  const bool shared = GENERATE(true, false);
  write_model(path, {.metadata = {{"nmt.config", R"({"dim-emb":2})"}, {"nmt.progress", "{}"}},
                     .source_vocabulary = vocabulary,
                     .target_vocabulary = shared ? vocabulary : "other",
                     .tensors = {{"w", {2, 3}, w}, {"adam.m.w", {2}, m}, {"ema.w", {2}, m}, {"adam.v.w", {2}, m}}});
  const auto model = ModelFile::open(path);
  CHECK(model.config() == R"({"dim-emb":2})");
  CHECK(*model.metadata("nmt.format") == "1");
  CHECK(*model.metadata("nmt.progress") == "{}");
  CHECK(model.metadata("other") == nullptr);
  CHECK(model.has_vocabulary());
  CHECK(model.shared_vocabulary() == shared);
  CHECK(model.source_vocabulary() == vocabulary);
  CHECK(model.target_vocabulary() == (shared ? vocabulary : "other"));

  std::vector<float> read(6);
  model.read("w", {2, 3}, read);
  for (size_t i = 0; i < w.size(); ++i) CHECK(std::bit_cast<uint32_t>(read[i]) == std::bit_cast<uint32_t>(w[i]));
  CHECK(complaint_of([&] {
          model.read("w", {3, 2}, read);
        }) == path + ": parameter w has the shape [2, 3], [3, 2] is expected");
  CHECK(complaint_of([&] { model.read("v", {3, 2}, read); }) == path + ": parameter v is missing");
}

TEST_CASE("NaN and infinite parameters are found, wherever they are") {
  const float bad = GENERATE(values<float>({kInfinity, -kInfinity, std::nanf(""), -std::nanf("1")}));
  std::vector<float> numbers(10'000, 3e38f);
  CHECK(first_not_finite(DType::kF32, std::as_bytes(std::span(numbers))) == -1);
  for (const size_t at : {size_t{0}, size_t{1}, size_t{4095}, size_t{4096}, size_t{9999}}) {
    auto damaged = numbers;
    damaged[at] = bad;
    CHECK(first_not_finite(DType::kF32, std::as_bytes(std::span(damaged))) == static_cast<int64_t>(at));
    damaged.back() = bad;
    CHECK(first_not_finite(DType::kF32, std::as_bytes(std::span(damaged))) == static_cast<int64_t>(at));
  }
  CHECK(first_not_finite(DType::kF32, {}) == -1);

  TempFolder folder;
  numbers[5000] = bad;
  write_model(folder / "m", {.metadata = {{"nmt.config", "{}"}},
                             .source_vocabulary = {},
                             .target_vocabulary = {},
                             .tensors = {{"w", {10'000}, numbers}}});
  const auto model = ModelFile::open(folder / "m");
  CHECK(complaint_of([&] { model.read("w", {10'000}, numbers); }) ==
        folder / "m" + ": parameter w holds NaN or infinite values (first at index 5000)");
}

TEST_CASE("All bf16 and f16 numbers convert to float as IEEE 754 says") {
  const auto expected = [](uint32_t bits, int exponent_bits, int fraction_bits) {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const auto fraction = static_cast<double>(bits & ((1u << fraction_bits) - 1));
    const int exponent = static_cast<int>(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
    const double sign = bits >> 15 != 0 ? -1 : 1;
    if (exponent == (1 << exponent_bits) - 1) return fraction != 0 ? std::nan("") : sign * kInfinity;
    if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
    return sign * std::ldexp(1 + std::ldexp(fraction, -fraction_bits), exponent - bias);
  };
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  std::vector<float> out(all.size());
  for (const auto& [type, exponent_bits, fraction_bits] :
       {std::tuple(DType::kBF16, 8, 7), std::tuple(DType::kF16, 5, 10)}) {
    convert_to_float(type, std::as_bytes(std::span(all)), out);
    int wrong = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      const double want = expected(all[i], exponent_bits, fraction_bits), got = out[i];
      const bool same = std::isnan(want) ? std::isnan(got) : want == got && std::signbit(want) == std::signbit(got);
      const bool finite = first_not_finite(type, std::as_bytes(std::span(all).subspan(i, 1))) == -1;
      wrong += !same || finite != std::isfinite(want);
    }
    CHECK(wrong == 0);
  }
  CHECK_THROWS_AS(convert_to_float(DType::kI32, std::as_bytes(std::span(all)), out), std::logic_error);
}

TEST_CASE("What is no model of ours is refused by name") {
  TempFolder folder;
  const std::string path = folder / "m";
  struct Tensor {
    std::string name;
    DType dtype;
    Shape shape;
  };
  const auto message = [&](const std::map<std::string, std::string>& metadata, const std::vector<Tensor>& tensors) {
    SafetensorsWriter writer(path);
    for (const auto& [key, value] : metadata) writer.set_metadata(key, value);
    for (const auto& t : tensors) writer.declare(t.name, t.dtype, t.shape);
    for (const auto& t : tensors) {
      const std::string zeros(size_of(t.dtype) * static_cast<size_t>(t.shape.elements()), '\0');
      writer.write(t.name, bytes_of(zeros));
    }
    writer.commit();
    return complaint_of([&] { ModelFile::open(path); });
  };
  const std::map<std::string, std::string> good = {{"nmt.format", "1"}, {"nmt.config", "{}"}};
  CHECK(message(good, {}).empty());
  CHECK(complaint_of([&] { ModelFile::open(path).source_vocabulary(); }) == path + ": the file holds no vocabulary");
  CHECK(message({}, {}) == path + " is not an nmt model: its metadata has no nmt.format");
  CHECK(message({{"nmt.format", "2"}}, {}) ==
        path + ": the model has format 2, this program reads up to 1: use a newer nmt");
  for (const auto* wrong : {"", "x", "1x", "0", "-1", "99999999999"})
    CHECK(message({{"nmt.format", wrong}}, {}) == path + ": nmt.format '" + wrong + "' is not a version");
  CHECK(message({{"nmt.format", "1"}}, {}) == path + " is not an nmt model: its metadata has no nmt.config");
  const auto nested = [](size_t levels) {
    return R"({"a":)" + std::string(levels - 1, '[') + std::string(levels - 1, ']') + "}";
  };
  CHECK(message({{"nmt.format", "1"}, {"nmt.config", nested(32)}}, {}).empty());
  for (const auto& wrong : std::vector<std::string>{"", "[]", "1", "{", "{} {}", nested(33), nested(100'000)})
    CHECK(message({{"nmt.format", "1"}, {"nmt.config", wrong}}, {}) ==
          path + ": nmt.config is not a JSON object, or is nested deeper than 32 levels");
  const std::string kinds = path + ": a model has the tensor vocab, or vocab.source and vocab.target";
  CHECK(message(good, {{"vocab.source", DType::kU8, {3}}}) == kinds);
  CHECK(message(good, {{"vocab.target", DType::kU8, {3}}}) == kinds);
  CHECK(message(good,
                {{"vocab", DType::kU8, {3}}, {"vocab.source", DType::kU8, {3}}, {"vocab.target", DType::kU8, {3}}}) ==
        kinds);
  CHECK(message(good, {{"vocab", DType::kF32, {3}}}) == path + ": tensor vocab is not a list of bytes");
  CHECK(message(good, {{"vocab", DType::kU8, {3, 1}}}) == path + ": tensor vocab is not a list of bytes");
  CHECK(message(good, {{"w", DType::kF64, {3}}}).empty());
  std::vector<float> out(3);
  CHECK(complaint_of([&] { ModelFile::open(path).read("w", {3}, out); }) ==
        path + ": parameter w has the type f64; f32, bf16 or f16 is expected");
}

TEST_CASE("Numbered models are found by their number alone") {
  TempFolder folder;
  for (const auto* name :
       {"m.iter9.safetensors", "m.iter10.safetensors", "m.iter100.safetensors", "m.iter.safetensors", "m.safetensors",
        "m.iter7.state.safetensors", "m.iter-5.safetensors", "m.iter8.safetensors.tmp.123", "xm.iter6.safetensors",
        "m.iter99999999999999999999.safetensors", "m.iter5x.safetensors", "m.epoch2.safetensors"})
    std::ofstream(folder / name).close();
  const TrainingFiles files(folder / "m.safetensors");
  std::vector<int64_t> numbers;
  for (const auto& file : files.find("iter")) {
    numbers.push_back(file.number);
    CHECK(file.path == files.numbered("iter", file.number));
    CHECK(file.path == folder / fmt::format("m.iter{}.safetensors", file.number));
  }
  CHECK(numbers == std::vector<int64_t>{9, 10, 100});
  CHECK(files.find_all().size() == 4);
  CHECK(files.find_best({"bleu", "chrf"}).empty());
  for (const auto* metric : {"bleu", "mine"}) std::ofstream(files.best(metric)).close();
  CHECK(files.find_best({"bleu", "chrf"}) == std::vector{files.best("bleu")});
  CHECK(TrainingFiles(folder / "none.safetensors").find("iter").empty());
  CHECK_THROWS_AS(TrainingFiles(folder / "no/where.safetensors").find("iter"), UserError);
  std::ofstream(folder / "a*b.iter3.safetensors").close();
  CHECK(TrainingFiles(folder / "a*b.safetensors").find("iter").size() == 1);

  CHECK(files.last("iter", 2) ==
        std::vector<std::string>{folder / "m.iter10.safetensors", folder / "m.iter100.safetensors"});
  CHECK(files.last("epoch", 1) == std::vector<std::string>{folder / "m.epoch2.safetensors"});
  CHECK_THROWS_AS(files.last("", 1), UserError);
  CHECK_THROWS_AS(files.last("iter", 4), UserError);
  CHECK_THROWS_AS(TrainingFiles(folder / "m"), UserError);
  CHECK_THROWS_AS(TrainingFiles(".safetensors"), UserError);
  CHECK_THROWS_AS(TrainingFiles(folder / ".safetensors"), UserError);
  CHECK(files.remove_later(9, 2, {"bleu"}).size() == 2);
  CHECK(files.find_best({"bleu"}).size() == 1);
  CHECK(files.remove_later(0, 0, {"bleu"}).size() == 3);
  CHECK((files.find_all().empty() && files.find_best({"bleu", "mine"}) == std::vector{files.best("mine")}));
}

TEST_CASE("Old models go, the last whole one never") {
  TempFolder folder;
  const TrainingFiles files(folder / "m.safetensors");
  const auto path = [&](int n) { return files.numbered("iter", n); };
  const auto whole = [&](int n) {
    SafetensorsWriter writer(path(n));
    writer.commit();
  };
  const auto damaged = [&](int n) { std::ofstream(path(n)) << "damaged"; };
  const auto left = [&] {
    std::vector<int64_t> numbers;
    for (const auto& file : files.find("iter")) numbers.push_back(file.number);
    return numbers;
  };
  files.remove_old("iter", 1);
  for (const int n : {2, 10, 9, 1}) whole(n);
  files.remove_old("iter", 4);
  CHECK(left() == std::vector<int64_t>{1, 2, 9, 10});
  files.remove_old("iter", 2);
  CHECK(left() == std::vector<int64_t>{9, 10});
  damaged(11);
  damaged(12);
  files.remove_old("iter", 2);
  CHECK(left() == std::vector<int64_t>{10, 11, 12});
  damaged(10);
  files.remove_old("iter", 2);
  CHECK(left() == std::vector<int64_t>{10, 11, 12});
  whole(13);
  files.remove_old("iter", 1);
  CHECK(left() == std::vector<int64_t>{13});
  CHECK_THROWS_AS(files.remove_old("iter", 0), std::logic_error);
}
