#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/files.h"
#include "decode/alignment.h"

namespace nmt {

// Which files about attention nmt-decode writes.
struct AttentionOptions {
  std::string attention, alignment;  // files; empty: not wanted
  int decimals = 4;
  AlignmentOptions rule;

  void declare(Options& options);
  bool wanted() const { return !attention.empty() || !alignment.empty(); }
  // Throws UserError for options that contradict each other.
  void validate() const;
};

// Writes what a model attends to in pairs of sentence and translation, which it reads once more for that. In float32:
// where `runtime` computes in another precision, one of its own does it, with packed weights of its own.
class AttentionOutput {
 public:
  // All live as long as this. Throws UserError where the model has not what the options ask for, and as AtomicFile
  // does.
  AttentionOutput(const AttentionOptions& options, const Scorer& scorer, Runtime& runtime, const Vocab& source,
                  const Vocab& target);

  // A line for each pair; a pair without ids, of a line without text, has no weights and no links.
  void write(std::span<const IdPair> pairs);
  void commit();

 private:
  void write(const IdPair& pair, const PairAttention& attention);

  const AttentionOptions& options_;
  Scorer scorer_;
  std::unique_ptr<Runtime> own_;
  Runtime& runtime_;
  const Vocab &source_, &target_;
  std::optional<AtomicFile> attention_, alignment_;
};

}  // namespace nmt
