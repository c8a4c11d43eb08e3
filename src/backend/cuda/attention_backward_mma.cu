#include "backend/cuda/attention_mma.cuh"

// See attention_backward.cu: the same sums, by tensor cores.
namespace nmt::cuda {
namespace {

// How much of a sentence a block has at a time: kShort, a warp that has little. Results do not depend on it.
template <bool kShort>
struct Tiles {
  static constexpr int kThreads = kShort ? 32 : 128;  // at most
  static constexpr int kKeys = kShort ? 32 : 64;      // of a step over keys
  static constexpr int kQueries = kShort ? 16 : 32;   // of a step over queries
};

// Of a multiprocessor: as many as leave each enough registers.
template <int kWidth, bool kDropout, bool kShort>
constexpr int kBlocks = (kWidth > 64 ? 2 : 3) * (kShort ? 4 : 1) + (kShort && kWidth <= 64 && !kDropout ? 3 : 0);

// D and dQ of a tile of 16 queries a warp. Block (tile, head).
template <class T, int kWidth, bool kDropout, bool kShort>
__global__ void __launch_bounds__(Tiles<kShort>::kThreads, kBlocks<kWidth, kDropout, kShort>)
    queries_kernel(Attention a, GradientOperands<T> x) {
  constexpr int kKeys = Tiles<kShort>::kKeys;
  const int rows = blockDim.x / kWarp * kWarpRows, head = blockIdx.y, lane = lane_of_warp();
  for_tiles(a, a.q_begin, rows, has_whole_sentences(), [&](const Tile& tile) {
    const int warp_row = threadIdx.x / kWarp * kWarpRows, first = tile.first + warp_row;  // the warp's first query
    const int64_t query_begin = tile.query_begin + tile.first;
    const T* const k = x.k + tile.key_begin * a.k_stride + head * a.d_k;
    const T* const v = x.v + tile.key_begin * a.v_stride + head * a.d_v;
    const int seen = a.mask.causal ? min(tile.keys, tile.first + rows) : tile.keys;
    const int seen_by_warp = first >= tile.queries ? 0 : a.mask.causal ? min(tile.keys, first + kWarpRows) : tile.keys;
    const Keep keep(a, tile, head);
    const float scale = a.scale * kLog2E, kept_scale = kDropout ? keep.scale() : 1;

    auto* const q_tile = shared_memory<T>();
    T* const dout_tile = q_tile + rows * kRowPitch<kWidth>;
    T* const k_tile = dout_tile + rows * kRowPitch<kWidth>;
    T* const v_tile = k_tile + kKeys * kRowPitch<kWidth>;
    T* const warp_queries = q_tile + warp_row * kRowPitch<kWidth>;
    if (seen > 0) {
      const int valid = tile.queries - tile.first;
      copy_rows<kWidth>(x.q + query_begin * a.q_stride + head * a.d_k, a.q_stride, a.d_k, rows, valid, q_tile);
      copy_rows<kWidth>(x.dout + query_begin * a.out_stride + head * a.d_v, a.out_stride, a.d_v, rows, valid,
                        dout_tile);
    }

    float shift[2], row_sums[2] = {};  // of rows g and g + 8; at first this lane's part
    float* const saved_sums = x.row_sums + head * x.queries + tile.query_begin;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = first + lane / 4 + 8 * half;
      shift[half] =
          query < tile.queries ? x.logsumexp[head * x.queries + tile.query_begin + query] * kLog2E : kInfinity;
    }

    float p[kKeys / 8][4], dw[kKeys / 8][4], dq[kWidth / 8][4] = {};
    const auto weights = [&](int key) {
      __syncthreads();  // nobody needs the tiles before
      copy_rows<kWidth>(k + key * a.k_stride, a.k_stride, a.d_k, kKeys, tile.keys - key, k_tile);
      copy_rows<kWidth>(v + key * a.v_stride, a.v_stride, a.d_v, kKeys, tile.keys - key, v_tile);
      cp_async_commit();
      const KeptOfQueries<kDropout, kKeys> kept(keep, first, key);
      cp_async_wait<0>();
      __syncthreads();
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) p[n][i] = dw[n][i] = 0;
      }
      const int columns = seen_by_warp - key;
      if (columns <= 0) return;
      multiply_rows<kWidth, kKeys>(warp_queries, k_tile, a.d_k, columns, p);
      multiply_rows<kWidth, kKeys>(dout_tile + warp_row * kRowPitch<kWidth>, v_tile, a.d_v, columns, dw);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int query = first + lane / 4 + 8 * half;
        const int valid = (a.mask.causal ? min(tile.keys, query + 1) : tile.keys) - key - lane % 4 * 2;
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n) {
          if (is_beyond(n, columns)) break;
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            float& weight = p[n][2 * half + i];
            weight = 8 * n + i < valid ? fast_exp2(weight * scale - shift[half]) : 0;
            float& gradient = dw[n][2 * half + i];
            gradient = kept.at(n, 2 * half + i) ? gradient * kept_scale : 0;
          }
        }
      }
    };

