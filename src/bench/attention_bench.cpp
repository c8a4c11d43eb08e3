// The speed of attention in one thread. Training: FLOP/s of the products alone (two forward, five backward; a
// multiplication and an addition are two), over all scores or, causal, the lower triangle of them. Decoding: bytes of
// the cache read a second.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <benchmark/benchmark.h>

#include "backend/cpu/kernels.h"
#include "base/philox.h"

using namespace nmt;

namespace {

constexpr int kHeads = 8;

std::vector<uint8_t> random_array(DType t, int64_t n) {
  Random random(1);
  std::vector<float> x(n);
  for (float& v : x) v = static_cast<float>(random.uniform() - 0.5);
  std::vector<uint8_t> y(n * size_of(t));
  cpu::convert(DType::kF32, x.data(), t, y.data(), n);
  return y;
}

// Self-attention of equally long sentences, about 2000 tokens, over rows of [q k v].
void BM_Attention(benchmark::State& state, DType t, bool backward, bool causal, float rate) {
  const int64_t length = state.range(0), d = state.range(1), width = kHeads * d;
  const int64_t sentences = std::max<int64_t>(1, 2000 / length), rows = sentences * length;
  std::vector<int32_t> begin;
  std::vector<int64_t> weights;
  for (int64_t s = 0; s <= sentences; ++s) {
    begin.push_back(static_cast<int32_t>(s * length));
    weights.push_back(s * length * length);
  }
  const Attention a{sentences,
                    begin.data(),
                    begin.data(),
                    weights.data(),
                    kHeads,
                    static_cast<int>(d),
                    static_cast<int>(d),
                    1 / std::sqrt(static_cast<float>(d)),
                    causal,
                    {rate, 1, 1, 1},
                    3 * width,
                    3 * width,
                    3 * width,
                    width};
  const std::vector<uint8_t> x = random_array(t, rows * 3 * width), dout = random_array(t, rows * width);
  std::vector<uint8_t> dx(x.size()), out(dout.size());
  std::vector<float> logsumexp(kHeads * rows);
  const auto part = [&](auto& array, int64_t i) { return array.data() + i * width * size_of(t); };
  cpu::attention(t, a, 0, sentences * kHeads, part(x, 0), part(x, 1), part(x, 2), out.data(), logsumexp.data());
  for (auto _ : state) {
    if (backward) {
      cpu::attention_backward(t, a, 0, sentences * kHeads, part(x, 0), part(x, 1), part(x, 2), logsumexp.data(),
                              dout.data(), part(dx, 0), part(dx, 1), part(dx, 2));
    } else {
      cpu::attention(t, a, 0, sentences * kHeads, part(x, 0), part(x, 1), part(x, 2), out.data(), logsumexp.data());
    }
    benchmark::ClobberMemory();
  }
  const double scores = causal ? length * (length + 1) / 2.0 : static_cast<double>(length * length);
  state.counters["FLOP/s"] = benchmark::Counter((backward ? 10.0 : 4.0) * scores * d * sentences * kHeads,
                                                benchmark::Counter::kIsIterationInvariantRate);
  state.counters["tokens/s"] =
      benchmark::Counter(static_cast<double>(rows), benchmark::Counter::kIsIterationInvariantRate);
}

// A step of decoding: hypotheses attend to their own tokens, of which each four share all but the last eight, or none.
void BM_AttentionCached(benchmark::State& state, DType t, bool sharing) {
  const int64_t length = state.range(0), rows = state.range(1), width = kHeads * 64;
  const int64_t shared = sharing ? length - 8 : 0;
  const std::vector<uint8_t> q = random_array(t, rows * width), cache = random_array(t, rows * length * 2 * width);
  std::vector<uint8_t> out(q.size());
  std::vector<int32_t> entry(rows * length);
  for (int64_t r = 0; r < rows; ++r) {  // step by step, as decoding fills a cache
    for (int64_t j = 0; j < length; ++j)
      entry[r * length + j] = static_cast<int32_t>(j * rows + (j < shared ? r / 4 * 4 : r));
  }
  const std::vector<int32_t> lengths(rows, static_cast<int32_t>(length));
  const AttentionOverCache a{kHeads,         64,    64,    0,     0.125f, entry.data(), length,
                             lengths.data(), width, width, width, width};
  for (auto _ : state) {
    cpu::attention_cached(t, a, 0, rows, q.data(), cache.data(), cache.data() + cache.size() / 2, out.data());
    benchmark::ClobberMemory();
  }
  const int64_t read = rows * length - std::max<int64_t>(shared, 0) * (rows - rows / 4);
  state.SetBytesProcessed(state.iterations() * read * 2 * width * static_cast<int64_t>(size_of(t)));
}

// A step of decoding: of each sentence four hypotheses attend to its source.
void BM_AttentionFew(benchmark::State& state, DType t) {
  constexpr int64_t kQueries = 4, kD = 64, kWidth = kHeads * kD;
  const int64_t length = state.range(0), sentences = state.range(1);
  std::vector<int32_t> q_begin, k_begin;
  std::vector<int64_t> weights;
  for (int64_t s = 0; s <= sentences; ++s) {
    q_begin.push_back(static_cast<int32_t>(s * kQueries));
    k_begin.push_back(static_cast<int32_t>(s * length));
    weights.push_back(s * kQueries * length);
  }
  const Attention a{sentences, q_begin.data(), k_begin.data(), weights.data(), kHeads, kD, kD, 0.125f, {},
                    {},        kWidth,         kWidth,         kWidth,         kWidth};
  const std::vector<uint8_t> q = random_array(t, sentences * kQueries * kWidth),
                             kv = random_array(t, sentences * length * 2 * kWidth);
  std::vector<uint8_t> out(q.size());
  for (auto _ : state) {
    cpu::attention(t, a, 0, sentences * kHeads, q.data(), kv.data(), kv.data() + kv.size() / 2, out.data(), nullptr);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(kv.size()));
}

void training_sizes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"length", "d"});
  for (int64_t d : {16, 32, 64}) {
    for (int64_t length : {8, 16, 25, 32, 40, 64, 128, 256, 512}) b->Args({length, d});
  }
}

