#pragma once

#include "tensor/arguments.h"
#include "tensor/dtype.h"

// Attention whose scores are w . tanh(q + k) in place of a product (Bahdanau et al. 2015; "Attention Is All You Need",
// section 3.2.1), as kernels.h has the other. w: float32 [heads, d_k]; the description's scale is not used.
namespace nmt::cpu {

void additive_attention(DType t, const Attention& a, int64_t item_begin, int64_t item_end, const void* q, const void* k,
                        const void* v, const float* w, void* out, float* logsumexp);

// dw: [heads, d_k] for each sentence, the part of the gradient that is its own.
void additive_attention_backward(DType t, const Attention& a, int64_t item_begin, int64_t item_end, const void* q,
                                 const void* k, const void* v, const float* w, const float* logsumexp, const void* dout,
                                 void* dq, void* dk, void* dv, float* dw);

}  // namespace nmt::cpu
