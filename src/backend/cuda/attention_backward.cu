#include "backend/cuda/attention_mma.cuh"
#include "backend/cuda/attention_simt.cuh"
#include "backend/cuda/kernels.h"

// With p the weights, m what dropout makes of them, and dw = m * (dO V^T) the gradients of p, each row of p has
//   D = sum of p * dw, dS = p * (dw - D), dQ = scale * dS K, dK = scale * dS^T Q, dV = (m * p)^T dO
// (Dao et al. 2022, appendix B). The weights are computed again from logsumexp: once for tiles of queries, which give D
// and dQ, and once for tiles of keys, which give dK and dV; so every sum has one order.
namespace nmt::cuda {
namespace {

// Rows of one head of one sentence.
template <class T>
struct Item {
  __device__ Item(const Attention& a, const GradientOperands<T>& x, const Tile& tile, int head)
      : q(head_rows(x.q, tile.query_begin, a.q_stride, head, a.d_k, tile.queries, x.aligned)),
        k(head_rows(x.k, tile.key_begin, a.k_stride, head, a.d_k, tile.keys, x.aligned)),
        v(head_rows(x.v, tile.key_begin, a.v_stride, head, a.d_v, tile.keys, x.aligned)),
        dout(head_rows(x.dout, tile.query_begin, a.out_stride, head, a.d_v, tile.queries, x.aligned)),
        logsumexp(x.logsumexp + head * x.queries + tile.query_begin),
        row_sums(x.row_sums + head * x.queries + tile.query_begin),
        keep(a, tile, head),
        scale(a.scale),
        before(a.mask.before()),
        behind(a.mask.behind()) {}

  Rows<const T> q, k, v, dout;
  const float* logsumexp;
  float* row_sums;
  Keep keep;
  float scale;
  int before, behind;  // how far a query sees
};

struct Memory {
  float *room, *factor;  // tiles
  uint16_t* kept;
};

__device__ __forceinline__ Memory block_memory() {
  auto* room = shared_memory<float>();
  return {room, room + kTileFloats, reinterpret_cast<uint16_t*>(room + 2 * kTileFloats)};
}

// p and dw of a tile of queries and one of keys, which are rows or columns; zero where a query does not see a key. Bit
// 4 m + n of the result says whether dropout keeps p[m][n].
template <bool kKeysAreRows, class T>
__device__ __forceinline__ unsigned weights(const Item<T>& x, int query, int key, const Memory& memory, Sums& p,
                                            Sums& dw) {
  p = kKeysAreRows ? multiply_rows(x.k, key, x.q, query, memory.room)
                   : multiply_rows(x.q, query, x.k, key, memory.room);
  if (x.keep.drops()) fill_kept(x.keep, query, key, memory.kept);  // between barriers
  dw = kKeysAreRows ? multiply_rows(x.v, key, x.dout, query, memory.room)
                    : multiply_rows(x.dout, query, x.v, key, memory.room);
  float shift[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = query + (kKeysAreRows ? first_column() : first_row()) + i;
    shift[i] = row < x.q.count ? x.logsumexp[row] : 0;
  }
  unsigned kept = 0;
#pragma unroll
  for (int m = 0; m < 4; ++m) {
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const int row = first_row() + m, column = first_column() + n;
      const int i = kKeysAreRows ? column : row, j = kKeysAreRows ? row : column;
      const int distance = query + i - (key + j);
      const bool seen = query + i < x.q.count && key + j < x.k.count && distance <= x.before && -distance <= x.behind;
      const bool keep = !x.keep.drops() || is_kept(memory.kept, i, j);
      p.at[m][n] = seen ? exponential(p.at[m][n] * x.scale - shift[kKeysAreRows ? n : m]) : 0;
      dw.at[m][n] = keep ? dw.at[m][n] * x.keep.scale() : 0;
      kept |= static_cast<unsigned>(keep) << (4 * m + n);
    }
  }
  return kept;
}

// D and dQ of a tile of queries. Block (tile, head, part of dQ's columns).
template <class T, int kParts>
__global__ void __launch_bounds__(kSimtThreads, 3 - kParts) queries_kernel(Attention a, GradientOperands<T> operands) {
  const Tile tile = find_tile(a, a.q_begin, kTile);
  if (tile.first >= tile.queries) return;
  const int head = blockIdx.y, column = blockIdx.z * kParts * kTile;
  const Item<T> x(a, operands, tile, head);
  const Memory memory = block_memory();
  const int begin = a.mask.first(tile.first) / kTile * kTile, seen = a.mask.end(tile.first + kTile - 1, tile.keys);

  Sums p, dw;
  float row_sums[4] = {};
#pragma unroll 1
  for (int key = begin; key < seen; key += kTile) {
    weights<false>(x, tile.first, key, memory, p, dw);
#pragma unroll
    for (int m = 0; m < 4; ++m) {
#pragma unroll
      for (int n = 0; n < 4; ++n) row_sums[m] = fmaf(p.at[m][n], dw.at[m][n], row_sums[m]);
    }
  }
#pragma unroll
  for (int m = 0; m < 4; ++m) {
    const int query = tile.first + first_row() + m;
    row_sums[m] = row_sum(row_sums[m]);
    if (blockIdx.z == 0 && first_column() == 0 && query < tile.queries) x.row_sums[query] = row_sums[m];
  }

  Sums dq[kParts];
#pragma unroll 1
  for (int key = begin; key < seen; key += kTile) {
    if (seen - begin > kTile) weights<false>(x, tile.first, key, memory, p, dw);  // a single tile's are still there
#pragma unroll
    for (int m = 0; m < 4; ++m) {
#pragma unroll
      for (int n = 0; n < 4; ++n) p.at[m][n] *= dw.at[m][n] - row_sums[m];
    }
    store_transposed(p, memory.factor);
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      load_tile(x.k, key, column + part * kTile, memory.room);
      __syncthreads();
      multiply(seen - key < kTile ? seen - key : kTile, memory.factor, memory.room, dq[part]);
      __syncthreads();
    }
  }
  const auto out = head_rows(operands.dq, tile.query_begin, a.q_stride, head, a.d_k, tile.queries, x.q.aligned);
#pragma unroll
  for (int m = 0; m < 4; ++m) {
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      store4(out, tile.first + first_row() + m, column + part * kTile + first_column(), dq[part].at[m], a.scale);
    }
  }
}

