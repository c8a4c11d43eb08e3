#include "decode/shortlist.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/hash.h"
#include "base/utf8.h"

namespace nmt {
namespace {

constexpr const char *kShortlistKey = "nmt.shortlist", *kSourceKey = "nmt.vocab.source",
                     *kTargetKey = "nmt.vocab.target";
constexpr const char* kFormat = "1";

std::string hash_of(const Vocab& vocab) { return fmt::format("{:016x}", hash64(vocab.bytes())); }

std::vector<int32_t> read_ids(const SafetensorsFile& file, const char* name) {
  const TensorInfo* tensor = file.find(name);
  require(tensor != nullptr, "{}: tensor {} is missing", file.path(), name);
  require(tensor->dtype == DType::kI32 && tensor->shape.rank() == 1, "{}: tensor {} is not a list of i32", file.path(),
          name);
  std::vector<int32_t> ids(tensor->data.size() / sizeof(int32_t));
  if (!ids.empty()) std::memcpy(ids.data(), tensor->data.data(), tensor->data.size());
  return ids;
}

// Whether these are ids below `size`, each larger than the one before.
bool is_list(std::span<const int32_t> ids, int size) {
  return ids.empty() ||
         (ids.front() >= 0 && ids.back() < size && std::ranges::adjacent_find(ids, std::greater_equal()) == ids.end());
}

}  // namespace

Shortlist::Shortlist(const Vocab& source, const Vocab& target, std::vector<int32_t> begin, std::vector<int32_t> ids,
                     std::vector<int32_t> frequent)
    : source_hash_(hash_of(source)),
      target_hash_(hash_of(target)),
      target_size_(static_cast<size_t>(target.size())),
      begin_(std::move(begin)),
      ids_(std::move(ids)),
      frequent_(std::move(frequent)) {}

Shortlist Shortlist::load(const std::string& path, const Vocab& source, const Vocab& target) {
  const auto file = SafetensorsFile::open(path);
  const auto *format = file.metadata(kShortlistKey), *source_hash = file.metadata(kSourceKey),
             *target_hash = file.metadata(kTargetKey);
  require(format != nullptr, "{} is not a shortlist: its metadata has no {}", path, kShortlistKey);
  require(*format == kFormat, "{}: the shortlist has format {}, this program reads {}", path, printable(*format),
          kFormat);
  const auto fits = [&](const std::string* hash, const char* key, const Vocab& vocab, const char* side) {
    require(hash != nullptr, "{} is not a shortlist: its metadata has no {}", path, key);
    require(*hash == hash_of(vocab),
            "{} was made for another {} vocabulary; make one for this vocabulary with nmt-vocab shortlist", path, side);
  };
  fits(source_hash, kSourceKey, source, "source");
  fits(target_hash, kTargetKey, target, "target");

  Shortlist list(source, target, read_ids(file, "begin"), read_ids(file, "ids"), read_ids(file, "frequent"));
  const auto& begin = list.begin_;
  require(std::ssize(begin) == source.size() + 1, "{}: tensor begin has {} numbers, {} are expected", path,
          begin.size(), source.size() + 1);
  require(begin.front() == 0 && begin.back() == std::ssize(list.ids_) && std::ranges::is_sorted(begin),
          "{} is damaged: tensor begin does not rise from 0 to {}, the number of ids", path, list.ids_.size());
  for (int32_t id = 0; id < source.size(); ++id)
    require(is_list(list.likely(id), target.size()), "{} is damaged: the list of source token {} is no rising ids",
            path, id);
  require(is_list(list.frequent(), target.size()), "{} is damaged: tensor frequent is no rising ids", path);
  require(std::ranges::binary_search(list.frequent(), target.eos_id()),
          "{} is damaged: tensor frequent lacks the end of sentence", path);
  return list;
}

void Shortlist::save(SafetensorsWriter& file) const {
  file.set_metadata(kShortlistKey, kFormat);
  file.set_metadata(kSourceKey, source_hash_);
  file.set_metadata(kTargetKey, target_hash_);
  const std::pair<const char*, const std::vector<int32_t>&> tensors[] = {
      {"begin", begin_}, {"ids", ids_}, {"frequent", frequent_}};
  for (const auto& [name, ids] : tensors) file.declare(name, DType::kI32, {std::ssize(ids)});
  for (const auto& [name, ids] : tensors) file.write(name, std::as_bytes(std::span(ids)));
  file.commit();
}

std::span<const int32_t> Shortlist::likely(int32_t source_id) const {
  check(source_id >= 0 && source_id + 1 < std::ssize(begin_), "there is no source token {}", source_id);
  const auto begin = begin_.begin() + source_id;
  return {ids_.begin() + begin[0], ids_.begin() + begin[1]};
}

std::vector<int32_t> Shortlist::candidates(std::span<const int32_t> source_ids) const {
  std::vector<uint64_t> words((target_size_ + 63) / 64);  // a bit for each target token
  const auto mark = [&](std::span<const int32_t> ids) {
    for (const int32_t id : ids) words[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
  };
  mark(frequent_);
  for (const int32_t id : source_ids) mark(likely(id));
  if (source_hash_ == target_hash_) mark(source_ids);  // names and numbers translate into themselves
  std::vector<int32_t> candidates;
  for (size_t i = 0; i < words.size(); ++i)
    for (uint64_t word = words[i]; word != 0; word &= word - 1)
      candidates.push_back(static_cast<int32_t>(64 * i) + std::countr_zero(word));
  return candidates;
}

}  // namespace nmt
