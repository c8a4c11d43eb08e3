#include "decode/tree_grammar.h"

#include "base/error.h"
#include "text/linear_tree.h"

namespace nmt {

TreeGrammar::TreeGrammar(const Vocab& vocab, bool of_both_sides, const std::string& name)
    : kinds_(static_cast<size_t>(vocab.size()), Kind::kNone),
      closes_(static_cast<size_t>(vocab.size()), -1),
      eos_(vocab.eos_id()) {
  require(vocab.type() == "words", "{}: trees need a target vocabulary of words (nmt-vocab --type words), not {}", name,
          vocab.type());
  for (int32_t id = 0; id < vocab.size(); ++id) {
    if (id == eos_ || id == vocab.unk_id()) continue;
    const std::string piece = vocab.piece(id);
    Kind& kind = kinds_[static_cast<size_t>(id)];
    if (is_bracket(piece)) {
      const int partner = vocab.find((piece[0] == '(' ? ")" : "(") + piece.substr(1));
      if (partner < 0) continue;
      kind = piece[0] == '(' ? Kind::kOpens : Kind::kCloses;
      if (kind == Kind::kCloses) continue;
      opening_.push_back(id);
      closes_[static_cast<size_t>(id)] = partner;
    } else if (of_both_sides ? piece == kAnyTag : piece.find_first_of("()") == piece.npos) {
      kind = Kind::kLeaf;
      leaves_.push_back(id);
    }
  }
  require(!opening_.empty() && !leaves_.empty(),
          "{}: trees need a target vocabulary with brackets such as (NP and )NP, and with {} or tags; make one of what "
          "nmt-vocab linearise writes",
          name, kAnyTag);
}

void TreeGrammar::next(std::span<const int32_t> begun, int64_t words, int64_t limit, std::vector<int32_t>& ids) const {
  thread_local std::vector<int32_t> open;  // the tokens that will close what is open
  open.clear();
  bool empty = false;  // the innermost open constituent
  for (const int32_t id : begun) {
    const Kind kind = kinds_.at(static_cast<size_t>(id));
    if (kind == Kind::kOpens) {
      open.push_back(closes_[static_cast<size_t>(id)]);
    } else if (kind == Kind::kCloses) {
      check(!open.empty() && open.back() == id, "a tree goes on after a wrong bracket");
      open.pop_back();
    } else {
      check(kind == Kind::kLeaf && words > 0, "a tree goes on after a wrong leaf");
      --words;
    }
    empty = kind == Kind::kOpens;
  }
  // What is left beside the leaves, closing brackets and </s> that must come.
  const int64_t room = limit - std::ssize(begun) - words - std::ssize(open) - 1;
  check(room >= 0, "a tree has no room for its words");
  ids.clear();
  if (words > 0) ids.insert(ids.end(), leaves_.begin(), leaves_.end());
  if (words > 0 && room >= 2 && open.size() < kMostOpen) ids.insert(ids.end(), opening_.begin(), opening_.end());
  if (!open.empty() && !empty) ids.push_back(open.back());
  if (words == 0 && open.empty()) ids.push_back(eos_);
}

}  // namespace nmt
