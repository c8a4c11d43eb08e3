#pragma once

#include "nn/packed_text.h"
#include "text/batch.h"

namespace nmt {

// A batch as the model reads it.
inline PairInput pair_input(const Batch& b) { return {b.source, b.source_begin, b.target, b.target_begin}; }

}  // namespace nmt
