// What a model attends to, and the words that it aligns by it.
#include <numeric>

#include "base/error.h"
#include "base/line_reader.h"
#include "decode/attention_output.h"
#include "model_fixture.h"
#include "tests/catch.h"
#include "tests/device.h"
#include "tests/temp_folder.h"

using namespace nmt;
using nmt::testing::test_device;

namespace {

std::vector<IdPair> random_pairs(size_t count, uint64_t longest) {
  const auto sources = random_sources(count, longest, 3), targets = random_sources(count, longest, 4);
  std::vector<IdPair> pairs;
  for (size_t i = 0; i < count; ++i) pairs.push_back({sources[i], targets[i]});
  return pairs;
}

std::vector<PairAttention> attention_of(TestModel& model, std::span<const IdPair> pairs, bool self,
                                        const std::shared_ptr<Backend>& backend = host_backend()) {
  Runtime runtime(2, DType::kF32, false, backend);
  std::vector<PairAttention> found;
  read_attention(model.scorer(), runtime, pairs, self, [&](const IdPair& pair, const PairAttention& attention) {
    CHECK(&pair == &pairs[found.size()]);
    found.push_back(attention);
  });
  CHECK(found.size() == pairs.size());
  return found;
}

void check_close(const AttentionWeights& a, const AttentionWeights& b) {
  REQUIRE(a.values.size() == b.values.size());
  CHECK(a.queries == b.queries);
  CHECK(a.layers == b.layers);
  for (size_t i = 0; i < a.values.size(); ++i) CHECK(std::abs(a.values[i] - b.values[i]) < 1e-5f);
}

// One layer and one head.
AttentionWeights matrix(std::initializer_list<std::initializer_list<float>> rows) {
  AttentionWeights weights{
      .layers = 1, .heads = 1, .queries = std::ssize(rows), .keys = std::ssize(*rows.begin()), .values = {}};
  for (const auto& row : rows) weights.values.insert(weights.values.end(), row);
  return weights;
}

const std::vector<int32_t> kSource = {0, 0, 1, 2, -1}, kTarget = {0, 1, 1, -1};

std::string links(const AttentionWeights& cross, const AlignmentOptions& options) {
  return alignment_text(align_words(cross, kSource, kTarget, options));
}

}  // namespace

TEST_CASE("the weights of every row sum to 1, and do not depend on the sentences beside it") {
  TestModel model(5);
  auto pairs = random_pairs(40, 30);  // several batches
  pairs.push_back({{1}, {1}});
  const auto together = attention_of(model, pairs, true);
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto& [encoder, decoder, cross] = together[i];
    const int64_t source = std::ssize(pairs[i].source), target = std::ssize(pairs[i].target);
    CHECK((encoder.queries == source && encoder.keys == source));
    CHECK((decoder.queries == target && decoder.keys == target));
    CHECK((cross.queries == target && cross.keys == source));
    for (const AttentionWeights* weights : {&encoder, &decoder, &cross}) {
      CHECK((weights->layers == 2 && weights->heads == 2));
      for (int64_t row = 0; row < weights->layers * weights->heads * weights->queries; ++row) {
        const auto of_row = std::span(weights->values)
                                .subspan(static_cast<size_t>(row * weights->keys), static_cast<size_t>(weights->keys));
        CHECK(std::accumulate(of_row.begin(), of_row.end(), 0.0) == Approx(1).epsilon(1e-5));
        const auto behind = static_cast<size_t>(row % weights->queries + 1);
        for (size_t k = behind; weights == &decoder && k < of_row.size(); ++k) CHECK(of_row[k] == 0);
      }
    }
    const auto alone = attention_of(model, std::span(&pairs[i], 1), true);
    check_close(encoder, alone[0].encoder);
    check_close(decoder, alone[0].decoder);
    check_close(cross, alone[0].cross);
  }
  const auto some = attention_of(model, pairs, false);
  CHECK((some[0].encoder.values.empty() && some[0].decoder.values.empty()));
  check_close(some[7].cross, together[7].cross);
}

TEST_CASE("a device's attention weights are the host's") {
  const auto device = test_device();
  if (device == nullptr) return;
  TestModel here(5), there(5, 12, device);
  const auto pairs = random_pairs(5, 9);
  const auto expected = attention_of(here, pairs, true);
  const auto found = attention_of(there, pairs, true, device);
  for (size_t i = 0; i < pairs.size(); ++i) {
    check_close(found[i].encoder, expected[i].encoder);
    check_close(found[i].decoder, expected[i].decoder);
    check_close(found[i].cross, expected[i].cross);
  }
}

TEST_CASE("weights that are not numbers are refused") {
  TestModel model(5);
  model.model.parameters.values()[0] = NAN;
  Runtime runtime(1);
  const IdPair pair{{0, 1}, {0, 1}};
  CHECK_THROWS_WITH(read_attention(model.scorer(), runtime, std::span(&pair, 1), true, [](auto&, auto&) {}),
                    "the model's attention weights are not numbers");
}