#pragma unroll 1
    for (int key = 0; key < seen; key += kKeys) {
      weights(key);
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) {
        if (is_beyond(n, seen_by_warp - key)) break;
#pragma unroll
        for (int i = 0; i < 4; ++i) row_sums[i / 2] = fmaf(p[n][i], dw[n][i], row_sums[i / 2]);
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = first + lane / 4 + 8 * half;
      row_sums[half] = quad_sum(row_sums[half]);
      if (lane % 4 == 0 && query < tile.queries) saved_sums[query] = row_sums[half];
    }
#pragma unroll 1
    for (int key = 0; key < seen; key += kKeys) {
      if (seen > kKeys) weights(key);  // a single tile's are still there
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) {
        if (is_beyond(n, seen_by_warp - key)) break;
#pragma unroll
        for (int i = 0; i < 4; ++i) p[n][i] *= dw[n][i] - row_sums[i / 2];
      }
      multiply<kWidth, kKeys>(p, k_tile, seen_by_warp - key, a.d_k, dq);
    }
    if (first < tile.queries)
      store_rows<kWidth>(dq, {a.scale, a.scale}, warp_queries,
                         x.dq + (tile.query_begin + first) * a.q_stride + head * a.d_k, a.q_stride, a.d_k,
                         tile.queries - first);
  });
}

// Which weights of the warp's 16 keys and a tile of kQueries queries, 16 or 32, are kept; rows are keys, columns
// queries.
template <bool kDropout, int kQueries>
class KeptOfKeys {
 public:
  __device__ KeptOfKeys(const Keep& keep, int query, int key) {
    if constexpr (!kDropout) return;
    const int lane = lane_of_warp();
    const unsigned bits = keep.bits<16>(query + lane % kQueries, key);
#pragma unroll
    for (int i = 0; i < kQueries / 4; ++i)
      words_[i] = __shfl_sync(kAllLanes, bits, i / 2 * 8 + lane % 4 * 2 + i % 2) >> (lane / 4);
  }

  // That of sums[n][i].
  __device__ bool at(int n, int i) const { return !kDropout || words_[2 * n + i % 2] >> (i / 2 * 8) & 1; }

 private:
  unsigned words_[kQueries / 4];
};

