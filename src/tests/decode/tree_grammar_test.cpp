#include "decode/tree_grammar.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "base/error.h"
#include "model_fixture.h"
#include "tests/catch.h"
#include "tests/complaint.h"
#include "tests/compute_types.h"
#include "text/linear_tree.h"

using namespace nmt;
using nmt::testing::complaint_of;
using nmt::testing::compute_types;

namespace {

using Ids = std::vector<int32_t>;

const auto kTrees = tree_vocab();

// Whether delinearise() takes the tokens without a fault.
bool is_tree(const Ids& ids, int64_t words) {
  const std::vector<std::string_view> sentence(static_cast<size_t>(words), "word");
  bool fine = true;
  delinearise(kTrees->decode(ids), sentence, [&](size_t, const std::string&) { fine = false; });
  return fine;
}

// All that the grammar lets end within the limit, without </s>.
std::set<Ids> all_trees(const TreeGrammar& grammar, int64_t words, int64_t limit) {
  std::set<Ids> complete;
  std::vector<Ids> begun(1);
  while (!begun.empty()) {
    const Ids prefix = begun.back();
    begun.pop_back();
    Ids next;
    grammar.next(prefix, words, limit, next);
    CHECK(!next.empty());
    for (const int32_t id : next) {
      if (id == kTrees->eos_id()) {
        complete.insert(prefix);
      } else {
        begun.push_back(prefix);
        begun.back().push_back(id);
      }
    }
  }
  return complete;
}

std::vector<std::vector<Hypothesis>> translate(Decoder& decoder, std::span<const Ids> sources,
                                               std::span<const int32_t> words) {
  std::vector<std::vector<Hypothesis>> all(sources.size());
  decoder.translate(
      sources, {.sentences = 6}, [&](size_t i, std::vector<Hypothesis> best) { all[i] = std::move(best); }, words);
  return all;
}

double log_probability(Decoder& decoder, const Ids& source, Ids target) {
  target.push_back(1);
  const IdPair pair{source, target};
  const auto scores = decoder.score(std::span(&pair, 1))[0];
  return std::accumulate(scores.begin(), scores.end(), 0.0);
}

}  // namespace

TEST_CASE("a grammar of trees gives all token sequences that are trees, and no other") {
  const TreeGrammar grammar(*kTrees, false, "words");
  for (int64_t words = 0; words <= 4; ++words)
    for (int64_t limit = words + 1; limit <= 7; ++limit) {
      std::set<Ids> expected;
      std::vector<Ids> shorter(1);
      for (int64_t length = 0; length < limit; ++length) {
        std::vector<Ids> longer;
        for (const Ids& ids : shorter) {
          if (is_tree(ids, words)) expected.insert(ids);
          for (int32_t id = 2; id < kTrees->size(); ++id) {
            longer.push_back(ids);
            longer.back().push_back(id);
          }
        }
        shorter = std::move(longer);
      }
      CHECK(all_trees(grammar, words, limit) == expected);
    }
}

TEST_CASE("a tree is not deeper than one that can be read") {
  const TreeGrammar grammar(*kTrees, false, "words");
  Ids ids, next;
  for (; ids.size() < kMostOpen; ids.push_back(kTrees->find("(A"))) {
    grammar.next(ids, 1, 2000, next);
    CHECK(std::ranges::count(next, kTrees->find("(A")) == 1);
  }
  grammar.next(ids, 1, 2000, next);
  CHECK(next == Ids{kTrees->find("XX")});
}

TEST_CASE("with tags for leaves, every piece that is no bracket is a tag") {
  const auto vocab = vocab_of({"(NP", ")NP", "DT", "XX", "(", ")S", "(VP"});  // some treebanks have a tag XX
  const TreeGrammar grammar(*vocab, false, "words");
  Ids next;
  const auto expect = [&](const Ids& begun, std::vector<std::string> pieces) {
    grammar.next(begun, 2, 20, next);
    Ids ids;
    for (const auto& piece : pieces) ids.push_back(vocab->find(piece));
    CHECK(next == ids);
  };
  const int32_t open = vocab->find("(NP"), close = vocab->find(")NP"), noun = vocab->find("XX");
  expect({}, {"DT", "XX", "(NP"});
  expect({open}, {"DT", "XX", "(NP"});
  expect({open, noun}, {"DT", "XX", "(NP", ")NP"});
  expect({open, noun, noun}, {")NP"});
  expect({open, noun, noun, close}, {"</s>"});

  // Where the sentences' words are in it, too:
  TreeGrammar(*vocab, true, "words").next({}, 2, 20, next);
  CHECK(next == Ids{noun, open});
}

