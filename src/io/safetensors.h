#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/files.h"
#include "io/mapped_file.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

// The safetensors format (https://github.com/huggingface/safetensors#format): 8 bytes with the length of the header,
// the header in JSON {name: {dtype, shape, data_offsets: [begin, end]}, "__metadata__": {text: text}}, then the data.
namespace nmt {

struct TensorInfo {
  std::string name;
  DType dtype;
  Shape shape;
  std::span<const std::byte> data;  // aligned to the element within the file
};

struct SafetensorsContent {
  std::map<std::string, std::string> metadata;
  std::vector<TensorInfo> tensors;  // in the order of their data
};

inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;

// Reads a file that lies in memory; the tensors point into it. Throws UserError
// `FILE: not a valid safetensors file: what` for every violation: length, JSON, duplicate names, types, shapes,
// sizes, and data that overlaps, leaves holes, is cut off, is misaligned or goes on after the last tensor.
SafetensorsContent parse_safetensors(std::string_view file_name, std::span<const std::byte> file);

// A memory-mapped file; its tensors are valid as long as the object lives, also after a move.
class SafetensorsFile {
 public:
  static SafetensorsFile open(const std::string& path);

  const std::string& path() const { return path_; }
  const std::map<std::string, std::string>& metadata() const { return content_.metadata; }
  const std::string* metadata(std::string_view key) const;  // null where there is none
  const std::vector<TensorInfo>& tensors() const { return content_.tensors; }
  const TensorInfo* find(std::string_view name) const;  // null where there is none

  // See MappedFile.
  void copy(std::span<const std::byte> data) { mapping_.copy(data); }
  void release(std::span<const std::byte> data) const { mapping_.release(data); }
  void require_unchanged() const;  // Error where somebody has written to the file since it was opened

 private:
  SafetensorsFile(std::string path, MappedFile mapping);

  std::string path_;
  MappedFile mapping_;
  SafetensorsContent content_;
  std::unordered_map<std::string_view, size_t> index_;  // keys lie in content_
};

// Writes a file without holding it: declare every tensor, then give the data in the same order, in pieces of any size.
// The target appears with commit() and not before. Data begins at a multiple of 64 bytes.
class SafetensorsWriter {
 public:
  explicit SafetensorsWriter(std::string path) : file_(std::move(path)) {}

  void set_metadata(std::string key, std::string value);
  void declare(std::string name, DType dtype, const Shape& shape);  // after a tensor of the same or longer elements
  void write(std::string_view name, std::span<const std::byte> data);
  void commit();

 private:
  struct Declared {
    std::string name;
    DType dtype;
    Shape shape;
    uint64_t begin, end;
  };

  void write_header();

  AtomicFile file_;
  std::map<std::string, std::string> metadata_;
  std::vector<Declared> tensors_;
  std::unordered_map<std::string, size_t> index_;
  bool started_ = false;
  size_t current_ = 0;     // the tensor being written
  uint64_t position_ = 0;  // bytes of data written
};

}  // namespace nmt