void decoding_sizes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"length", "rows"});
  for (int64_t length : {1, 10, 30, 100, 200}) {
    for (int64_t rows : {4, 256}) b->Args({length, rows});
  }
}

void few_sizes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"length", "sentences"});
  for (int64_t length : {1, 15, 30, 100, 400}) {
    for (int64_t keys : {1000, 32000}) b->Args({length, std::max<int64_t>(1, keys / length)});
  }
}

BENCHMARK_CAPTURE(BM_Attention, forward_f32, DType::kF32, false, false, 0.0f)->Apply(training_sizes);
BENCHMARK_CAPTURE(BM_Attention, forward_bf16, DType::kBF16, false, false, 0.0f)->Apply(training_sizes);
BENCHMARK_CAPTURE(BM_Attention, forward_bf16_causal, DType::kBF16, false, true, 0.0f)->Apply(training_sizes);
BENCHMARK_CAPTURE(BM_Attention, forward_bf16_dropout, DType::kBF16, false, false, 0.1f)->Apply(training_sizes);
BENCHMARK_CAPTURE(BM_Attention, backward_f32, DType::kF32, true, false, 0.0f)->Apply(training_sizes);
BENCHMARK_CAPTURE(BM_Attention, backward_bf16, DType::kBF16, true, false, 0.0f)->Apply(training_sizes);
BENCHMARK_CAPTURE(BM_Attention, backward_bf16_causal, DType::kBF16, true, true, 0.0f)->Apply(training_sizes);
BENCHMARK_CAPTURE(BM_Attention, backward_bf16_dropout, DType::kBF16, true, false, 0.1f)->Apply(training_sizes);
BENCHMARK_CAPTURE(BM_AttentionFew, f32, DType::kF32)->Apply(few_sizes);
BENCHMARK_CAPTURE(BM_AttentionFew, bf16, DType::kBF16)->Apply(few_sizes);
BENCHMARK_CAPTURE(BM_AttentionCached, f32, DType::kF32, false)->Apply(decoding_sizes);
BENCHMARK_CAPTURE(BM_AttentionCached, bf16, DType::kBF16, false)->Apply(decoding_sizes);
BENCHMARK_CAPTURE(BM_AttentionCached, bf16_sharing, DType::kBF16, true)->Apply(decoding_sizes);

}  // namespace
