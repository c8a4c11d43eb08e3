#include "backend/cpu/attention_amx.h"

#include <algorithm>

#include "backend/cpu/avx512.h"
#include "backend/cpu/scratch.h"
#include "base/math.h"

namespace nmt::cpu {
namespace {

using namespace avx512;

constexpr int64_t kLineElements = kLine / 2;
constexpr int64_t kFewestQueries = 64;  // of a block, unless it has all

int64_t groups_of(int64_t n) { return divide_up(n, kAmxTile); }
int64_t lines_of(int64_t n) { return divide_up(n, kLineElements); }

// Rows of so many elements in the arguments of attention.
struct Source {
  const void* at;
  int64_t stride, rows, width;

  const uint16_t* row(int64_t r) const { return static_cast<const uint16_t*>(at) + r * stride; }
};

// ---- operands -----------------------------------------------------------------------------------------------------

NMT_AMX inline __m512i load_line(const Source& x, int64_t r, int64_t line) {
  return _mm512_maskz_loadu_epi16(lanes_of_line(x.width - line * kLineElements), x.row(r) + line * kLineElements);
}

// The rows of a left operand; those that fill up the last group stay what they are.
NMT_AMX void take_rows(const Source& x, const AmxMatrix& to) {
  for (int64_t r = 0; r < x.rows; ++r)
    for (int64_t line = 0; line < to.lines; ++line)
      _mm512_store_si512(to.tile(r / kAmxTile, line) + r % kAmxTile * kLine, load_line(x, r, line));
}

// The rows of x become columns of a right operand, with zeros up to a whole group.
NMT_AMX void take_columns(const Source& x, const AmxMatrix& to) {
  for (int64_t group = 0; group < groups_of(x.rows); ++group)
    for (int64_t line = 0; line < to.lines; ++line) {
      Vectors v;
      for (int64_t i = 0; i < kAmxTile; ++i) {
        const int64_t r = group * kAmxTile + i;
        v[i] = r < x.rows ? load_line(x, r, line) : _mm512_setzero_si512();
      }
      transpose(v);
#pragma GCC unroll 16
      for (int64_t i = 0; i < kAmxTile; ++i) _mm512_store_si512(to.tile(group, line) + i * kLine, v[i]);
    }
}

// The rows of x are those of a right operand: the sum goes over them. Zeros fill up its lines.
NMT_AMX void take_terms(const Source& x, const AmxMatrix& to) {
  const __m512i low = _mm512_set_epi64(11, 10, 3, 2, 9, 8, 1, 0), high = _mm512_set_epi64(15, 14, 7, 6, 13, 12, 5, 4);
  for (int64_t column = 0; column < to.groups; column += 2)
    for (int64_t line = 0; line < to.lines; ++line) {
      std::byte *first = to.tile(column, line), *second = to.tile(std::min(column + 1, to.groups - 1), line);
      for (int64_t i = 0; i < kAmxTile; ++i, first += kLine, second += kLine) {
        const int64_t r = line * kLineElements + 2 * i;
        const __m512i even = r < x.rows ? load_line(x, r, column / 2) : _mm512_setzero_si512();
        const __m512i odd = r + 1 < x.rows ? load_line(x, r + 1, column / 2) : _mm512_setzero_si512();
        const __m512i a = _mm512_unpacklo_epi16(even, odd), b = _mm512_unpackhi_epi16(even, odd);
        _mm512_store_si512(second, _mm512_permutex2var_epi64(a, high, b));
        _mm512_store_si512(first, _mm512_permutex2var_epi64(a, low, b));
      }
    }
}

// Rows of float32, of whole lines and so many floats apart, rounded to the rows of a left operand.
NMT_AMX void round_rows(const float* x, int64_t length, int64_t rows, const AmxMatrix& to) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t line = 0; line < to.lines; ++line) {
      const float* from = x + r * length + line * kLineElements;
      _mm512_store_si512(to.tile(r / kAmxTile, line) + r % kAmxTile * kLine,
                         (__m512i)_mm512_cvtne2ps_pbh(_mm512_load_ps(from + kLanes), _mm512_load_ps(from)));
    }
}

