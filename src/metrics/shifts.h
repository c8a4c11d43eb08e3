#pragma once

#include <cstddef>

#include "metrics/ngrams.h"

namespace nmt::metrics {

// The number of word edits of TER (Snover et al. 2006): the hypothesis' block shifts that a greedy search finds, each
// one edit, plus the edit distance that is left. Search order, its limits (shifts of at most 10 words over at most 50,
// a beam of 25 around the diagonal, 1,000 shifts tried) and ties are those of sacreBLEU's form of tercom.
size_t edits_with_shifts(const Symbols& hypothesis, const Symbols& reference);

}  // namespace nmt::metrics
