#pragma once

#include <cstdint>
#include <limits>

#include "base/math.h"
#include "tensor/arguments.h"
#include "tensor/dtype.h"
#include "tensor/update.h"

// SIMD kernels (Highway, chosen at run time for AVX2 or AVX-512). Each works on a range of rows or items
// in the calling thread; ops split the range with ThreadPool::parallel_for, where anything is added up over a chunk in
// chunks that do not depend on the number of threads, so results never depend on it. Tensors are row-major; `t` is the
// dtype of activations, kF32 or kBF16; all arithmetic is float32. Statistics, parameters and parameter gradients are
// float32.
namespace nmt::cpu {

struct Rows {
  int64_t begin, end;
};

// mask[i - begin] = 1 where element i is kept, else 0, for i in [begin, end): for values that lie elsewhere than their
// numbers say (see ops/heads.h), and for tests.
void dropout_mask(const Dropout& d, int64_t begin, int64_t end, uint8_t* mask);

// y = dropout(x) on elements [begin, end); y may be x. The gradient is the same function.
void dropout(DType t, const Dropout& d, int64_t begin, int64_t end, const void* x, void* y);

// z = x + dropout(y); out = (z - mean(z)) / sqrt(var(z) + eps) * scale + bias, by rows of `width`.
// y may be null (plain layer norm). `sum` receives z (may be null: not wanted), stats[2r], stats[2r+1] = mean,
// 1/sqrt(var + eps). (Ba et al. 2016; "Attention Is All You Need", section 5.4 for the dropout.)
void add_dropout_layer_norm(DType t, Rows rows, int64_t width, const void* x, const void* y, const Dropout& d,
                            const float* scale, const float* bias, float eps, void* sum, void* out, float* stats);

// From dout and the saved z and stats: dx = dz and, where dy is not null, dy = dropout mask applied to dz. dx may be
// dout. dscale and dbias (width floats each) are added to (the caller gives each chunk of rows its own partial sums).
void layer_norm_backward(DType t, Rows rows, int64_t width, const void* dout, const void* sum, const float* stats,
                         const float* scale, const Dropout& d, void* dx, void* dy, float* dscale, float* dbias);

// Row-wise softmax and log-softmax, numerically safe; a row of -inf only gives zeros (softmax). y may be x.
void softmax(DType t, Rows rows, int64_t width, const void* x, void* y);
void softmax_backward(DType t, Rows rows, int64_t width, const void* y, const void* dy, void* dx);  // dx may be dy
void log_softmax(DType t, Rows rows, int64_t width, const void* x, void* y);
void log_softmax_backward(DType t, Rows rows, int64_t width, const void* y, const void* dy, void* dx);

// Cross-entropy with label smoothing of rows of logits against labels; rows whose label is < 0 give 0.
// loss[r] = -(1 - smoothing) log p(label) - smoothing / width * sum_v log p(v) (section 5.4; Szegedy et al. 2015);
// nll[r] = -log p(label), may be null; dlogits = weight * (p - (1 - smoothing) onehot - smoothing / width), where bf16
// is rounded twice, but for the label's.
//
// Logits are looked at by tiles of columns, so that those of all columns need not exist at a time. What is kept of each
// row and tile:
struct LogitTiles {
  int64_t width, columns;                        // of a row, and of each tile of it but the last
  float *largest, *sum_of_exp, *sum_of_shifted;  // [rows, tiles()]; of exp(logit - largest), and of logit - largest
  float* label_logit;                            // [rows]