// Rounded, too, but the columns of x, of which there are so many groups, become the rows; zeros fill up the lines.
NMT_AMX void round_columns(const float* x, int64_t length, int64_t rows, int64_t groups, const AmxMatrix& to) {
  const __m512i pairs =
      _mm512_set_epi32(0x1F000F, 0x1E000E, 0x1D000D, 0x1C000C, 0x1B000B, 0x1A000A, 0x190009, 0x180008, 0x170007,
                       0x160006, 0x150005, 0x140004, 0x130003, 0x120002, 0x110001, 0x100000);
  for (int64_t line = 0; line < to.lines; ++line)
    for (int64_t group = 0; group < groups; ++group) {
      const float* from = x + line * kLineElements * length + group * kLanes;
      const int64_t left = rows - line * kLineElements;
      Vectors v;
      for (int64_t i = 0; i < kAmxTile; ++i, from += 2 * length) {
        if (2 * i >= left) {
          v[i] = _mm512_setzero_si512();
          continue;
        }
        const __m512 second = 2 * i + 1 < left ? _mm512_load_ps(from + length) : _mm512_setzero_ps();
        v[i] = _mm512_permutexvar_epi16(pairs, (__m512i)_mm512_cvtne2ps_pbh(second, _mm512_load_ps(from)));
      }
      transpose(v);
#pragma GCC unroll 16
      for (int64_t i = 0; i < kAmxTile; ++i) _mm512_store_si512(to.tile(group, line) + i * kLine, v[i]);
    }
}

// ---- products -----------------------------------------------------------------------------------------------------

// c (+)= a b, of so many groups of rows and of columns and a's lines. Rows of c are so many floats apart.
struct Product {
  int64_t rows, columns;
  AmxMatrix a, b;
  float* c;
  int64_t c_row;
  int64_t added = 0;  // c's groups of rows that are added to
  Triangle triangle = Triangle::kNone;
  int64_t diagonal = 0;
};