// dK and dV of a tile of keys, 16 a warp, over tiles of queries, of which the next is copied meanwhile. Block (tile,
// head).
template <class T, int kWidth, bool kDropout, bool kShort>
__global__ void __launch_bounds__(Tiles<kShort>::kThreads, kBlocks<kWidth, kDropout, kShort>)
    keys_kernel(Attention a, GradientOperands<T> x) {
  constexpr int kPitch = kRowPitch<kWidth>, kQueries = Tiles<kShort>::kQueries;
  const int rows = blockDim.x / kWarp * kWarpRows;
  for_tiles(a, a.k_begin, rows, has_whole_sentences(), [&](const Tile& tile) {
    const int head = blockIdx.y, lane = lane_of_warp();
    const int warp_row = threadIdx.x / kWarp * kWarpRows, first = tile.first + warp_row;  // the warp's first key
    const T* const q = x.q + tile.query_begin * a.q_stride + head * a.d_k;
    const T* const dout = x.dout + tile.query_begin * a.out_stride + head * a.d_v;
    const float* const logsumexp = x.logsumexp + head * x.queries + tile.query_begin;
    const float* const row_sums = x.row_sums + head * x.queries + tile.query_begin;
    const Keep keep(a, tile, head);
    const float scale = a.scale * kLog2E, kept_scale = kDropout ? keep.scale() : 1;

    auto* const k_tile = shared_memory<T>();
    T* const v_tile = k_tile + rows * kPitch;
    T* const q_tiles = v_tile + rows * kPitch;  // two
    T* const dout_tiles = q_tiles + 2 * kQueries * kPitch;
    auto* const shifts = reinterpret_cast<float*>(dout_tiles + 2 * kQueries * kPitch);
    float* const sums = shifts + 2 * kQueries;
    T* const warp_keys = k_tile + warp_row * kPitch;
    T* const warp_values = v_tile + warp_row * kPitch;
    const auto copy_queries = [&](int query, int buffer) {
      const int valid = tile.queries - query;
      copy_rows<kWidth>(q + query * a.q_stride, a.q_stride, a.d_k, kQueries, valid,
                        q_tiles + buffer * kQueries * kPitch);
      copy_rows<kWidth>(dout + query * a.out_stride, a.out_stride, a.d_v, kQueries, valid,
                        dout_tiles + buffer * kQueries * kPitch);
      cp_async_commit();
      if (const int i = threadIdx.x; i < kQueries) {  // of queries that do not exist all weights are zero
        shifts[buffer * kQueries + i] = i < valid ? logsumexp[query + i] * kLog2E : kInfinity;
        sums[buffer * kQueries + i] = i < valid ? row_sums[query + i] : 0;
      }
    };
    int buffer = 0;
    const int begin = a.mask.causal ? tile.first : 0;
    if (begin < tile.queries) {
      const int64_t row = tile.key_begin + tile.first;
      const int valid = tile.keys - tile.first;
      copy_rows<kWidth>(x.k + row * a.k_stride + head * a.d_k, a.k_stride, a.d_k, rows, valid, k_tile);
      copy_rows<kWidth>(x.v + row * a.v_stride + head * a.d_v, a.v_stride, a.d_v, rows, valid, v_tile);
      copy_queries(begin, buffer);
    }

    float dk[kWidth / 8][4] = {}, dv[kWidth / 8][4] = {};
#pragma unroll 1
    for (int query = begin; query < tile.queries; query += kQueries, buffer ^= 1) {
      const bool more = query + kQueries < tile.queries;
      if (more) copy_queries(query + kQueries, buffer ^ 1);
      const KeptOfKeys<kDropout, kQueries> kept(keep, query, first);
      if (more)
        cp_async_wait<1>();
      else
        cp_async_wait<0>();
      __syncthreads();
      const int columns = tile.queries - query;
      if (first < tile.keys && !(a.mask.causal && first >= query + kQueries)) {
        const T* const q_tile = q_tiles + buffer * kQueries * kPitch;
        const T* const dout_tile = dout_tiles + buffer * kQueries * kPitch;
        float p[kQueries / 8][4] = {}, ds[kQueries / 8][4] = {};
        multiply_rows<kWidth, kQueries>(warp_keys, q_tile, a.d_k, columns, p);
        multiply_rows<kWidth, kQueries>(warp_values, dout_tile, a.d_v, columns, ds);
#pragma unroll
        for (int n = 0; n < kQueries / 8; ++n) {
          if (is_beyond(n, columns)) break;
          const int column = buffer * kQueries + 8 * n + lane % 4 * 2;
          float shift[2], sum[2];
          load(shifts + column, shift);
          load(sums + column, sum);
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const bool seen = !a.mask.causal || first + lane / 4 + i / 2 * 8 <= query + 8 * n + lane % 4 * 2 + i % 2;
            const float weight = seen ? fast_exp2(p[n][i] * scale - shift[i % 2]) : 0;
            const float dw = kept.at(n, i) ? ds[n][i] * kept_scale : 0;
            p[n][i] = kept.at(n, i) ? weight : 0;
            ds[n][i] = weight * (dw - sum[i % 2]);
          }
        }
        multiply<kWidth, kQueries>(p, dout_tile, columns, a.d_v, dv);
        multiply<kWidth, kQueries>(ds, q_tile, columns, a.d_k, dk);
      }
      __syncthreads();  // the next but one tile takes the place of this
    }
    if (first >= tile.keys) return;
    const int64_t row = tile.key_begin + first;
    store_rows<kWidth>(dk, {a.scale, a.scale}, warp_keys, x.dk + row * a.k_stride + head * a.d_k, a.k_stride, a.d_k,
                       tile.keys - first);
    store_rows<kWidth>(dv, {kept_scale, kept_scale}, warp_values, x.dv + row * a.v_stride + head * a.d_v, a.v_stride,
                       a.d_v, tile.keys - first);
  });
}

}  // namespace

template <class T>
void attention_backward_mma(Stream s, const Attention& a, int64_t keys, const GradientOperands<T>& x) {
  const int warps = warps_of(a, std::max(x.queries, keys)), rows = warps * kWarpRows;
  const auto begin = [&](auto width, auto is_short) {
    constexpr int kWidth = decltype(width)::value;
    constexpr bool kShort = decltype(is_short)::value;
    constexpr int kKeys = Tiles<kShort>::kKeys, kQueries = Tiles<kShort>::kQueries;
    launch("attention_backward_mma (queries)", s,
           {.x = tile_blocks(a, x.queries, warps),
            .y = a.heads,
            .threads = warps * kWarp,
            .shared = tile_bytes<kWidth>(2 * rows + 2 * kKeys)},
           a.dropout.rate > 0 ? queries_kernel<T, kWidth, true, kShort> : queries_kernel<T, kWidth, false, kShort>, a,
           x);
    launch("attention_backward_mma (keys)", s,
           {.x = tile_blocks(a, keys, warps),
            .y = a.heads,
            .threads = warps * kWarp,
            .shared = tile_bytes<kWidth>(2 * rows + 4 * kQueries) + 4 * kQueries * sizeof(float)},
           a.dropout.rate > 0 ? keys_kernel<T, kWidth, true, kShort> : keys_kernel<T, kWidth, false, kShort>, a, x);
  };
  with_width(std::max(a.d_k, a.d_v), [&](auto width) {
    if (warps == 1)
      begin(width, std::true_type());
    else
      begin(width, std::false_type());
  });
}

template void attention_backward_mma(Stream, const Attention&, int64_t, const GradientOperands<Bf16>&);
template void attention_backward_mma(Stream, const Attention&, int64_t, const GradientOperands<F16>&);

}  // namespace nmt::cuda
