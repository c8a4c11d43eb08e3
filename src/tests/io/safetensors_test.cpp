#include "io/safetensors.h"

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>

#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/philox.h"
#include "tests/catch.h"
#include "tests/complaint.h"
#include "tests/temp_folder.h"

using namespace nmt;
using nmt::testing::complaint_of;

namespace {

std::vector<std::byte> numbered_bytes(size_t n) {
  std::vector<std::byte> bytes(n);
  for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>(i * 7 + 3);
  return bytes;
}

std::string file_of(std::string header, std::string_view data = "") {
  header.append((8 - header.size() % 8) % 8, ' ');
  const uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof length);
  return file.append(header).append(data);
}

SafetensorsContent parse(std::string_view file) { return parse_safetensors("f", std::as_bytes(std::span(file))); }

// The message without its fixed beginning.
std::string complaint(std::string_view file) {
  const std::string text = complaint_of([&] { parse(file); }), begin = "f: not a valid safetensors file: ";
  REQUIRE(text.find('\n') == std::string::npos);
  REQUIRE((text.empty() || text.starts_with(begin)));
  return text.empty() ? text : text.substr(begin.size());
}

std::string braced(const std::string& body) { return fmt::format("{{{}}}", body); }

std::string tensor(const std::string& name, const std::string& dtype, const std::string& shape, int begin, int end) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", name, dtype, shape, begin, end);
}

}  // namespace

TEST_CASE("A safetensors file keeps every type, shape, name and metadata") {
  TempFolder folder;
  const std::string path = folder / "all.safetensors";
  const std::vector<std::pair<std::string, Shape>> shapes = {
      {"scalar", {}}, {"", {2, 3}}, {"empty", {4, 0, 5}}, {"Größe \"1\"\n\xE6\xA8\xA1\xE5\x9E\x8B", {1, 1, 2, 3, 5}}};
  const std::vector<DType> types = {DType::kF64, DType::kI64,  DType::kF32, DType::kI32,
                                    DType::kF16, DType::kBF16, DType::kI8,  DType::kU8};
  REQUIRE(types.size() == kDTypeCount);
  const auto name = [](DType type, const std::string& rest) { return fmt::format("{}.{}", name_of(type), rest); };
  {
    SafetensorsWriter writer(path);
    writer.set_metadata("key", "value \"quoted\" \xF0\x9F\x98\x80\n");
    writer.set_metadata("", "");
    for (const auto type : types)
      for (const auto& [rest, shape] : shapes) writer.declare(name(type, rest), type, shape);
    for (const auto type : types)
      for (const auto& [rest, shape] : shapes)
        writer.write(name(type, rest), numbered_bytes(size_of(type) * static_cast<size_t>(shape.elements())));
    writer.commit();
  }
  auto opened = SafetensorsFile::open(path);
  const SafetensorsFile file = std::move(opened);  // tensors stay valid
  std::filesystem::remove(path);                   // and do not need the name
  CHECK(file.path() == path);
  CHECK(file.metadata() ==
        std::map<std::string, std::string>{{"", ""}, {"key", "value \"quoted\" \xF0\x9F\x98\x80\n"}});
  REQUIRE(file.tensors().size() == types.size() * shapes.size());
  CHECK(file.find("missing") == nullptr);
  size_t i = 0;
  for (const auto type : types)
    for (const auto& [rest, shape] : shapes) {
      const auto& in_order = file.tensors()[i++];
      CHECK(in_order.name == name(type, rest));
      const auto* found = file.find(in_order.name);
      REQUIRE(found == &in_order);
      CHECK(found->dtype == type);
      CHECK(found->shape == shape);
      const auto expected = numbered_bytes(size_of(type) * static_cast<size_t>(shape.elements()));
      CHECK(std::ranges::equal(found->data, expected));
      CHECK(reinterpret_cast<uintptr_t>(found->data.data()) % size_of(type) == 0);
      file.release(found->data);
      CHECK(std::ranges::equal(found->data, expected));  // read again
    }
  CHECK(reinterpret_cast<uintptr_t>(file.tensors()[0].data.data()) % 64 == 0);
}