  int64_t tiles() const { return divide_up(width, columns); }
  // Lays them out in floats(rows, width, columns) floats of memory.
  static LogitTiles in(float* memory, int64_t rows, int64_t width, int64_t columns);
  static int64_t floats(int64_t rows, int64_t width, int64_t columns);
};
// Looks at a tile: float32 logits [rows, the tile's columns] without gaps. exps, if not null, is where dlogits
// [rows, width] will be: its columns of the tile become exp(logit - largest), of dtype t. Rows that give 0 are skipped.
void look_at_logits(DType t, const LogitTiles& tiles, Rows rows, int64_t tile, const float* logits,
                    const int32_t* labels, void* exps);
// When all tiles of the rows have been looked at; where dlogits, of dtype t, is not null, it holds what exps was.
// Overwrites the tiles.
void cross_entropy(DType t, const LogitTiles& tiles, Rows rows, const int32_t* labels, float smoothing, float weight,
                   float* loss, float* nll, void* dlogits);

// out[r] = dropout(factor * table[ids[r]] + encodings[positions[r]]); ids[r] < 0: a zero vector in place of the
// embedding. `table` is float32 [vocabulary, width]; `encodings` float32 [longest, width].
void embed(DType t, Rows rows, int64_t width, const float* table, const int32_t* ids, const float* encodings,
           const int32_t* positions, float factor, const Dropout& d, void* out);

// dtable[id] += factor * dropout-masked dout[r] for the rows r = order[i], i in [begin, end); `order` sorts rows by id,
// so that a chunk that begins at a new id owns its table rows; the sum runs in order of rows: the same bits each time.
void embed_backward(DType t, Rows sorted, int64_t width, const void* dout, const int32_t* ids, const int32_t* order,
                    float factor, const Dropout& d, float* dtable);

// Elementwise, on elements [begin, end) of each tensor; the result may be one of the operands.
// relu_backward takes ReLU's output y: dx = dy where y > 0, else 0. gelu: x * Phi(x), exact (Hendrycks and Gimpel
// 2016). silu: x * sigmoid(x).
void relu_backward(DType t, int64_t begin, int64_t end, const void* y, const void* dy, void* dx);
void relu(DType t, int64_t begin, int64_t end, const void* x, void* y);
void gelu(DType t, int64_t begin, int64_t end, const void* x, void* y);
void gelu_backward(DType t, int64_t begin, int64_t end, const void* x, const void* dy, void* dx);
void silu(DType t, int64_t begin, int64_t end, const void* x, void* y);
void silu_backward(DType t, int64_t begin, int64_t end, const void* x, const void* dy, void* dx);
void add(DType t, int64_t begin, int64_t end, const void* a, const void* b, void* y);
void multiply(DType t, int64_t begin, int64_t end, const void* a, const void* b, void* y);
void scale(DType t, int64_t begin, int64_t end, const void* x, float factor, void* y);

// sums[c] += sum over rows of x[r][c]; the caller gives each chunk of rows its own partial sums.
void column_sums(DType t, Rows rows, int64_t width, const void* x, float* sums);
void add_f32(int64_t begin, int64_t end, const float* x, float* y);  // y += x

// Conversions of n elements, round to nearest even.
void convert(DType from, const void* x, DType to, void* y, int64_t n);

// y[c][r] = x[r][c]: x [rows, columns] has leading dimension ldx, y ldy (elements).
void transpose(int64_t rows, int64_t columns, const float* x, int64_t ldx, float* y, int64_t ldy);

// Adam on elements [begin, end) of flat buffers; average may be null.
void adam(const Adam& a, int64_t begin, int64_t end, float* g, float* m, float* v, float* p, float* average);
double sum_of_squares(const float* x, int64_t n);  // accumulated in float64

// The k largest of a row of float32 logits, found part by part: values[k] and indices[k], ordered by value, ties by
// lower index, of which `found` are there yet; and sum = sum of exp(logit - shift) so far.
struct BestLogits {
  float shift = -std::numeric_limits<float>::infinity(), sum = 0;
  int found = 0;
};
// The logits in the mask (logit i: bit i % 8 of byte i / 8), one after another; returns how many.
int64_t keep_logits(int64_t width, const uint8_t* mask, const float* logits, float* kept);
// Goes on with the row's next part, logits `first` .. `first` + width.
void find_best(const float* logits, int64_t width, int32_t first, int k, BestLogits& best, float* values,
               int32_t* indices);
// The k best of a row as log-probabilities (log-softmax) in the same order, where several have looked at parts of it,
// in the order of their indices: p's values and indices are at values[p * stride], indices[p * stride]. Fewer than k:
// -infinity and index 0; where a logit is not a number: NaN and index 0. `best` may be the indices of a single part.
void merge_best(int parts, const BestLogits* part, int k, int64_t stride, const float* values, const int32_t* indices,
                float* log_probabilities, int32_t* best);

// ---- int8 ---------------------------------------------------------------------------------------------------------
// What bytes of a row of activations mean: x is near low + step * q.
struct RowScale {
  float low, step;
};
// Rows as bytes: x[r][k] is near scales[r].low + scales[r].step * q[r][k], q from 0 to `levels`; rows of q are q_stride
// bytes apart, zero behind the width. The step of a row with an element that is not finite is NaN.
void quantise_rows(DType t, Rows rows, int64_t width, int levels, const void* x, uint8_t* q, int64_t q_stride,
                   RowScale* scales);

// Columns of a weight, which is finite, as integers: w[n][k] is near scale[n] * q[n][k], q from -127 to 127; sum[n] =
// scale[n] * sum_k q[n][k]. With `fours`, those of one sign among the four q at k = 8 i + {0, 1, 4, 5}, and at 8 i +
// {2, 3, 6, 7}, sum up to 258 at most, for which the scale is a little larger where need be: 127 times as much is less
// than 2^15.
void quantise_weight(Rows rows, int64_t width, bool fours, const float* w, int8_t* q, float* scale, float* sum);

// y[r][c] = activation(sums[r][c] * rows[r].step * scale[c] + rows[r].low * sum[c] + bias[c]). sums: [count, width]
// with the row stride lds, y: of dtype t with the row stride ldy.
void dequantise(DType t, int64_t count, int64_t width, const int32_t* sums, int64_t lds, const RowScale* rows,
                const float* scale, const float* sum, const float* bias, bool relu, void* y, int64_t ldy);

// ---- attention ----------------------------------------------------------------------------------------------------
// Attention of some items. One is a (sentence, head): item = sentence * heads + head; an item's cost varies with its
// lengths. logsumexp: null, or for the gradient log of each softmax's normaliser, [heads, all queries].
void attention(DType t, const Attention& a, int64_t item_begin, int64_t item_end, const void* q, const void* k,
               const void* v, void* out, float* logsumexp);

// Gradients, written to rows of the same strides (dq with q_stride ...); every element of the items' columns is
// written. The forward result is not needed: sum_j p_ij dp_ij is recomputed.
void attention_backward(DType t, const Attention& a, int64_t item_begin, int64_t item_end, const void* q, const void* k,
                        const void* v, const float* logsumexp, const void* dout, void* dq, void* dk, void* dv);

// Attention over a cache, of some rows. Those that follow one another, four at most, read together the keys that all
// begin with.
void attention_cached(DType t, const AttentionOverCache& a, int64_t row_begin, int64_t row_end, const void* q,
                      const void* k_cache, const void* v_cache, void* out);

// ---- recurrence -----------------------------------------------------------------------------------------------------
// h_t = tanh(x_t + U h_{t-1}) along the sentences sentence_begin .. sentence_end, whose rows begin at begin[s];
// reversed: from their ends to their beginnings. Rows of `width`; u: float32 [width, width], a row for each element of
// the result.
void recurrence(DType t, int64_t sentence_begin, int64_t sentence_end, const int32_t* begin, bool reversed,
                int64_t width, const void* x, const float* u, void* h);
// dx, which is the gradient of what tanh is taken of.
void recurrence_backward(DType t, int64_t sentence_begin, int64_t sentence_end, const int32_t* begin, bool reversed,
                         int64_t width, const void* h, const void* dh, const float* u, void* dx);
// One step of each row: the state before is row entry[r * entry_stride + length[r] - 2] of `states`, where length[r]
// > 1.
void recurrent_step(DType t, Rows rows, int64_t width, const void* x, const float* u, const void* states,
                    const int32_t* entry, int64_t entry_stride, const int32_t* length, void* h);

const char* instruction_set();  // the Highway target in use: "AVX2", "AVX3" ...
// Unless oneDNN is told not to use it: AVX-512 (F, BW, DQ, VL), its instructions for bf16, and those for bytes (VNNI).
bool has_avx512();
bool has_avx512_bf16();
bool has_vnni();

}  // namespace nmt::cpu
