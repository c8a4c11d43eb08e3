#include "io/average.h"

#include <bit>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/philox.h"
#include "io/model_file.h"
#include "tests/catch.h"
#include "tests/complaint.h"
#include "tests/temp_folder.h"

using namespace nmt;
using nmt::testing::complaint_of;

namespace {

using Exact = __float128;  // 113 bits: an independent reference for sums of products of floats

std::vector<float> random_floats(Random& random, size_t n) {
  std::vector<float> values(n);
  for (float& v : values)
    v = static_cast<float>(std::ldexp(random.uniform() - 0.5, static_cast<int>(random.below(40)) - 30));
  return values;
}

void write(const std::string& path, const std::vector<float>& values, std::string_view vocabulary = "v",
           const std::string& config = "{}") {
  write_model(path,
              {.metadata = {{"nmt.config", config}, {"nmt.training", "t"}, {"nmt.progress", "p"}, {"nmt.hash", "h"}},
               .source_vocabulary = vocabulary,
               .target_vocabulary = vocabulary,
               .tensors = {{"w", {static_cast<int64_t>(values.size())}, values},
                           {"adam.m.w", {static_cast<int64_t>(values.size())}, values}}});
}

std::vector<float> read(const std::string& path, size_t n) {
  std::vector<float> values(n);
  ModelFile::open(path).read("w", {static_cast<int64_t>(n)}, values);
  return values;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(a, b, {}, std::bit_cast<uint32_t, float>, std::bit_cast<uint32_t, float>);
}

}  // namespace

TEST_CASE("The average is the mean of 113-bit arithmetic, rounded to float") {
  TempFolder folder;
  Random random(3);
  constexpr size_t kSize = 40'000;  // several chunks
  const size_t count = GENERATE(2, 3, 20);
  const bool weighted = GENERATE(false, true);
  std::vector<std::string> files;
  std::vector<std::vector<float>> values;
  std::vector<double> weights;
  for (size_t i = 0; i < count; ++i) {
    files.push_back(folder / fmt::format("m{}", i));
    values.push_back(random_floats(random, kSize));
    if (i == 1)  // cancellation: what is left is far below the rounding error of a plain sum
      for (size_t k = 0; k < kSize; k += 3) values[1][k] = values[0][k] = static_cast<float>(std::ldexp(1.0, 90));
    if (i == 1)
      for (size_t k = 0; k < kSize; k += 3) values[1][k] = -values[0][k];
    if (weighted) weights.push_back(i < 2 ? 3 : static_cast<double>(1 + random.below(1000)));
  }
  for (size_t i = 0; i < count; ++i) write(files[i], values[i]);
  average_models(files, weights, folder / "avg");
  const auto mean = read(folder / "avg", kSize);
  size_t wrong = 0;
  for (size_t k = 0; k < kSize; ++k) {
    Exact sum = 0, total = 0;
    for (size_t i = 0; i < count; ++i) {
      const Exact weight = weighted ? weights[i] : 1;
      sum += weight * static_cast<Exact>(values[i][k]);
      total += weight;
    }
    wrong += std::bit_cast<uint32_t>(static_cast<float>(static_cast<double>(sum / total))) !=
             std::bit_cast<uint32_t>(mean[k]);
  }
  CHECK(wrong == 0);

  // The order of the files leaves no trace.
  std::reverse(files.begin(), files.end());
  std::reverse(weights.begin(), weights.end());
  average_models(files, weights, folder / "reversed");
  CHECK(same_bits(read(folder / "reversed", kSize), mean));
}