TEST_CASE("vocabularies that hold no trees are refused") {
  const auto error_of = [](const Vocab& vocab) { return complaint_of([&] { TreeGrammar(vocab, false, "FILE"); }); };
  CHECK(error_of(*vocab_of({"(NP", ")NP", "XX"})).empty());
  for (const auto& words : {std::vector<std::string>{"the", "cat"}, {"(NP", ")VP", "XX"}, {"(NP", ")NP"}})
    CHECK(error_of(*vocab_of(words)).starts_with("FILE: trees need a target vocabulary with brackets"));
}

TEST_CASE("with a wide beam the search finds the most probable tree of all") {
  const TreeGrammar grammar(*kTrees, false, "words");
  int bound = 0;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    TestModel model(seed, kTrees->size());
    const Scorer scorers[] = {model.scorer()};
    Runtime runtime(1);
    const SearchOptions options{.beam = 100, .alpha = 0.3, .max_extra = 5, .trees = &grammar},
        free{.beam = 100, .alpha = 0.3, .max_extra = 5};
    Decoder decoder(scorers, runtime, options), anything(scorers, runtime, free);
    const Ids source = {2, static_cast<int32_t>(2 + seed % 5), 1};
    const auto found = translate(decoder, std::span(&source, 1), {})[0].at(0);
    bound += translate(anything, std::span(&source, 1), {})[0].at(0).ids != found.ids ? 1 : 0;
    double best = -INFINITY;
    const auto trees = all_trees(grammar, 2, 7);
    CHECK(trees.size() > 30);
    for (const Ids& tree : trees) {
      const double score =
          log_probability(decoder, source, tree) / options.penalty(static_cast<int64_t>(tree.size()) + 1);
      best = std::max(best, score);
      if (tree == found.ids) CHECK(found.score == Approx(score).epsilon(1e-4));
    }
    CHECK(trees.contains(found.ids));
    CHECK(found.score == Approx(best).epsilon(1e-4));
  }
  CHECK(bound > 3);  // what is more probable is no tree
}

TEST_CASE("whatever the model gives, its translations are trees of the words") {
  const TreeGrammar grammar(*kTrees, false, "words");
  const auto beam = GENERATE(1, 5, 21);
  const auto models = GENERATE(1, 2);
  TestModel first(7, kTrees->size()), second(8, kTrees->size());
  std::vector<Scorer> scorers = {first.scorer()};
  if (models == 2) scorers.push_back(second.scorer());
  Runtime runtime(2, GENERATE(from_range(compute_types())));
  Decoder decoder(scorers, runtime, {.beam = beam, .max_extra = 12, .n_best = true, .trees = &grammar});
  Random random(3);
  std::vector<Ids> sources;
  Ids words;
  for (int i = 0; i < 30; ++i) {
    words.push_back(static_cast<int32_t>(random.below(9)));
    Ids& source = sources.emplace_back();
    for (uint64_t n = random.below(9); n > 0; --n) source.push_back(static_cast<int32_t>(2 + random.below(5)));
    source.push_back(1);
  }
  const auto found = translate(decoder, sources, words);
  for (size_t s = 0; s < sources.size(); ++s) {
    REQUIRE(!found[s].empty());
    for (const auto& hypothesis : found[s]) {
      CHECK(is_tree(hypothesis.ids, words[s]));
      CHECK(std::ssize(hypothesis.ids) < std::max<std::ptrdiff_t>(std::ssize(sources[s]) - 1, words[s]) + 12);
      if (runtime.compute() == DType::kF32)
        CHECK(hypothesis.log_probability ==
              Approx(log_probability(decoder, sources[s], hypothesis.ids)).epsilon(1e-4).margin(1e-4));
    }
  }
}