TEST_CASE("A file without tensors is a file") {
  TempFolder folder;
  SafetensorsWriter writer(folder / "none");
  writer.commit();
  const auto file = SafetensorsFile::open(folder / "none");
  CHECK(file.tensors().empty());
  CHECK(file.metadata().empty());
}

TEST_CASE("Tensors come in the order of their data, whatever the order of the header") {
  const std::string file =
      file_of(braced(tensor("b", "U8", "[2]", 2, 4) + "," + tensor("a", "U8", "[2]", 0, 2)), "abcd");
  const auto content = parse(file);
  REQUIRE(content.tensors.size() == 2);
  CHECK(content.tensors[0].name == "a");
  CHECK(static_cast<char>(content.tensors[1].data[0]) == 'c');
}

TEST_CASE("Every violation of the format has its message") {
  const auto one = [](const std::string& t, std::string_view data) { return complaint(file_of(braced(t), data)); };
  const std::string good = tensor("w", "F32", "[2]", 0, 8), data = "01234567";
  REQUIRE(one(good, data).empty());

  SECTION("length") {
    CHECK(complaint("") == "cut off: 0 bytes hold no header");
    CHECK(complaint("1234567") == "cut off: 7 bytes hold no header");
    CHECK(complaint("some text") ==
          "its first 8 bytes say that the header has 8675467939688574835 bytes; at most 100000000 are allowed");
    CHECK(complaint(std::string("\xE1\xF5\x05\0\0\0\0\0", 8)) != "");
    CHECK(complaint(std::string("\x10\0\0\0\0\0\0\0{}", 10)) == "cut off: header promises 24 bytes, the file has 10");
    CHECK(complaint(std::string("\x02\0\0\0\0\0\0\0{}", 10)) == "a header of 2 bytes is not padded to a multiple of 8");
    CHECK(complaint(std::string(8, '\0')) == "the header does not begin with '{'");
  }
  SECTION("JSON") {
    CHECK(complaint(file_of("[]")) == "the header does not begin with '{'");
    CHECK(complaint(file_of("{\"a\":")) == "the header is not JSON (at byte 9)");
    CHECK(complaint(file_of("{} {}")) == "the header is not JSON (at byte 4)");
    CHECK(complaint(file_of("{\"\xFF\":1}")) == "the header is not JSON (at byte 3)");
    CHECK(complaint(file_of(std::string("{}\0 }", 5))) == "the header holds a zero byte");
    CHECK(complaint(file_of(braced(good + "," + good), data)) == "w occurs twice in the header");
    CHECK(complaint(file_of(R"({"__metadata__":{},"__metadata__":{}})")) == "__metadata__ occurs twice in the header");
    CHECK(complaint(file_of(R"({"__metadata__":{"a":"","a":""}})")) == "metadata a occurs twice");
    CHECK(complaint(file_of(R"({"__metadata__":{"a":1}})")) == "a number where the header has none");
    CHECK(complaint(file_of(R"({"__metadata__":{"a":{}}})")) == "an object where the header has none");
    CHECK(complaint(file_of(R"({"a":[]})")) == "a list where the header has none, in tensor a");
    CHECK(complaint(file_of(R"({"a":null})")) == "null where the header has none, in tensor a");
    CHECK(complaint(file_of(R"({"a":{"dtype":{}}})")) == "an object where the header has none, in tensor a");
    CHECK(complaint(file_of(R"({"a":{"x":1}})")) == "tensor a has the unknown field x");
    CHECK(complaint(file_of(R"({"a":{"dtype":"F32","dtype":"F32"}})")) == "tensor a has two fields dtype");
    CHECK(complaint(file_of(R"({"a":{"shape":[],"shape":[]}})")) == "tensor a has two fields shape");
    CHECK(complaint(file_of(R"({"a":{}})")) == "tensor a lacks dtype, shape or data_offsets");
    CHECK(complaint(file_of("{\"a\":" + std::string(1'000'000, '['))) ==
          "a list where the header has none, in tensor a");
    CHECK(complaint(file_of(R"({"a":{"shape":)" + std::string(1'000'000, '['))) ==
          "a list where the header has none, in tensor a");
    CHECK(complaint(file_of(R"({"a\n\u001b[2J":1})")) ==
          "a number where the header has none, in tensor a\\x0a\\x1b[2J");
    CHECK(complaint(file_of("{\"" + std::string(1000, 'n') + "\":1}")) ==
          "a number where the header has none, in tensor " + std::string(100, 'n') + "...");
  }
  SECTION("types and shapes") {
    CHECK(one(tensor("w", "F8", "[2]", 0, 8), data) == "tensor w has the unknown type F8");
    CHECK(one(tensor("w", "f32", "[2]", 0, 8), data) == "tensor w has the unknown type f32");
    CHECK(one(tensor("w", "U8", "[1,1,1,1,1,8]", 0, 8), data) == "tensor w has more than 5 axes");
    CHECK(one(tensor("w", "U8", "[-8]", 0, 8), data) == "a negative number where the header has none, in tensor w");
    CHECK(one(tensor("w", "U8", "[8.0]", 0, 8), data) ==
          "a number with a fraction or too many digits where the header has none, in tensor w");
    CHECK(one(tensor("w", "U8", "[99999999999999999999]", 0, 8), data) ==
          "a number with a fraction or too many digits where the header has none, in tensor w");
    CHECK(one(tensor("w", "F32", "[3]", 0, 8), data) ==
          "tensor w of shape [3] and type f32 needs 12 bytes, its offsets say 8");
    const std::string large = "[4294967296, 4294967296, 4]";
    CHECK(one(tensor("w", "U8", large, 0, 0), "") == "the shape " + large + " of tensor w is too large");
    CHECK(one(tensor("w", "F32", "[4611686018427387904]", 0, 0), "") ==
          "the shape [4611686018427387904] of tensor w is too large");
    CHECK(one(tensor("w", "U8", "[0, 18446744073709551615]", 0, 0), "") ==
          "the shape [0, 18446744073709551615] of tensor w is too large");
    CHECK(one(tensor("w", "U8", "[8]", 0, 8) + "," + tensor("x", "U8", "[0]", 8, 8), data).empty());
  }
  SECTION("offsets") {
    CHECK(one(R"("w":{"dtype":"U8","shape":[8],"data_offsets":[0]})", data) ==
          "tensor w lacks dtype, shape or data_offsets");
    CHECK(one(R"("w":{"dtype":"U8","shape":[8],"data_offsets":[0,8,8]})", data) ==
          "tensor w has more than two offsets");
    CHECK(one(tensor("w", "F32", "[2]", 8, 0), data) == "tensor w ends at byte 0 before it begins at byte 8");
    CHECK(one(tensor("w", "U8", "[4]", 4, 8), data) == "4 bytes before tensor w belong to no tensor");
    CHECK(one(tensor("w", "U8", "[6]", 0, 6) + "," + tensor("x", "U8", "[4]", 4, 8), data) ==
          "tensor x overlaps the tensor before it");
    CHECK(one(tensor("w", "U8", "[2]", 0, 2) + "," + tensor("x", "U8", "[2]", 6, 8), data) ==
          "4 bytes before tensor x belong to no tensor");
    CHECK(one(tensor("w", "U8", "[2]", 0, 2) + "," + tensor("x", "F32", "[1]", 2, 6), data) ==
          "tensor x of type f32 is misaligned: it begins at byte 2");
    CHECK(one(good, "0123456") == "cut off: header promises 72 bytes, the file has 71");
    CHECK(one(good, "012345678") == "1 bytes after the last tensor");
    CHECK(complaint(file_of("{}", "0")) == "1 bytes after the last tensor");
  }
}

TEST_CASE("Every cut of a file is refused") {
  const std::string file =
      file_of(braced(tensor("w", "F32", "[2]", 0, 8) + "," + tensor("v", "U8", "[5]", 8, 13)), "0123456789abc");
  REQUIRE(complaint(file).empty());
  for (size_t size = 0; size < file.size(); ++size) CHECK(complaint(file.substr(0, size)).starts_with("cut off: "));
}

TEST_CASE("Files that cannot be read are named") {
  TempFolder folder;
  const auto message = [](const std::string& path) { return complaint_of([&] { SafetensorsFile::open(path); }); };
  CHECK(message(folder / "none") == "cannot read " + folder / "none" + ": No such file or directory");
  CHECK(message(folder.path()) == "cannot read " + folder.path() + ": it is a folder");
  CHECK(message("/dev/null") == "cannot read /dev/null: not a regular file");
  std::ofstream(folder / "empty").close();
  CHECK(message(folder / "empty") ==
        folder / "empty" + ": not a valid safetensors file: cut off: 0 bytes hold no header");
}

TEST_CASE("Mutated files are read or refused, never more") {
  const std::string header =
      braced(R"("__metadata__":{"nmt.format":"1","k":"\u00e9"},)" + tensor("a.weight", "F32", "[2,3]", 0, 24) + "," +
             tensor("b", "BF16", "[3]", 24, 30) + "," + tensor("s", "I8", "[]", 30, 31) + "," +
             tensor("e", "U8", "[0]", 31, 31));
  const std::string valid = file_of(header, std::string(31, 'x'));
  REQUIRE(complaint(valid).empty());
  Random random(7);
  constexpr std::string_view alphabet("0123456789-.eE{}[]\",:\\u FUIB\0\xFF\x80", 31);
  int accepted = 0, refused = 0;
  for (int round = 0; round < 30'000; ++round) {
    std::string file = valid;
    for (uint64_t changes = 1 + random.below(4); changes > 0 && !file.empty(); --changes) {
      const size_t at = random.below(file.size());
      switch (random.below(7)) {
        case 0:
          file[at] = static_cast<char>(file[at] ^ (1 << random.below(8)));
          break;
        case 1:
          file[at] = static_cast<char>(random.below(256));
          break;
        case 2:
          file[at] = alphabet[random.below(alphabet.size())];
          break;
        case 3:
          file.insert(at, 1, alphabet[random.below(alphabet.size())]);
          break;
        case 4:
          file.erase(at, 1 + random.below(8));
          break;
        case 5:
          file.resize(at);
          break;
        default:
          file.insert(at, file.substr(random.below(file.size()), random.below(64)));
      }
    }
    if (file.size() > 8 && random.below(2) == 0) {  // let more of them through to the later checks
      const uint64_t length = valid.size() - 8 - 31 + file.size() - valid.size();
      if (length <= file.size()) std::memcpy(file.data(), &length, sizeof length);
    }
    // A copy of the exact size: a sanitizer sees any byte read past it.
    const std::vector<char> exact(file.begin(), file.end());
    try {
      const auto content = parse({exact.data(), exact.size()});
      size_t bytes = 0;
      for (const auto& t : content.tensors) {
        bytes += t.data.size();
        for (const auto byte : t.data) bytes += byte == std::byte{0} ? 0 : 1;
        REQUIRE(static_cast<size_t>(t.shape.elements()) * size_of(t.dtype) == t.data.size());
      }
      REQUIRE(bytes <= 2 * file.size());
      ++accepted;
    } catch (const UserError&) {
      ++refused;
    }
  }
  CHECK(accepted > 100);
  CHECK(refused > 10'000);
}

TEST_CASE("The writer refuses wrong calls") {
  TempFolder folder;
  SafetensorsWriter writer(folder / "f");
  writer.declare("a", DType::kF32, {2});
  writer.declare("e", DType::kF32, {0});
  writer.declare("b", DType::kU8, {3});
  CHECK_THROWS_AS(writer.declare("a", DType::kU8, {1}), std::logic_error);
  CHECK_THROWS_AS(writer.declare("__metadata__", DType::kU8, {1}), std::logic_error);
  CHECK_THROWS_AS(writer.declare("\xFF", DType::kU8, {1}), std::logic_error);
  CHECK_THROWS_AS(writer.declare("misaligned", DType::kF32, {1}), std::logic_error);
  CHECK_THROWS_AS(writer.declare("large", DType::kU8, {int64_t{1} << 40, int64_t{1} << 40}), std::logic_error);
  CHECK_THROWS_AS(writer.set_metadata("k", "\xFF"), std::logic_error);
  const auto bytes = numbered_bytes(8);
  CHECK_THROWS_AS(writer.write("unknown", bytes), std::logic_error);
  CHECK_THROWS_AS(writer.write("b", std::span(bytes).first(3)), std::logic_error);
  CHECK_THROWS_AS(writer.declare("late", DType::kU8, {1}), std::logic_error);
  CHECK_THROWS_AS(writer.set_metadata("late", ""), std::logic_error);
  CHECK_THROWS_AS(writer.commit(), std::logic_error);
  writer.write("a", std::span(bytes).first(5));
  CHECK_THROWS_AS(writer.write("b", std::span(bytes).first(3)), std::logic_error);
  CHECK_THROWS_AS(writer.write("a", std::span(bytes).first(4)), std::logic_error);
  writer.write("a", std::span(bytes).subspan(5));
  writer.write("b", std::span(bytes).first(3));
  CHECK_THROWS_AS(writer.write("a", std::span(bytes).first(1)), std::logic_error);
  CHECK_FALSE(std::filesystem::exists(folder / "f"));
  writer.commit();
  const auto file = SafetensorsFile::open(folder / "f");
  CHECK(std::ranges::equal(file.find("a")->data, bytes));
  CHECK(file.find("e")->data.empty());
  CHECK(file.find("b")->data.size() == 3);
}

TEST_CASE("A header that no reader takes is not written") {
  TempFolder folder;
  SafetensorsWriter writer(folder / "f");
  writer.set_metadata("k", std::string(kMaxHeaderBytes, 'v'));
  CHECK(complaint_of<Error>([&] { writer.commit(); }).starts_with("the header would have 1000000"));
  CHECK_FALSE(std::filesystem::exists(folder / "f"));
}

TEST_CASE("A writer that is killed leaves the old file") {
  TempFolder folder;
  const std::string path = folder / "f";
  const auto bytes = numbered_bytes(8 << 20);
  const auto start = [&](SafetensorsWriter& writer) {
    writer.declare("a", DType::kU8, {static_cast<int64_t>(bytes.size())});
    writer.write("a", std::span(bytes).first(bytes.size() / 2));
  };
  const auto killed = [&] {
    const pid_t child = ::fork();
    if (child == 0) {
      SafetensorsWriter writer(path);
      start(writer);
      ::raise(SIGKILL);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));
  };
  killed();
  CHECK_FALSE(std::filesystem::exists(path));
  {
    SafetensorsWriter writer(path);
    start(writer);
    writer.write("a", std::span(bytes).subspan(bytes.size() / 2));
    writer.commit();
  }
  killed();
  CHECK(std::ranges::equal(SafetensorsFile::open(path).find("a")->data, bytes));
  {
    SafetensorsWriter left(path);
    start(left);
  }
  CHECK(std::ranges::equal(SafetensorsFile::open(path).find("a")->data, bytes));
}
