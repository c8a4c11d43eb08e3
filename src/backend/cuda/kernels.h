#pragma once

#include <cstdint>

#include "backend/cuda/device.h"
#include "tensor/arguments.h"
#include "tensor/beam_batch.h"
#include "tensor/dtype.h"
#include "tensor/update.h"

// Kernels on a device, each begun on a stream; all pointers are device memory. They compute what those of the same name
// in backend/cpu/kernels.h do, on whole tensors: row-major, `t` the dtype of activations (kF32, kBF16 or kF16),
// arithmetic, statistics, parameters and their gradients in float32. No result depends on time: there are no float
// atomics, and sums are added up in a fixed order.
namespace nmt::cuda {

// ---- elementwise, n elements; y may be an operand -----------------------------------------------
enum class Function : uint8_t { kRelu, kGelu, kSilu };
void apply(Stream s, DType t, Function f, int64_t n, const void* x, void* y);
// known: the function's output for ReLU, its input for the others.
void apply_backward(Stream s, DType t, Function f, int64_t n, const void* known, const void* dy, void* dx);
// y[i] = a[i] + b[i % period]; b is of dtype tb.
void add(Stream s, DType t, DType tb, int64_t n, int64_t period, const void* a, const void* b, void* y);
void multiply(Stream s, DType t, int64_t n, const void* a, const void* b, void* y);
void scale(Stream s, DType t, int64_t n, const void* x, float factor, void* y);
void convert(Stream s, DType from, const void* x, DType to, void* y, int64_t n);
void fill(Stream s, DType t, int64_t n, float value, void* y);
void dropout(Stream s, DType t, const Dropout& d, int64_t n, const void* x, void* y);

// sums[c] = (accumulate: sums[c] +) the sum over rows of x[r][c], in dtype t_sums. room: column_sums_room(rows, width)
// floats.
int64_t column_sums_room(int64_t rows, int64_t width);
void column_sums(Stream s, DType t, int64_t rows, int64_t width, const void* x, float* room, DType t_sums, void* sums,
                 bool accumulate);

// ---- moving -------------------------------------------------------------------------------------
// y[r][to + c] = x[r][from + c] for c < count; rows of x and y are x_width and y_width wide. Elements of `size` bytes.
void copy_columns(Stream s, int size, int64_t rows, int64_t count, const void* x, int64_t x_width, int64_t from,
                  void* y, int64_t y_width, int64_t to);
// [rows, heads, d] -> [heads, rows, d]; and back, with rows and heads exchanged. Elements of `size` bytes.
void swap_heads(Stream s, int size, int64_t rows, int64_t heads, int64_t d, const void* x, void* y);
// y[to[r]] = x[r] for rows of `bytes`; to[r] < 0: that row is left out.
void scatter_rows(Stream s, int64_t rows, int64_t bytes, const void* x, int64_t x_stride, const int32_t* to, void* y);

// ---- rows ---------------------------------------------------------------------------------------
void softmax(Stream s, DType t, bool log, int64_t rows, int64_t width, const void* x, void* y);
void softmax_backward(Stream s, DType t, bool log, int64_t rows, int64_t width, const void* y, const void* dy,
                      void* dx);
// Layer norms are of kWidestLayerNormOfDevices columns at most, however they are aligned.
void add_dropout_layer_norm(Stream s, DType t, int64_t rows, int64_t width, const void* x, const void* y,
                            const Dropout& d, const float* scale, const float* bias, float eps, void* sum, void* out,
                            float* stats);
// room: layer_norm_room(rows, width) floats; dscale and dbias are added to.
int64_t layer_norm_room(int64_t rows, int64_t width);
void layer_norm_backward(Stream s, DType t, int64_t rows, int64_t width, const void* dout, const void* sum,
                         const float* stats, const float* scale, const Dropout& d, void* dx, void* dy, float* room,
                         float* dscale, float* dbias);

// ---- embeddings ---------------------------------------------------------------------------------
void embed(Stream s, DType t, int64_t rows, int64_t width, const float* table, const int32_t* ids,
           const float* encodings, const int32_t* positions, float factor, const Dropout& d, void* out);
// dtable[ids[r]] += factor * dropout-masked dout[r], for each id in the order of its rows. room: embed_room(rows)
// bytes.
int64_t embed_room(int64_t rows);
void embed_backward(Stream s, DType t, int64_t rows, int64_t width, const void* dout, const int32_t* ids, float factor,
                    const Dropout& d, void* room, float* dtable);
// order: the rows by rising id, equal ones in their order; sorted_ids: their ids. room: sort_room(rows) bytes.
int64_t sort_room(int64_t rows);
void sort_rows(Stream s, int64_t rows, const int32_t* ids, void* room, int32_t* sorted_ids, int32_t* order);

// ---- losses and the best tokens -----------------------------------------------------------------
// As cpu::cross_entropy, the gradient scaled by *weight (and by *factor, unless null). loss, nll and dlogits may be
// null.
void cross_entropy(Stream s, DType t, int64_t rows, int64_t width, const float* logits, const int32_t* labels,
                   float smoothing, const float* weight, const float* factor, float* loss, float* nll, void* dlogits);
// *sum = *weight * the sum of x, added up in float64.
void weighted_sum(Stream s, int64_t n, const float* x, const float* weight, float* sum);
// The k largest of each row of float32 logits as log-probabilities (log-softmax), falling, equal ones by rising id;
// with a mask (see project_top_k; rows of mask_bytes) the row is what its bits say. Fewer than k: -infinity and id 0.
void top_k(Stream s, int64_t rows, int64_t width, int k, const float* logits, const uint8_t* mask, int64_t mask_bytes,
           float* log_probabilities, int32_t* ids);

// See BeamBatch: the rows of a step of its searches, and the step.
void beam_rows(Stream s, const BeamBatch& batch, const BeamRows& rows);
void advance_beams(Stream s, const BeamBatch& batch, const BeamStep& step);

// ---- attention ----------------------------------------------------------------------------------
// See nmt::Attention, whose arrays are device memory; `queries` and `keys`: rows of all sentences.
void attention(Stream s, DType t, const Attention& a, int64_t queries, const void* q, const void* k, const void* v,
               void* out, float* logsumexp);
// room: attention_room(...) floats.
int64_t attention_room(int64_t queries, int heads);
void attention_backward(Stream s, DType t, const Attention& a, int64_t queries, int64_t keys, const void* q,
                        const void* k, const void* v, const float* logsumexp, const void* dout, float* room, void* dq,
                        void* dk, void* dv);
void attention_cached(Stream s, DType t, const AttentionOverCache& a, int64_t rows, const void* q, const void* k_cache,
                      const void* v_cache, void* out);
// The composed form's mask and dropout of weights [heads, queries, keys]; see ops/heads.h.
void mask_segments(Stream s, DType t, int heads, int64_t queries, int64_t keys, int64_t sentences,
                   const int32_t* q_begin, const int32_t* k_begin, KeyMask mask, const void* x, void* y);
void dropout_segments(Stream s, DType t, int heads, int64_t queries, int64_t keys, int64_t sentences,
                      const int32_t* q_begin, const int32_t* k_begin, const int64_t* weight_begin, const Dropout& d,
                      const void* x, void* y);

// ---- updates ------------------------------------------------------------------------------------
// *update = decide(rule, *totals, *update).
void decide(Stream s, const UpdateRule& rule, const UpdateTotals* totals, Update* update);
// The update that was decided on, on n elements: Adam, or where it is skipped only g = 0. average may be null; so may
// copy, which else was p in dtype t_copy and is so again.
void adam(Stream s, const Update* update, int64_t n, float* g, float* m, float* v, float* p, float* average,
          DType t_copy, void* copy);
// *sum += *x.
void add_to(Stream s, const float* x, double* sum);
// *sum = the sum of squares, added up in float64. room: sum_of_squares_room(n) doubles.
int64_t sum_of_squares_room(int64_t n);
void sum_of_squares(Stream s, int64_t n, const float* x, double* room, double* sum);

}  // namespace nmt::cuda
