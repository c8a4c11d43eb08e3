#include "text/vocab_sentencepiece_model.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"

namespace nmt {
namespace {

enum PieceType { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };
struct Piece {
  std::string_view text;
  int type = kNormal;
};

// A protocol buffer's fields, one after the other.
class Fields {
 public:
  explicit Fields(std::string_view message) : rest_(message) {}

  int number = 0, wire = 0;
  uint64_t value = 0;
  std::string_view text;

  // False at the end; damaged() tells whether it is a proper one.
  bool next() {
    if (rest_.empty() || damaged_) return false;
    uint64_t tag = 0;
    bool good = varint(tag) && tag >> 3 > 0 && tag >> 3 < (1u << 29);
    number = static_cast<int>(tag >> 3);
    wire = static_cast<int>(tag & 7);
    if (good && wire == 0)
      good = varint(value);
    else if (good && wire == 2)
      good = varint(value) && value <= rest_.size() && take(value);
    else
      good = good && (wire == 1 || wire == 5) && take(wire == 1 ? 8 : 4);
    damaged_ = !good;
    return good;
  }
  bool damaged() const { return damaged_; }
  bool is(int field, int kind) const { return number == field && wire == kind; }

 private:
  bool varint(uint64_t& result) {
    result = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_[0]);
      rest_.remove_prefix(1);
      result |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }
  bool take(size_t bytes) {
    if (bytes > rest_.size()) return false;
    text = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return true;
  }

  std::string_view rest_;
  bool damaged_ = false;
};

uint32_t little_endian(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t k = 0; k < 4; ++k) value |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[at + k])) << (8 * k);
  return value;
}

// The rules of a normalisation: 4 bytes size of the trie, the trie (a double array of Darts-clone: 32-bit units with
// offset, label and leaf mark), then the replacements, each ended by a zero byte. True if no text can lead a search
// outside the array and no search gives more than the library's 32 matches.
bool safe_rules(std::string_view rules) {
  constexpr int kMaxMatches = 32, kMaxDepth = 1024;
  if (rules.size() <= 4) return false;
  const size_t bytes = little_endian(rules, 0);
  if (bytes == 0 || bytes % 4 != 0 || bytes >= rules.size() - 4) return false;
  const std::string_view replacements = rules.substr(4 + bytes);
  if (replacements.back() != '\0') return false;
  std::vector<uint32_t> units(bytes / 4);
  for (size_t i = 0; i < units.size(); ++i) units[i] = little_endian(rules, 4 + 4 * i);
  const auto target = [&](size_t i) { return i ^ ((units[i] >> 10) << ((units[i] & (1u << 9)) >> 6)); };

  // Level by level: nodes that a text of that many bytes can reach, with the matches on the way.
  std::vector<std::pair<uint32_t, int>> level = {{0, 0}}, deeper;
  std::vector<int> seen(units.size(), -1);  // most matches with which a node was reached on this level
  size_t visits = 0;
  for (int depth = 0; !level.empty(); ++depth) {
    if (depth > kMaxDepth || (visits += level.size()) > 2 * units.size()) return false;
    deeper.clear();
    for (const auto& [node, matches] : level) {
      const size_t base = target(node);
      if ((base | 0xFF) >= units.size()) return false;
      for (uint32_t c = 0; c < 256; ++c) {
        const auto child = static_cast<uint32_t>(base ^ c);
        const uint32_t unit = units[child];
        if ((unit & (1u << 31 | 0xFF)) != c) continue;
        int found = matches;
        if ((unit >> 8 & 1) != 0) {
          const size_t leaf = target(child);
          if (leaf >= units.size() || (units[leaf] & 0x7FFFFFFF) >= replacements.size()) return false;
          if (++found > kMaxMatches) return false;
        }
        if (seen[child] < 0) deeper.emplace_back(child, found);
        seen[child] = std::max(seen[child], found);
      }
    }
    for (auto& [node, matches] : deeper) {
      matches = seen[node];
      seen[node] = -1;
    }
    level.swap(deeper);
  }
  return true;
}

