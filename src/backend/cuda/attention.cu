#include "backend/cuda/attention_mma.cuh"
#include "backend/cuda/attention_simt.cuh"
#include "backend/cuda/kernels.h"

namespace nmt::cuda {
namespace {

// softmax(scale * Q K^T) V of a tile of queries, over tiles of keys (Milakov and Gimelshein 2018; Dao et al. 2022): the
// sums so far are scaled anew where a larger score appears. Block (tile, head, part of the result's columns).
template <class T, int kParts>
__global__ void __launch_bounds__(kSimtThreads) attention_kernel(Attention a, int64_t queries, bool aligned, const T* q,
                                                                 const T* k, const T* v, T* out, float* logsumexp) {
  const Tile tile = find_tile(a, a.q_begin, kTile);
  if (tile.first >= tile.queries) return;
  const int head = blockIdx.y, column = blockIdx.z * kParts * kTile;
  const auto query_rows = head_rows(q, tile.query_begin, a.q_stride, head, a.d_k, tile.queries, aligned);
  const auto key_rows = head_rows(k, tile.key_begin, a.k_stride, head, a.d_k, tile.keys, aligned);
  const auto value_rows = head_rows(v, tile.key_begin, a.v_stride, head, a.d_v, tile.keys, aligned);
  const auto out_rows = head_rows(out, tile.query_begin, a.out_stride, head, a.d_v, tile.queries, aligned);
  const Keep keep(a, tile, head);
  const int seen = a.mask.end(tile.first + kTile - 1, tile.keys);

  auto* room = shared_memory<float>();
  float* weights = room + kTileFloats;
  auto* kept = reinterpret_cast<uint16_t*>(weights + kTileFloats);
  Sums sums[kParts];
  float largest[4] = {-kInfinity, -kInfinity, -kInfinity, -kInfinity}, total[4] = {};
  for (int key = a.mask.first(tile.first) / kTile * kTile; key < seen; key += kTile) {
    if (keep.drops()) fill_kept(keep, tile.first, key, kept);
    Sums s = multiply_rows(query_rows, tile.first, key_rows, key, room);
#pragma unroll
    for (int m = 0; m < 4; ++m) {
      const int row = first_row() + m, query = tile.first + row;
      const int column = key + first_column(), hidden = a.mask.first(query) - column;
      const int valid = a.mask.end(query, tile.keys) - column;
      float most = largest[m];
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        s.at[m][n] = n >= hidden && n < valid ? s.at[m][n] * a.scale : -kInfinity;
        most = fmaxf(most, s.at[m][n]);
      }
      most = row_max(most);
      const float shift = most == -kInfinity ? 0 : most, shrink = exponential(largest[m] - shift);
      largest[m] = most;
      total[m] *= shrink;
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        s.at[m][n] = exponential(s.at[m][n] - shift);
        total[m] += s.at[m][n];
        if (keep.drops() && !is_kept(kept, row, first_column() + n)) s.at[m][n] = 0;
#pragma unroll
        for (int part = 0; part < kParts; ++part) sums[part].at[m][n] *= shrink;
      }
    }
    store_transposed(s, weights);
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      load_tile(value_rows, key, column + part * kTile, room);
      __syncthreads();
      multiply(seen - key < kTile ? seen - key : kTile, weights, room, sums[part]);
      __syncthreads();
    }
  }
#pragma unroll
  for (int m = 0; m < 4; ++m) {
    const int query = tile.first + first_row() + m;
    total[m] = row_sum(total[m]);
    const float factor = total[m] == 0 ? 0 : keep.scale() / total[m];  // no keys: zeros
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      store4(out_rows, query, column + part * kTile + first_column(), sums[part].at[m], factor);
    }
    if (blockIdx.z == 0 && first_column() == 0 && query < tile.queries) {
      logsumexp[head * queries + tile.query_begin + query] = total[m] == 0 ? -kInfinity : largest[m] + logf(total[m]);
    }
  }
}

}  // namespace

void attention(Stream s, DType t, const Attention& a, int64_t queries, const void* q, const void* k, const void* v,
               void* out, float* logsumexp) {
  with_type(t, [&](auto type) {
    using T = decltype(type);
    if constexpr (!std::is_same_v<T, float>)
      if (fits_mma(t, a, {q, k, v, out}))
        return attention_mma(s, a, queries, static_cast<const T*>(q), static_cast<const T*>(k),
                             static_cast<const T*>(v), static_cast<T*>(out), logsumexp);
    const bool aligned = quads_fit(t, q, a.q_stride, a.d_k) && quads_fit(t, k, a.k_stride, a.d_k) &&
                         quads_fit(t, v, a.v_stride, a.d_v) && quads_fit(t, out, a.out_stride, a.d_v);
    const int parts = a.d_v <= kTile ? 1 : 2;
    launch("attention", s,
           {.x = tile_slots(queries, a.sentences, kTile),
            .y = a.heads,
            .z = divide_up(a.d_v, parts * kTile),
            .threads = kSimtThreads,
            .shared = 2 * kTileFloats * sizeof(float) + kKeptBytes},
           parts == 1 ? attention_kernel<T, 1> : attention_kernel<T, 2>, a, queries, aligned, static_cast<const T*>(q),
           static_cast<const T*>(k), static_cast<const T*>(v), static_cast<T*>(out), logsumexp);
  });
}

}  // namespace nmt::cuda
