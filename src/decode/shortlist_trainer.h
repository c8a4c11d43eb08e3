#pragma once

#include "base/thread_pool.h"
#include "config/options.h"
#include "decode/shortlist.h"
#include "text/sentence_store.h"

namespace nmt {

// Targets of a source token that take part in the training.
inline constexpr int kTargetsKept = 300;

struct ShortlistTraining {
  int best = 100, frequent = 100, iterations = 5;

  void declare(Options& options);
};

// Learns from sentence pairs, as the ids of their tokens, which target tokens translate a source token: by p(f|e) of
// IBM Model 1 (Brown et al. 1993, "The Mathematics of Statistical Machine Translation", section 4.1), e one of the
// source tokens or the null word. Of each source token at most kTargetsKept take part, those of the highest Dice
// coefficient (the share of the sentences with one of the two that have both): memory grows with the vocabularies,
// not with the text. Always there are </s>, <unk> and the tokens that occur in most sentences. The result does not
// depend on the number of threads.
Shortlist train_shortlist(const SentenceStore& pairs, const Vocab& source, const Vocab& target,
                          const ShortlistTraining& settings, ThreadPool& pool);

// How many of a text's target tokens are candidates for their sentence.
struct ShortlistFit {
  int64_t pairs = 0, tokens = 0, covered = 0;  // without </s>
  int64_t candidates = 0;                      // of all sentences together

  // "99.610% of 123456 target tokens are candidates, of which a sentence has 456.7"
  std::string text() const;
};

ShortlistFit measure_fit(const Shortlist& shortlist, const SentenceStore& pairs, ThreadPool& pool);

}  // namespace nmt
