#include "backend/cuda/attention_mma.cuh"

namespace nmt::cuda {
namespace {

constexpr int kKeys = 32;  // of a tile, in long sentences and short ones: where sums are scaled decides their bits

// A tile of 16 queries a warp, over tiles of keys; see attention.cu. The weights stay in registers; the next tile of
// keys is copied while the values are used, and the other way round. Block (tile, head).
template <class T, int kWidth, bool kDropout>
__global__ void __launch_bounds__(128, kWidth > 64 ? 3 : 4)
    attention_mma_kernel(Attention a, int64_t queries, const T* q, const T* k, const T* v, T* out, float* logsumexp) {
  const int rows = blockDim.x / kWarp * kWarpRows, head = blockIdx.y, lane = lane_of_warp();
  for_tiles(a, a.q_begin, rows, has_whole_sentences(), [&](const Tile& tile) {
    const int warp_row = threadIdx.x / kWarp * kWarpRows, first = tile.first + warp_row;  // the warp's first query
    const T* const queries_of_tile = q + (tile.query_begin + tile.first) * a.q_stride + head * a.d_k;
    const T* const keys = k + tile.key_begin * a.k_stride + head * a.d_k;
    const T* const values = v + tile.key_begin * a.v_stride + head * a.d_v;
    const int seen = a.mask.causal ? min(tile.keys, tile.first + rows) : tile.keys;
    const int seen_by_warp = first >= tile.queries ? 0 : a.mask.causal ? min(tile.keys, first + kWarpRows) : tile.keys;
    const Keep keep(a, tile, head);
    const float scale = a.scale * kLog2E;

    auto* const q_tile = shared_memory<T>();
    T* const k_tile = q_tile + rows * kRowPitch<kWidth>;
    T* const v_tile = k_tile + kKeys * kRowPitch<kWidth>;
    T* const warp_queries = q_tile + warp_row * kRowPitch<kWidth>;
    const auto copy_keys = [&](int key) {
      copy_rows<kWidth>(keys + key * a.k_stride, a.k_stride, a.d_k, kKeys, tile.keys - key, k_tile);
      cp_async_commit();
    };
    const auto copy_values = [&](int key) {
      copy_rows<kWidth>(values + key * a.v_stride, a.v_stride, a.d_v, kKeys, tile.keys - key, v_tile);
      cp_async_commit();
    };
    copy_rows<kWidth>(queries_of_tile, a.q_stride, a.d_k, rows, tile.queries - tile.first, q_tile);
    copy_keys(0);
    copy_values(0);
    cp_async_wait<1>();
    __syncthreads();

    float sums[kWidth / 8][4] = {};
    float largest[2] = {-kInfinity, -kInfinity}, total[2] = {};  // of rows g and g + 8; total: this lane's part
    for (int key = 0; key < seen; key += kKeys) {
      const bool more = key + kKeys < seen;
      const int columns = seen_by_warp - key;
      const KeptOfQueries<kDropout, kKeys> kept(keep, first, key);
      float s[kKeys / 8][4] = {};
      multiply_rows<kWidth, kKeys>(warp_queries, k_tile, a.d_k, columns, s);
      cp_async_wait<0>();
      __syncthreads();  // the values are there, the keys no longer needed
      if (more) copy_keys(key + kKeys);
      if (columns > 0) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int query = first + lane / 4 + 8 * half;
          const int valid = (a.mask.causal ? min(tile.keys, query + 1) : tile.keys) - key - lane % 4 * 2;
          float most = largest[half];
#pragma unroll
          for (int n = 0; n < kKeys / 8; ++n) {
            if (is_beyond(n, columns)) break;
#pragma unroll
            for (int i = 0; i < 2; ++i) {
              float& x = s[n][2 * half + i];
              x = 8 * n + i < valid ? x * scale : -kInfinity;
              most = fmaxf(most, x);
            }
          }
          most = quad_max(most);
          const float shift = most == -kInfinity ? 0 : most, shrink = fast_exp2(largest[half] - shift);
          largest[half] = most;
          total[half] *= shrink;
#pragma unroll
          for (int n = 0; n < kKeys / 8; ++n) {
            if (is_beyond(n, columns)) break;
#pragma unroll
            for (int i = 0; i < 2; ++i) {
              float& x = s[n][2 * half + i];
              x = fast_exp2(x - shift);
              total[half] += x;
              if (!kept.at(n, 2 * half + i)) x = 0;
            }
          }
#pragma unroll
          for (int n = 0; n < kWidth / 8; ++n) {
            sums[n][2 * half] *= shrink;
            sums[n][2 * half + 1] *= shrink;
          }
        }
        multiply<kWidth, kKeys>(s, v_tile, columns, a.d_v, sums);
      }
      if (more) {
        cp_async_wait<0>();
        __syncthreads();  // the next keys are there, the values no longer needed
        copy_values(key + kKeys);
      }
    }

    float factors[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = first + lane / 4 + 8 * half;
      total[half] = quad_sum(total[half]);
      factors[half] = total[half] == 0 ? 0 : keep.scale() / total[half];
      if (lane % 4 == 0 && query < tile.queries)
        logsumexp[head * queries + tile.query_begin + query] =
            total[half] == 0 ? -kInfinity : largest[half] * kLn2 + logf(total[half]);
    }
    store_rows<kWidth>(sums, factors, warp_queries, out + (tile.query_begin + first) * a.out_stride + head * a.d_v,
                       a.out_stride, a.d_v, tile.queries - first);
  });
}

}  // namespace

bool fits_mma(DType t, const Attention& a, std::initializer_list<const void*> tensors) {
  const auto fits = [](int64_t x, int64_t unit) { return x % unit == 0; };
  return t != DType::kF32 && a.mask.window == 0 && fits(a.d_k, 16) && fits(a.d_v, 16) &&
         std::max(a.d_k, a.d_v) <= 128 && fits(a.q_stride, 8) && fits(a.k_stride, 8) && fits(a.v_stride, 8) &&
         fits(a.out_stride, 8) && std::all_of(tensors.begin(), tensors.end(), [](const void* x) { return aligned(x); });
}

template <class T>
void attention_mma(Stream s, const Attention& a, int64_t queries, const T* q, const T* k, const T* v, T* out,
                   float* logsumexp) {
  const int warps = warps_of(a, queries), rows = warps * kWarpRows;
  with_width(std::max(a.d_k, a.d_v), [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    launch("attention_mma", s,
           {.x = tile_blocks(a, queries, warps),
            .y = a.heads,
            .threads = warps * kWarp,
            .shared = tile_bytes<kWidth>(rows + 2 * kKeys)},
           a.dropout.rate > 0 ? attention_mma_kernel<T, kWidth, true> : attention_mma_kernel<T, kWidth, false>, a,
           queries, q, k, v, out, logsumexp);
  });
}

template void attention_mma(Stream, const Attention&, int64_t, const Bf16*, const Bf16*, const Bf16*, Bf16*, float*);
template void attention_mma(Stream, const Attention&, int64_t, const F16*, const F16*, const F16*, F16*, float*);

}  // namespace nmt::cuda