Piece parse_piece(std::string_view message, const std::string& name, size_t id) {
  Piece piece;
  Fields field(message);
  while (field.next()) {
    if (field.is(1, 2)) piece.text = field.text;
    if (field.is(3, 0)) piece.type = static_cast<int>(std::min<uint64_t>(field.value, kByte + 1));
    if (field.is(2, 5)) {
      const uint32_t bits = little_endian(field.text, 0);
      float score = 0;
      std::memcpy(&score, &bits, sizeof score);
      require(std::isfinite(score), "{} is damaged: the score of piece {} is not a number", name, id);
    }
  }
  require(!field.damaged() && piece.type >= kNormal && piece.type <= kByte, "{} is damaged: piece {}", name, id);
  constexpr size_t kMaxBytes = 4096;
  require(!piece.text.empty() && piece.text.size() <= kMaxBytes && piece.text.find('\0') == piece.text.npos &&
              is_valid_utf8(piece.text),
          "{} is damaged: piece {} is not a text of 1 to {} bytes", name, id, kMaxBytes);
  return piece;
}

void check_normalizer(std::string_view specification, std::string_view* rule, const std::string& name) {
  Fields field(specification);
  while (field.next()) {
    if (field.is(1, 2) && rule != nullptr) *rule = field.text;
    if (field.is(2, 2))
      require(field.text.empty() || safe_rules(field.text), "{} is damaged: the rules of its normalisation", name);
  }
  require(!field.damaged(), "{} is damaged: its normalisation", name);
}

// Every prefix of a user-defined piece that is one, too, is a match of the library's search, which has room for 64.
void check_user_defined(const std::unordered_set<std::string_view>& defined, const std::string& name) {
  for (const auto& text : defined) {
    int matches = 0;
    for (size_t n = 1; n <= text.size(); ++n) matches += defined.contains(text.substr(0, n));
    require(matches <= 64, "{} is damaged: too many user-defined pieces begin like '{}'", name, text);
  }
}

}  // namespace

SentencePieceModel SentencePieceModel::parse(std::string_view bytes, const std::string& name) {
  SentencePieceModel model;
  Fields field(bytes);
  std::unordered_set<std::string_view> texts, user_defined;  // of the pieces
  std::string_view trainer, normalizer, denormalizer;        // serialised specifications
  const auto once = [&](std::string_view& target) {
    require(target.data() == nullptr, "{} is damaged: a part of it is there twice", name);
    target = field.text;
  };
  while (field.next()) {
    if (field.is(1, 2)) {
      const Piece piece = parse_piece(field.text, name, texts.size());
      require(texts.insert(piece.text).second, "{}: the piece '{}' is there twice", name, piece.text);
      if (piece.type == kUserDefined) user_defined.insert(piece.text);
    }
    if (field.is(2, 2)) once(trainer);
    if (field.is(3, 2)) once(normalizer);
    if (field.is(5, 2)) once(denormalizer);
  }
  require(!field.damaged(), "{} is cut off or damaged: no more than {} pieces of a SentencePiece model can be read",
          name, texts.size());
  require(!texts.empty() && trainer.data() != nullptr && normalizer.data() != nullptr,
          "{} is cut off: a SentencePiece model without its {}", name, texts.empty() ? "pieces" : "settings");
  Fields setting(trainer);
  while (setting.next()) {
    if (setting.is(3, 0)) model.kind = static_cast<int>(std::min<uint64_t>(setting.value, 5));
    if (setting.is(35, 0)) model.byte_fallback = setting.value != 0;
  }
  require(!setting.damaged() && model.kind >= 1 && model.kind <= 4, "{} is damaged: its settings", name);
  check_normalizer(normalizer, &model.rule, name);
  check_normalizer(denormalizer, nullptr, name);
  check_user_defined(user_defined, name);
  return model;
}

}  // namespace nmt