TEST_CASE("The average of copies is the model, bit for bit") {
  TempFolder folder;
  Random random(4);
  auto values = random_floats(random, 30'000);
  const std::vector<float> special = {0.0f, -0.0f, 1e-45f, -1e-45f, 1e-38f, 3.4028235e38f, -3.4028235e38f};
  std::ranges::copy(special, values.begin());
  write(folder / "m", values);
  for (const auto& weights : std::vector<std::vector<double>>{
           {}, {}, {0.1, 0.2, 0.7}, {1, 2, 3}, {1e300, 1e308, 1.7e308}, {1e-300, 5e-324, 1e-310}, {1e-300, 1, 1e300}}) {
    const std::vector<std::string> files(weights.empty() ? 1 + random.below(30) : 3, folder / "m");
    average_models(files, weights, folder / "avg");
    CHECK(same_bits(read(folder / "avg", values.size()), values));
  }
  average_models({folder / "m"}, {}, folder / "m");  // over itself
  CHECK(same_bits(read(folder / "m", values.size()), values));
}

TEST_CASE("An average holds configuration, vocabulary and sources, and no training state") {
  TempFolder folder;
  write(folder / "a", {1, 2}, "vocabulary", R"({"x":1})");
  write(folder / "\xff", {3, 8}, "vocabulary", R"({"x":1})");
  average_models({folder / "a", folder / "\xff"}, {1, 3}, folder / "avg");
  const auto model = ModelFile::open(folder / "avg");
  CHECK(model.config() == R"({"x":1})");
  CHECK(model.source_vocabulary() == "vocabulary");
  CHECK(model.file().tensors().size() == 2);
  CHECK(model.metadata("nmt.progress") == nullptr);
  CHECK(model.metadata("nmt.hash") == nullptr);
  CHECK(*model.metadata("nmt.training") == "t");
  CHECK(
      *model.metadata("nmt.average") ==
      fmt::format(R"([{{"file":"{}","weight":0.25}},{{"file":"{}","weight":0.75}}])", folder / "a", folder / "\uFFFD"));
  CHECK(read(folder / "avg", 2) == std::vector<float>{2.5f, 6.5f});
}

TEST_CASE("Models of a training whose dropout changed are averaged") {
  TempFolder folder;
  write(folder / "a", {1, 2}, "vocabulary", R"({"x":1,"transformer-dropout":0.1})");
  write(folder / "b", {3, 8}, "vocabulary", R"({"x":1,"transformer-dropout":0.2})");
  average_models({folder / "a", folder / "b"}, {}, folder / "avg");
  CHECK(read(folder / "avg", 2) == std::vector<float>{2, 5});
}

TEST_CASE("bf16 and f16 models average to float32") {
  TempFolder folder;
  const auto write_halves = [&](const std::string& path, DType type, const std::vector<uint16_t>& halves) {
    SafetensorsWriter writer(path);
    writer.set_metadata("nmt.format", "1");
    writer.set_metadata("nmt.config", "{}");
    // An odd number of halves before the float: the average, wider, is laid out anew.
    writer.declare("f", DType::kF32, {1});
    writer.declare("w", type, {static_cast<int64_t>(halves.size())});
    writer.declare("vocab", DType::kU8, {1});
    const float one = 1;
    writer.write("f", std::as_bytes(std::span(&one, 1)));
    writer.write("w", std::as_bytes(std::span(halves)));
    writer.write("vocab", std::as_bytes(std::span("v", 1)));
    writer.commit();
  };
  write_halves(folder / "a", DType::kBF16, {0x3f80, 0xc000, 0x4040});  // 1, -2, 3
  write_halves(folder / "b", DType::kF16, {0x4000, 0x3c00, 0x3800});   // 2, 1, 0.5
  average_models({folder / "a", folder / "b"}, {}, folder / "avg");
  CHECK(read(folder / "avg", 3) == std::vector<float>{1.5f, -0.5f, 1.75f});
}

TEST_CASE("Models that do not fit are refused before anything is written") {
  TempFolder folder;
  const auto message = [&](const std::vector<double>& weights) -> std::string {
    std::string text = complaint_of([&] { average_models({folder / "a", folder / "b"}, weights, folder / "avg"); });
    CHECK(std::filesystem::exists(folder / "avg") == text.empty());
    for (size_t at; (at = text.find(folder.path() + "/")) != std::string::npos;)
      text.erase(at, folder.path().size() + 1);
    return text;
  };
  write(folder / "a", {1, 2}, "vocabulary", R"({"x":1,"y":2})");
  write(folder / "b", {1, 2}, "vocabulary", R"({"y":2,"x":1})");
  CHECK(message({1}) == "1 weights for 2 files: one each is needed");
  CHECK(message({1, 0}) == "the weight 0 is not a positive number");
  CHECK(message({-1, 1}) == "the weight -1 is not a positive number");
  CHECK(message({std::nan(""), 1}) == "the weight nan is not a positive number");
  write(folder / "b", {1, 2}, "vocabulary", R"({"x":1,"y":[3]})");
  CHECK(message({}) == "b: another architecture than a: y is [3], not 2");
  write(folder / "b", {1, 2}, "vocabulary", R"({"x":1,"y":2,"z":null})");
  CHECK(message({}) == "b: another architecture than a: z is null, not nothing");
  write(folder / "b", {1, 2, 3}, "vocabulary", R"({"x":1,"y":2})");
  CHECK(message({}) == "b: tensor w has the shape [3], in a it is [2]");
  write(folder / "b", {1, 2}, "vocabularY", R"({"x":1,"y":2})");
  CHECK(message({}) == "b: another vocabulary than a (tensor vocab differs first at byte 9)");
  write(folder / "b", {1, 2}, "vocab", R"({"x":1,"y":2})");
  CHECK(message({}) == "b: another vocabulary than a (tensor vocab differs first at byte 5)");
  const std::vector<float> two = {1, 2};
  write_model(folder / "b", {.metadata = {{"nmt.config", R"({"x":1,"y":2})"}},
                             .source_vocabulary = "vocabulary",
                             .target_vocabulary = "vocabulary",
                             .tensors = {{"w", {2}, two}, {"z", {2}, two}}});
  CHECK(message({}) == "b: tensor z is not in a");
  write(folder / "b", {1, std::nanf("")}, "vocabulary", R"({"x":1,"y":2})");
  CHECK(message({}) == "b: parameter w holds NaN or infinite values (first at index 1)");
}
