#include "text/pair_reader.h"

#include "base/error.h"
#include "text/linear_tree.h"
#include "text/split_words.h"

namespace nmt {

PairReader::PairReader(const std::vector<std::string>& paths, bool target_trees) : target_trees_(target_trees) {
  require(!paths.empty() && paths.size() % 2 == 0,
          "{} files are given for sentence pairs: name a source and a target file, or several such pairs",
          paths.size());
  for (size_t i = 0; i < paths.size(); i += 2)
    sets_.emplace_back(TextReader(paths[i], OnNul::kRefuse), TextReader(paths[i + 1], OnNul::kRefuse));
}

bool PairReader::next(TextPair& pair) {
  for (; current_ < sets_.size(); ++current_) {
    auto& [source, target] = sets_[current_];
    const bool has_source = source.next(pair.source), has_target = target.next(pair.target);
    if (has_source && has_target) {
      pair.set = static_cast<int64_t>(current_);
      pair.line = source.line_number();
      if (target_trees_ && !split_words(pair.target).empty()) {
        const auto fault = tree_fault(pair.target, pair.source);
        require(fault.empty(), "{}:{}", place(pair.set, pair.line, true), fault);
      }
      return true;
    }
    if (has_source || has_target) {
      for (TextReader& longer = has_source ? source : target; longer.next(pair.source);) continue;
      user_error("{} has {} lines but {} has {}: sentence pairs must be aligned line by line", source.name(),
                 source.line_number(), target.name(), target.line_number());
    }
  }
  return false;
}

std::string PairReader::place(int64_t set, int64_t line, bool target) const {
  const auto& readers = sets_[static_cast<size_t>(set)];
  return fmt::format("{}:{}", (target ? readers.second : readers.first).name(), line);
}

std::string PairReader::names() const {
  std::string names;
  for (const auto& [source, target] : sets_)
    names += fmt::format("{}{} and {}", names.empty() ? "" : ", ", source.name(), target.name());
  return names;
}

}  // namespace nmt