TEST_CASE("words are linked by the sum over source pieces and the mean over target pieces") {
  // Source word 0 has two pieces, target word 1 too; the last column and the last row are </s>.
  const auto cross = matrix({{.2f, .25f, .3f, .05f, .2f},  // word 0: .45 .3 .05
                             {.05f, .05f, .1f, .3f, .5f},  // word 1: with the next row .35 .175 .25
                             {.3f, .3f, .25f, .2f, .0f},   //
                             {.0f, .0f, .9f, .1f, .0f}});  // </s>
  CHECK(links(cross, {}) == "0-0 0-1");
  CHECK(links(cross, {.threshold = 0.25}) == "0-0 0-1 1-0 2-1");
  CHECK(links(cross, {.threshold = 0.5}).empty());
  const auto halves = matrix({{.25f, .25f, .25f, .25f, 0}, {0, 0, 0, 0, 1}, {0, 0, 0, 0, 1}, {0, 0, 0, 0, 1}});
  CHECK(links(halves, {.threshold = 0.5}) == "0-0");  // what has just that weight
  // The rows behind: word 0 goes by row 1, word 1 by rows 2 and 3.
  CHECK(links(cross, {.step = "input"}) == "1-1 2-0");
  // Equal weights: the first word.
  CHECK(links(matrix({{.1f, .1f, .2f, .2f, .4f}, {0, 0, 0, 0, 1}, {0, 0, 0, 0, 1}, {0, 0, 0, 0, 1}}), {}) == "0-0 0-1");
  // A word without pieces has no link.
  CHECK(alignment_text(align_words(cross, kSource, std::vector<int32_t>{0, 2, 2, -1}, {})) == "0-0 0-2");
  CHECK(align_words(matrix({{1}}), std::vector<int32_t>{-1}, std::vector<int32_t>{0}, {}).empty());
}

TEST_CASE("heads are chosen, or their mean is") {
  AttentionWeights cross{.layers = 3, .heads = 2, .queries = 2, .keys = 3, .values = {}};
  for (int64_t layer = 0; layer < 3; ++layer)
    for (int64_t head = 0; head < 2; ++head)
      for (int64_t query = 0; query < 2; ++query)
        for (int64_t key = 0; key < 3; ++key) {
          const bool chosen = key == (layer + head) % 3;
          cross.values.push_back(chosen ? (head == 0 ? .8f : .6f) : (head == 0 ? .1f : .2f));
        }
  const std::vector<int32_t> source = {0, 1, 2}, target = {0, -1};
  const auto linked = [&](const AlignmentOptions& options) {
    return alignment_text(align_words(cross, source, target, options));
  };
  CHECK(linked({}) == "1-0");  // the last layer but one
  CHECK(linked({.layer = 1}) == "0-0");
  CHECK(linked({.layer = 1, .head = 2}) == "1-0");
  CHECK(linked({.layer = 3}) == "2-0");
  CHECK(linked({.layer = 3, .head = 2}) == "0-0");
}

TEST_CASE("attention is written as JSON, a line for each pair") {
  std::string bytes = "#nmt-words 1 words=4 merges=0 join=0 lowercase=0 attached=0\n<unk>\n</s>\n</script>\na\"\\\n";
  const auto vocab = Vocab::from_bytes(bytes, "words");
  const PairAttention attention{matrix({{.12344f, .87656f}, {1, 0}}), matrix({{1, 0}, {.25f, .75f}}),
                                matrix({{.00004f, .99996f}, {.5f, .5f}})};
  CHECK(attention_json({{2, 1}, {3, 1}}, attention, *vocab, *vocab, 4) ==
        R"({"source":["</script>","</s>"],"target":["a\"\\","</s>"],"encoder":[[[[0.1234,0.8766],[1,0]]]],)"
        R"("decoder":[[[[1],[0.25,0.75]]]],"cross":[[[[0,1],[0.5,0.5]]]]})"
        "\n");
  CHECK(attention_json({}, {}, *vocab, *vocab, 2) ==
        "{\"source\":[],\"target\":[],\"encoder\":[],\"decoder\":[],\"cross\":[]}\n");

  TestModel model(5);
  Runtime runtime(1);
  const auto words = word_vocab();
  TempFolder folder;
  AttentionOptions options;
  options.attention = folder / "attention";
  options.alignment = folder / "alignment";
  AttentionOutput output(options, model.scorer(), runtime, *words, *words);
  output.write(std::vector<IdPair>{{{2, 1}, {3, 4, 1}}, {}, {}, {{4, 5, 1}, {1}}, {}});
  output.write(std::vector<IdPair>{{{2, 1}, {5, 1}}});
  output.commit();
  CHECK(read_lines(folder / "alignment") == std::vector<std::string>{"0-0 0-1", "", "", "", "", "0-0"});
  CHECK(read_lines(folder / "attention").size() == 6);
  options.rule.layer = 3;
  CHECK_THROWS_WITH(AttentionOutput(options, model.scorer(), runtime, *words, *words),
                    "--alignment-layer 3: the model's decoder has 2 layers");
  options.rule = {.head = 3};
  CHECK_THROWS_WITH(AttentionOutput(options, model.scorer(), runtime, *words, *words),
                    "--alignment-head 3: the model has 2 heads");
}
