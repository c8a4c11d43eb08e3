#include "text/vocab.h"

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "base/utf8.h"
#include "text/vocab_types.h"

namespace nmt {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 28;  // of a vocabulary file; a million pieces take some 20 MB

}  // namespace

std::shared_ptr<const Vocab> Vocab::load(const std::string& path) {
  return from_bytes(read_file(path, kMaxBytes), path);
}

std::pair<std::shared_ptr<const Vocab>, std::shared_ptr<const Vocab>> Vocab::load_sides(
    const std::vector<std::string>& paths) {
  require(paths.size() == 1 || paths.size() == 2, "--vocabs takes one or two files, not {}", paths.size());
  const auto source = load(paths.front());
  if (paths.back() == paths.front()) return {source, source};
  const auto target = load(paths.back());
  return {source, target->bytes() == source->bytes() ? source : target};
}

std::shared_ptr<const Vocab> Vocab::from_bytes(std::string bytes, const std::string& name) {
  require(!bytes.empty(), "{} is empty, not a vocabulary", name);
  require(static_cast<int64_t>(bytes.size()) <= kMaxBytes, "{} is too large for a vocabulary", name);
  std::vector<std::string_view> files;
  for (const VocabType& type : vocab_types()) {
    if (type.recognises(bytes)) return type.load(std::move(bytes), name);
    if (files.empty() || files.back() != type.file) files.push_back(type.file);
  }
  // safetensors: the header's length in eight bytes, and the header.
  require(bytes.size() < 9 || bytes[7] != '\0' || bytes[8] != '{',
          "{} is a safetensors file, as models are, no vocabulary: nmt-vocab extract takes a model's out", name);
  user_error("{} is not a vocabulary: expected {}", name, fmt::join(files, ", or "));
}

Vocab::LineIds Vocab::encode_line(std::string_view line) const {
  if (line.size() <= kMostLineBytes) return {encode(line), true};
  return {encode(first_bytes(line, kMostLineBytes)), false};
}

std::vector<Vocab::LineIds> Vocab::encode_lines(std::span<const std::string> lines, ThreadPool& pool) const {
  constexpr int64_t kGrain = 16;
  std::vector<LineIds> encoded(lines.size());
  pool.parallel_for(std::ssize(lines), kGrain, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) encoded[i] = encode_line(lines[i]);
  });
  return encoded;
}

void Vocab::check_id(int64_t id) const {
  require(id >= 0 && id < size(), "piece id {} is outside the vocabulary (0 to {})", id, size() - 1);
}

void warn_of_unknown(const std::string& text, int64_t unknown, int64_t tokens) {
  constexpr int64_t kUsual = 10;  // percent
  if (unknown * 100 > tokens * kUsual)
    log::warn("{}: {}% of the tokens are unknown to the vocabulary, which may be another language's", text,
              unknown * 100 / tokens);
}

}  // namespace nmt
