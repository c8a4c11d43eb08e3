#include "io/safetensors.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <cstring>
#include <limits>
#include <optional>
#include <unordered_set>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"

namespace nmt {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian and used as it lies");

constexpr std::string_view kMetadata = "__metadata__";

// The format's names are ours in capitals: "F32", "BF16" ...
std::string format_name(DType dtype) {
  std::string name(name_of(dtype));
  for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

std::optional<DType> dtype_of(std::string_view name) {
  for (int i = 0; i < kDTypeCount; ++i)
    if (format_name(static_cast<DType>(i)) == name) return static_cast<DType>(i);
  return std::nullopt;
}

struct Entry {
  std::string name;
  std::optional<DType> dtype;
  std::vector<uint64_t> shape, offsets;
  bool has_shape = false, has_offsets = false;
};

// Consumes the header's JSON as it is parsed: no tree, nothing accepted but the format's three levels.
class HeaderReader {
 public:
  using json = nlohmann::json;

  explicit HeaderReader(std::string_view file_name) : file_name_(file_name) {}

  template <class... Args>
  [[noreturn]] void invalid(fmt::format_string<Args...> format, Args&&... args) const {
    user_error("{}: not a valid safetensors file: {}", file_name_, fmt::format(format, std::forward<Args>(args)...));
  }

  // The parser's events.
  bool start_object(size_t) {
    switch (state_) {
      case State::kStart:
        return go(State::kTop);
      case State::kTopValue:
        return go(in_metadata_ ? State::kMetadata : State::kTensor);
      default:
        unexpected("an object");
    }
  }

  bool key(std::string& name) {
    switch (state_) {
      case State::kTop:
        if (!names_.insert(name).second) invalid("{} occurs twice in the header", printable(name));
        in_metadata_ = name == kMetadata;
        if (!in_metadata_) entries_.emplace_back().name = name;
        return go(State::kTopValue);
      case State::kMetadata:
        if (metadata_.count(name) != 0) invalid("metadata {} occurs twice", printable(name));
        key_ = name;
        return go(State::kMetadataValue);
      default:  // State::kTensor
        return tensor_field(name);
    }
  }

  bool string(std::string& text) {
    if (state_ == State::kMetadataValue) {
      metadata_.emplace(key_, std::move(text));
      return go(State::kMetadata);
    }
    if (state_ != State::kDType) unexpected("a string");
    entry().dtype = dtype_of(text);
    if (!entry().dtype) invalid("tensor {} has the unknown type {}", printable(entry().name), printable(text));
    return go(State::kTensor);
  }

  bool start_array(size_t) {
    if (state_ == State::kShape) return go(State::kShapeItem);
    if (state_ == State::kOffsets) return go(State::kOffsetsItem);
    unexpected("a list");
  }

  bool number_unsigned(uint64_t number) {
    if (state_ == State::kShapeItem) {
      if (entry().shape.size() == static_cast<size_t>(Shape::kMaxRank))
        invalid("tensor {} has more than {} axes", printable(entry().name), Shape::kMaxRank);
      entry().shape.push_back(number);
    } else if (state_ == State::kOffsetsItem) {
      if (entry().offsets.size() == 2) invalid("tensor {} has more than two offsets", printable(entry().name));
      entry().offsets.push_back(number);
    } else {
      unexpected("a number");
    }
    return true;
  }

  bool end_array() { return go(State::kTensor); }

  bool end_object() {
    switch (state_) {
      case State::kTensor:
        if (!entry().dtype || !entry().has_shape || entry().offsets.size() != 2)
          invalid("tensor {} lacks dtype, shape or data_offsets", printable(entry().name));
        [[fallthrough]];
      case State::kMetadata:
        return go(State::kTop);
      default:
        return go(State::kEnd);
    }
  }

  bool null() { unexpected("null"); }
  bool boolean(bool) { unexpected("true or false"); }
  bool number_integer(int64_t) { unexpected("a negative number"); }
  bool number_float(double, const std::string&) { unexpected("a number with a fraction or too many digits"); }
  bool binary(json::binary_t&) { unexpected("binary data"); }
  bool parse_error(size_t position, const std::string&, const json::exception&) {
    invalid("the header is not JSON (at byte {})", position);
  }

  std::map<std::string, std::string> take_metadata() { return std::move(metadata_); }
  std::vector<Entry>& entries() { return entries_; }

 private:
  enum class State {
    kStart,
    kTop,
    kTopValue,
    kMetadata,
    kMetadataValue,
    kTensor,
    kDType,
    kShape,
    kShapeItem,
    kOffsets,
    kOffsetsItem,
    kEnd
  };

  bool go(State state) {
    state_ = state;
    return true;
  }

  [[noreturn]] void unexpected(std::string_view what) const {
    if (entries_.empty() || in_metadata_) invalid("{} where the header has none", what);
    invalid("{} where the header has none, in tensor {}", what, printable(entries_.back().name));
  }

  bool tensor_field(const std::string& name) {
    bool again = false;
    State next;
    if (name == "dtype") {
      again = entry().dtype.has_value();
      next = State::kDType;
    } else if (name == "shape") {
      again = std::exchange(entry().has_shape, true);
      next = State::kShape;
    } else if (name == "data_offsets") {
      again = std::exchange(entry().has_offsets, true);
      next = State::kOffsets;
    } else {
      invalid("tensor {} has the unknown field {}", printable(entry().name), printable(name));
    }
    if (again) invalid("tensor {} has two fields {}", printable(entry().name), name);
    return go(next);
  }

  Entry& entry() { return entries_.back(); }

  std::string_view file_name_;
  State state_ = State::kStart;
  bool in_metadata_ = false;
  std::string key_;
  std::unordered_set<std::string> names_;
  std::map<std::string, std::string> metadata_;
  std::vector<Entry> entries_;
};

// Bytes of a tensor, or nothing where the number does not fit.
std::optional<uint64_t> byte_size(DType dtype, std::span<const uint64_t> shape) {
  int64_t bytes = static_cast<int64_t>(size_of(dtype));
  for (const uint64_t length : shape)
    if (length > std::numeric_limits<int64_t>::max() || __builtin_mul_overflow(bytes, length, &bytes))
      return std::nullopt;
  return static_cast<uint64_t>(bytes);
}

}  // namespace

SafetensorsContent parse_safetensors(std::string_view file_name, std::span<const std::byte> file) {
  HeaderReader reader(file_name);
  constexpr uint64_t kLengthBytes = 8;
  if (file.size() < kLengthBytes) reader.invalid("cut off: {} bytes hold no header", file.size());
  uint64_t length = 0;
  std::memcpy(&length, file.data(), kLengthBytes);
  if (length > kMaxHeaderBytes)
    reader.invalid("its first 8 bytes say that the header has {} bytes; at most {} are allowed", length,
                   kMaxHeaderBytes);
  if (length > file.size() - kLengthBytes)
    reader.invalid("cut off: header promises {} bytes, the file has {}", kLengthBytes + length, file.size());
  if (length % kLengthBytes != 0) reader.invalid("a header of {} bytes is not padded to a multiple of 8", length);

  const char* text = reinterpret_cast<const char*>(file.data()) + kLengthBytes;
  if (length == 0 || text[0] != '{') reader.invalid("the header does not begin with '{{'");
  // The parser takes a zero byte for the end of its input.
  if (std::memchr(text, 0, length) != nullptr) reader.invalid("the header holds a zero byte");
  nlohmann::json::sax_parse(text, text + length, &reader);

  auto& entries = reader.entries();
  std::ranges::stable_sort(entries, {}, &Entry::offsets);
  const auto data = file.subspan(kLengthBytes + length);
  const uint64_t promised = entries.empty() ? 0 : entries.back().offsets[1];
  uint64_t position = 0;
  SafetensorsContent content;
  content.tensors.reserve(entries.size());
  for (const Entry& entry : entries) {
    const uint64_t begin = entry.offsets[0], end = entry.offsets[1];
    const auto name = [&] { return printable(entry.name); };
    if (end < begin) reader.invalid("tensor {} ends at byte {} before it begins at byte {}", name(), end, begin);
    if (begin < position) reader.invalid("tensor {} overlaps the tensor before it", name());
    if (begin > position) reader.invalid("{} bytes before tensor {} belong to no tensor", begin - position, name());
    const auto bytes = byte_size(*entry.dtype, entry.shape);
    if (!bytes) reader.invalid("the shape [{}] of tensor {} is too large", fmt::join(entry.shape, ", "), name());
    if (*bytes != end - begin)
      reader.invalid("tensor {} of shape [{}] and type {} needs {} bytes, its offsets say {}", name(),
                     fmt::join(entry.shape, ", "), name_of(*entry.dtype), *bytes, end - begin);
    if (begin % size_of(*entry.dtype) != 0)
      reader.invalid("tensor {} of type {} is misaligned: it begins at byte {}", name(), name_of(*entry.dtype), begin);
    position = end;
  }
  if (promised > data.size())
    reader.invalid("cut off: header promises {} bytes, the file has {}", kLengthBytes + length + promised, file.size());
  if (promised < data.size()) reader.invalid("{} bytes after the last tensor", data.size() - promised);
  for (Entry& entry : entries) {
    const std::vector<int64_t> lengths(entry.shape.begin(), entry.shape.end());
    content.tensors.push_back({std::move(entry.name), *entry.dtype, Shape(lengths),
                               data.subspan(entry.offsets[0], entry.offsets[1] - entry.offsets[0])});
  }
  content.metadata = reader.take_metadata();
  return content;
}

SafetensorsFile SafetensorsFile::open(const std::string& path) { return {path, MappedFile(path)}; }

void SafetensorsFile::require_unchanged() const {
  if (mapping_.changed())
    fail("{} was written to while it was read; replace models by renaming new ones over them", path_);
}

SafetensorsFile::SafetensorsFile(std::string path, MappedFile mapping)
    : path_(std::move(path)), mapping_(std::move(mapping)), content_(parse_safetensors(path_, mapping_.bytes())) {
  for (size_t i = 0; i < content_.tensors.size(); ++i) index_.emplace(content_.tensors[i].name, i);
}

const std::string* SafetensorsFile::metadata(std::string_view key) const {
  const auto it = content_.metadata.find(std::string(key));
  return it == content_.metadata.end() ? nullptr : &it->second;
}

const TensorInfo* SafetensorsFile::find(std::string_view name) const {
  const auto it = index_.find(name);
  return it == index_.end() ? nullptr : &content_.tensors[it->second];
}

void SafetensorsWriter::set_metadata(std::string key, std::string value) {
  check(!started_, "metadata after the first data");
  check(is_valid_utf8(key) && is_valid_utf8(value), "metadata {} is not UTF-8", printable(key));
  metadata_[std::move(key)] = std::move(value);
}

void SafetensorsWriter::declare(std::string name, DType dtype, const Shape& shape) {
  check(!started_, "tensor {} is declared after the first data", name);
  check(is_valid_utf8(name) && name != kMetadata, "{} cannot be a tensor's name", printable(name));
  check(index_.emplace(name, tensors_.size()).second, "tensor {} is declared twice", name);
  const std::vector<uint64_t> lengths(shape.begin(), shape.end());
  const auto bytes = byte_size(dtype, lengths);
  check(bytes.has_value(), "the shape {} of tensor {} is too large", shape, name);
  const uint64_t begin = tensors_.empty() ? 0 : tensors_.back().end;
  check(begin % size_of(dtype) == 0, "tensor {} would be misaligned: declare longer elements first", name);
  tensors_.push_back({std::move(name), dtype, shape, begin, begin + *bytes});
}

void SafetensorsWriter::write_header() {
  started_ = true;
  std::string text = "{";
  const auto add = [&](std::string_view key, const nlohmann::ordered_json& value) {
    text += fmt::format("{}{}:{}", text.size() > 1 ? "," : "", json_text(nlohmann::json(key)), json_text(value));
  };
  if (!metadata_.empty()) add(kMetadata, metadata_);
  for (const auto& t : tensors_)
    add(t.name, {{"dtype", format_name(t.dtype)},
                 {"shape", std::vector<int64_t>(t.shape.begin(), t.shape.end())},
                 {"data_offsets", {t.begin, t.end}}});
  text += '}';
  constexpr size_t kAlignment = 64;  // of the first tensor in the file, and so in a mapping
  text.append((kAlignment - (sizeof(uint64_t) + text.size()) % kAlignment) % kAlignment, ' ');
  if (text.size() > kMaxHeaderBytes)
    fail("the header would have {} bytes; at most {} are allowed", text.size(), kMaxHeaderBytes);
  const uint64_t length = text.size();
  file_.write(&length, sizeof length);
  file_.write(text);
}

void SafetensorsWriter::write(std::string_view name, std::span<const std::byte> data) {
  if (!started_) write_header();
  const auto found = index_.find(std::string(name));
  check(found != index_.end(), "tensor {} was not declared", name);
  while (current_ < found->second && position_ == tensors_[current_].end) ++current_;
  check(current_ == found->second, "tensor {} is written out of order: {} is next", name, tensors_[current_].name);
  check(data.size() <= tensors_[current_].end - position_, "tensor {} gets more data than its shape {} holds", name,
        tensors_[current_].shape);
  constexpr size_t kPiece = 1 << 20;  // AtomicFile copies what it gets
  for (auto rest = data; !rest.empty(); rest = rest.subspan(std::min(kPiece, rest.size())))
    file_.write(rest.data(), std::min(kPiece, rest.size()));
  position_ += data.size();
}

void SafetensorsWriter::commit() {
  if (!started_) write_header();
  const uint64_t bytes = tensors_.empty() ? 0 : tensors_.back().end;
  check(position_ == bytes, "only {} of {} bytes of tensors were written", position_, bytes);
  file_.commit();
}

}  // namespace nmt
