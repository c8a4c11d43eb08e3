#pragma once

#include "graph/op.h"

// What ops that project to a vocabulary share on a device.
namespace nmt {

// Of `rows` rows of logits, `width` wide, how many exist together: enough for a product that fills a device, within a
// bounded working memory.
int64_t device_logit_rows(int64_t rows, int64_t width);

// logits [count, vocabulary] float32 of rows `first` .. of x [rows, d] (input 0), by w [vocabulary, d] (input 1).
void project_logits(const Launch& l, int64_t first, int64_t count, float* logits);

}  // namespace nmt
