#include "decode/attention_output.h"

#include <algorithm>

#include "base/error.h"
#include "base/files.h"

namespace nmt {

void AttentionOptions::declare(Options& o) {
  o.group("Attention (of the best translations, or of those of --score-targets)");
  o.add("attention", attention,
        "Write the weights of all layers and heads to this file, as --output does, a JSON object a line "
        "(scripts/attention shows them)");
  o.add("attention-decimals", decimals, "With --attention: decimals of the weights").range(1, 6);
  o.add("alignment", alignment,
        "Write which words belong together to this file, as --output does: 0-0 1-2 ... (SOURCE-TARGET, from 0; words "
        "as normalised; an unknown piece is of the word around it, though SentencePiece writes spaces around its ⁇)");
  rule.declare(o);
}

void AttentionOptions::validate() const {
  require(!attention.empty() || decimals == AttentionOptions().decimals,
          "--attention-decimals is for --attention FILE");
  require(!alignment.empty() || rule == AlignmentOptions(),
          "--alignment-layer, --alignment-head, --alignment-threshold and --alignment-step are for --alignment FILE");
}

AttentionOutput::AttentionOutput(const AttentionOptions& options, const Scorer& scorer, Runtime& runtime,
                                 const Vocab& source, const Vocab& target)
    : options_(options),
      scorer_(scorer),
      own_(runtime.compute() == DType::kF32
               ? nullptr
               : std::make_unique<Runtime>(runtime.pool().size(), DType::kF32, false, runtime.backend())),
      runtime_(own_ ? *own_ : runtime),
      source_(source),
      target_(target) {
  require(scorer.transformer->config().attention != "additive",
          "--attention and --alignment need attention by products; additive attention (--transformer-attention) keeps "
          "no weights");
  if (own_) own_->weights().on_packed = runtime.weights().on_packed;
  if (!options.alignment.empty()) {
    options.rule.check_model(scorer.transformer->config());
    alignment_.emplace(options.alignment, AtomicFile::Unfinished::kKept);
  }
  if (!options.attention.empty()) attention_.emplace(options.attention, AtomicFile::Unfinished::kKept);
}

void AttentionOutput::write(std::span<const IdPair> pairs) {
  for (size_t begin = 0; begin < pairs.size();) {
    const auto blank = [](const IdPair& pair) { return pair.source.empty(); };
    const auto rest = pairs.subspan(begin);
    const auto texts = static_cast<size_t>(std::ranges::find_if(rest, blank) - rest.begin());
    read_attention(scorer_, runtime_, rest.first(texts), attention_.has_value(),
                   [this](const IdPair& pair, const PairAttention& attention) { write(pair, attention); });
    if (texts < rest.size()) write(rest[texts], {});
    begin += texts + 1;
  }
}

void AttentionOutput::write(const IdPair& pair, const PairAttention& attention) {
  if (attention_) {
    attention_->write(attention_json(pair, attention, source_, target_, options_.decimals));
    attention_->send();
  }
  if (!alignment_) return;
  const auto links =
      align_words(attention.cross, source_.words_of(pair.source), target_.words_of(pair.target), options_.rule);
  alignment_->write(alignment_text(links) + "\n");
  alignment_->send();
}

void AttentionOutput::commit() {
  if (attention_) attention_->commit();
  if (alignment_) alignment_->commit();
}

}  // namespace nmt