// kRows x kColumns tiles of c.
template <int kRows, int kColumns>
NMT_AMX void multiply_tiles(const AmxMatrix& a, const AmxMatrix& b, int64_t begin, int64_t end, float* c, int64_t c_row,
                            bool add) {
  const int64_t c_bytes = c_row * static_cast<int64_t>(sizeof(float));
  float* const lower = c + kAmxTile * c_row;
  if (add) {
    _tile_loadd(0, c, c_bytes);
    if constexpr (kColumns == 2) _tile_loadd(1, c + kAmxTile, c_bytes);
    if constexpr (kRows == 2) _tile_loadd(2, lower, c_bytes);
    if constexpr (kRows == 2 && kColumns == 2) _tile_loadd(3, lower + kAmxTile, c_bytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int64_t line = begin; line < end; ++line) {
    _tile_loadd(4, a.tile(0, line), kLine);
    _tile_loadd(6, b.tile(0, line), kLine);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kColumns == 2) {
      _tile_loadd(7, b.tile(1, line), kLine);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (kRows == 2) {
      _tile_loadd(5, a.tile(1, line), kLine);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (kColumns == 2) _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, c, c_bytes);
  if constexpr (kColumns == 2) _tile_stored(1, c + kAmxTile, c_bytes);
  if constexpr (kRows == 2) _tile_stored(2, lower, c_bytes);
  if constexpr (kRows == 2 && kColumns == 2) _tile_stored(3, lower + kAmxTile, c_bytes);
}

void multiply(const Product& p) {
  AmxTiles::finish_writing();
  for (int64_t row = 0, rows; row < p.rows; row += rows) {
    const bool add = row < p.added;
    rows = std::min<int64_t>(2, (add ? std::min(p.added, p.rows) : p.rows) - row);
    const int64_t first = row * kAmxTile, last = first + rows * kAmxTile - 1;
    int64_t begin = 0, end = p.a.lines, columns = p.columns;
    if (p.triangle == Triangle::kOutput) columns = std::min(columns, groups_of(p.diagonal + last + 1));
    if (p.triangle == Triangle::kLower) end = std::min(end, lines_of(p.diagonal + last + 1));
    if (p.triangle == Triangle::kUpper) begin = std::clamp<int64_t>((first - p.diagonal) / kLineElements, 0, end);
    for (int64_t column = 0; column < columns; column += 2) {
      const bool one = columns - column == 1;
      const auto run = rows == 1 ? one ? multiply_tiles<1, 1> : multiply_tiles<1, 2>
                       : one ? multiply_tiles<2, 1>
                                 : multiply_tiles<2, 2>;
      run(p.a.from(row, 0), p.b.from(column, 0), begin, end, p.c + first * p.c_row + column * kAmxTile, p.c_row, add);
    }
  }
  AmxTiles::finish_writing();
}

// scores [queries, seen keys] = a b, of which a has the block's queries and b all keys.
void multiply_by_keys(const SeenKeys& seen, const AmxMatrix& a, const AmxMatrix& b, float* scores, int64_t length) {
  multiply({.rows = groups_of(seen.rows),
            .columns = groups_of(seen.count),
            .a = a,
            .b = b.from(seen.first / kAmxTile, 0),
            .c = scores,
            .c_row = length,
            .triangle = seen.triangle(Triangle::kOutput),
            .diagonal = seen.diagonal()});
}

// sums [queries, width] = a b, of which a has the seen keys and b all.
void sum_over_keys(const SeenKeys& seen, const AmxMatrix& a, const AmxMatrix& b, float* sums, int64_t width) {
  multiply({.rows = groups_of(seen.rows),
            .columns = b.groups,
            .a = a,
            .b = b.from(0, seen.first / kLineElements),
            .c = sums,
            .c_row = width,
            .triangle = seen.triangle(Triangle::kLower),
            .diagonal = seen.diagonal()});
}

// sums [all keys, width] += a b, of which a has the seen keys, for the groups before `summed`; for the others =.
void sum_over_queries(const SeenKeys& seen, const AmxMatrix& a, const AmxMatrix& b, int64_t summed, float* sums,
                      int64_t width) {
  multiply({.rows = groups_of(seen.count),
            .columns = b.groups,
            .a = a,
            .b = b,
            .c = sums + seen.first * width,
            .c_row = width,
            .added = std::max<int64_t>(0, summed - seen.first / kAmxTile),
            .triangle = seen.triangle(Triangle::kUpper),
            .diagonal = seen.diagonal()});
}

}  // namespace

// ---- forward ------------------------------------------------------------------------------------------------------

AmxProducts::AmxProducts(const Attention& a, const Item& item, const void* k, const void* v)
    : block(query_block(item, a.mask, kFewestQueries, kUnit)),
      length(apart(round_up(item.keys, kUnit))),
      v_width(round_up(a.d_v, kAmxTile)),
      a_(a),
      queries_{groups_of(block), lines_of(a.d_k)},
      keys_{groups_of(item.keys), lines_of(a.d_k)},
      weights_{groups_of(block), lines_of(item.keys)},
      values_{groups_of(a.d_v), lines_of(item.keys)} {
  const int64_t rows = round_up(block, kAmxTile);
  cut_scratch({{&scores, rows * length},
               {&sums, rows * v_width},
               {&shifts, rows},
               {&normalisers, rows},
               queries_.scratch(),
               keys_.scratch(),
               weights_.scratch(),
               values_.scratch()});
  take_columns({k, a.k_stride, item.keys, a.d_k}, keys_);
  take_terms({v, a.v_stride, item.keys, a.d_v}, values_);
}

void AmxProducts::score(const SeenKeys& seen, const void* q) {
  take_rows({q, a_.q_stride, seen.rows, a_.d_k}, queries_);
  multiply_by_keys(seen, queries_, keys_, scores, length);
}

void AmxProducts::weigh(const SeenKeys& seen) {
  weights_.lines = lines_of(seen.count);
  round_rows(scores, length, seen.rows, weights_);
  sum_over_keys(seen, weights_, values_, sums, v_width);
}

// ---- backward -----------------------------------------------------------------------------------------------------

AmxGradients::AmxGradients(const Attention& a, const Item& item, const void* k, const void* v)
    : block(query_block(item, a.mask, kFewestQueries, kUnit)),
      length(apart(round_up(item.keys, kUnit))),
      k_width(round_up(a.d_k, kAmxTile)),
      v_width(round_up(a.d_v, kAmxTile)),
      a_(a),
      left_queries_{groups_of(block), lines_of(a.d_k)},
      right_queries_{groups_of(a.d_k), lines_of(block)},
      left_douts_{groups_of(block), lines_of(a.d_v)},
      right_douts_{groups_of(a.d_v), lines_of(block)},
      transposed_keys_{groups_of(item.keys), lines_of(a.d_k)},
      keys_{groups_of(a.d_k), lines_of(item.keys)},
      transposed_values_{groups_of(item.keys), lines_of(a.d_v)},
      weights_of_keys_{groups_of(item.keys), lines_of(block)},
      dweights_of_keys_(weights_of_keys_),
      dweights_of_queries_{groups_of(block), lines_of(item.keys)} {
  const int64_t rows = round_up(block, kAmxTile), all_keys = round_up(item.keys, kUnit);
  cut_scratch({{&weights, rows * length},
               {&dweights, rows * length},
               {&dqueries, rows * k_width},
               {&dkeys, all_keys * k_width},
               {&dvalues, all_keys * v_width},
               left_queries_.scratch(),
               right_queries_.scratch(),
               left_douts_.scratch(),
               right_douts_.scratch(),
               transposed_keys_.scratch(),
               keys_.scratch(),
               transposed_values_.scratch(),
               weights_of_keys_.scratch(),
               dweights_of_keys_.scratch(),
               dweights_of_queries_.scratch()});
  const Source key_rows{k, a.k_stride, item.keys, a.d_k};
  take_columns(key_rows, transposed_keys_);
  take_terms(key_rows, keys_);
  take_columns({v, a.v_stride, item.keys, a.d_v}, transposed_values_);
  const int64_t seen = item.queries == 0 ? 0 : round_up(a.mask.end(item.queries - 1, item.keys), kAmxTile);
  std::fill(dkeys + seen * k_width, dkeys + all_keys * k_width, 0.0f);
  std::fill(dvalues + seen * v_width, dvalues + all_keys * v_width, 0.0f);
}

void AmxGradients::score(const SeenKeys& seen, const void* q, const void* dout) {
  const Source queries{q, a_.q_stride, seen.rows, a_.d_k}, douts{dout, a_.out_stride, seen.rows, a_.d_v};
  right_queries_.lines = right_douts_.lines = weights_of_keys_.lines = dweights_of_keys_.lines = lines_of(seen.rows);
  take_rows(queries, left_queries_);
  take_terms(queries, right_queries_);
  take_rows(douts, left_douts_);
  take_terms(douts, right_douts_);
  multiply_by_keys(seen, left_queries_, transposed_keys_, weights, length);
  multiply_by_keys(seen, left_douts_, transposed_values_, dweights, length);
}

void AmxGradients::add(const SeenKeys& seen) {
  const int64_t keys = groups_of(seen.count);
  dweights_of_queries_.lines = lines_of(seen.count);
  round_columns(weights, length, seen.rows, keys, weights_of_keys_);
  round_columns(dweights, length, seen.rows, keys, dweights_of_keys_);
  round_rows(dweights, length, seen.rows, dweights_of_queries_);
  sum_over_queries(seen, weights_of_keys_, right_douts_, groups_seen_, dvalues, v_width);
  sum_over_queries(seen, dweights_of_keys_, right_queries_, groups_seen_, dkeys, k_width);
  sum_over_keys(seen, dweights_of_queries_, keys_, dqueries, k_width);
  groups_seen_ = seen.first / kAmxTile + keys;
}

}  // namespace nmt::cpu