// dK and dV of a tile of keys. Block (tile, head, part of their columns).
template <class T, int kParts>
__global__ void __launch_bounds__(kSimtThreads, 3 - kParts) keys_kernel(Attention a, GradientOperands<T> operands) {
  const Tile tile = find_tile(a, a.k_begin, kTile);
  if (tile.first >= tile.keys) return;
  const int head = blockIdx.y, column = blockIdx.z * kParts * kTile;
  const Item<T> x(a, operands, tile, head);
  const Memory memory = block_memory();
  const int first_query = a.mask.first_query(tile.first) / kTile * kTile;
  const int end_query = a.mask.end_query(tile.first + kTile - 1, tile.queries);

  Sums dk[kParts], dv[kParts];
#pragma unroll 1
  for (int query = first_query; query < end_query; query += kTile) {
    const int depth = tile.queries - query < kTile ? tile.queries - query : kTile;
    Sums p, dw;
    const unsigned kept = weights<true>(x, query, tile.first, memory, p, dw);
    Sums weights;
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const int row = query + first_column() + n;
      const float row_sum = row < tile.queries ? x.row_sums[row] : 0;
#pragma unroll
      for (int m = 0; m < 4; ++m) {
        weights.at[m][n] = kept >> (4 * m + n) & 1 ? p.at[m][n] : 0;
        p.at[m][n] *= dw.at[m][n] - row_sum;
      }
    }
    const auto add_product = [&](const Sums& factor, const Rows<const T>& rows, Sums(&to)[kParts]) {
      store_transposed(factor, memory.factor);
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        load_tile(rows, query, column + part * kTile, memory.room);
        __syncthreads();
        multiply(depth, memory.factor, memory.room, to[part]);
        __syncthreads();
      }
    };
    add_product(weights, x.dout, dv);
    add_product(p, x.q, dk);
  }
  const auto dk_rows = head_rows(operands.dk, tile.key_begin, a.k_stride, head, a.d_k, tile.keys, x.k.aligned);
  const auto dv_rows = head_rows(operands.dv, tile.key_begin, a.v_stride, head, a.d_v, tile.keys, x.v.aligned);
#pragma unroll
  for (int m = 0; m < 4; ++m) {
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const int row = tile.first + first_row() + m, first = column + part * kTile + first_column();
      store4(dk_rows, row, first, dk[part].at[m], a.scale);
      store4(dv_rows, row, first, dv[part].at[m], x.keep.scale());
    }
  }
}

template <class T, int kParts>
void differentiate(Stream s, const Attention& a, int64_t keys, const GradientOperands<T>& x) {
  const size_t shared = 2 * kTileFloats * sizeof(float) + kKeptBytes;
  const auto grid = [&](int64_t rows, int d) {
    return Grid{tile_slots(rows, a.sentences, kTile), a.heads, divide_up(d, kParts * kTile), kSimtThreads, shared};
  };
  launch("attention_backward (queries)", s, grid(x.queries, a.d_k), queries_kernel<T, kParts>, a, x);
  launch("attention_backward (keys)", s, grid(keys, std::max(a.d_k, a.d_v)), keys_kernel<T, kParts>, a, x);
}

}  // namespace

int64_t attention_room(int64_t queries, int heads) { return heads * queries; }

void attention_backward(Stream s, DType t, const Attention& a, int64_t queries, int64_t keys, const void* q,
                        const void* k, const void* v, const float* logsumexp, const void* dout, float* room, void* dq,
                        void* dk, void* dv) {
  with_type(t, [&](auto type) {
    using T = decltype(type);
    const bool aligned = quads_fit(t, q, a.q_stride, a.d_k) && quads_fit(t, k, a.k_stride, a.d_k) &&
                         quads_fit(t, v, a.v_stride, a.d_v) && quads_fit(t, dout, a.out_stride, a.d_v) &&
                         quads_fit(t, dq, a.q_stride, a.d_k) && quads_fit(t, dk, a.k_stride, a.d_k) &&
                         quads_fit(t, dv, a.v_stride, a.d_v);
    const GradientOperands<T> x{static_cast<const T*>(q),
                                static_cast<const T*>(k),
                                static_cast<const T*>(v),
                                static_cast<const T*>(dout),
                                logsumexp,
                                room,
                                static_cast<T*>(dq),
                                static_cast<T*>(dk),
                                static_cast<T*>(dv),
                                queries,
                                aligned};
    if constexpr (!std::is_same_v<T, float>)
      if (fits_mma(t, a, {q, k, v, dout, dq, dk, dv})) return attention_backward_mma(s, a, keys, x);
    if (std::max(a.d_k, a.d_v) <= kTile)
      differentiate<T, 1>(s, a, keys, x);
    else
      differentiate<T, 2>(s, a, keys, x);
  });
}

}  // namespace nmt::cuda
