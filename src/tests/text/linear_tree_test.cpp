#include "text/linear_tree.h"

#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/line_reader.h"
#include "base/philox.h"
#include "tests/catch.h"
#include "tests/complaint.h"
#include "text/split_words.h"

using namespace nmt;
using nmt::testing::complaint_of;

namespace {

Tree tree_of(const std::string& text) {
  std::deque<Tree> trees;
  TreeParser().parse(text, "", trees);
  return trees.at(0);
}

std::string linear(const std::string& text, bool keep_tags = false) {
  const auto tree = normalise(tree_of(text), keep_tags);
  return tree ? linearise(*tree) : "nothing";
}

std::string normal(const std::string& text) { return normalise(tree_of(text), true)->text(); }

void refuse(size_t offset, const std::string& what) { user_error("{} {}", offset, what); }
void ignore(size_t, const std::string&) {}

std::string strict(const std::string& tokens, const std::string& words) {
  const auto tree = delinearise(tokens, split_words(words), refuse);
  return tree ? tree->text() : "nothing";
}

std::string error_of(const std::string& tokens, const std::string& words) {
  const std::string what = complaint_of([&] { strict(tokens, words); });
  return what.empty() ? what : fmt::format("{}:{}", column_of(tokens, std::stoul(what)), what.substr(what.find(' ')));
}

std::string repaired(const std::string& tokens, const std::string& words) {
  const auto tree = delinearise(tokens, split_words(words), ignore);
  return tree ? tree->text() : "nothing";
}

}  // namespace

TEST_CASE("labels lose function tags and indices") {
  CHECK(plain_label("NP") == "NP");
  CHECK(plain_label("NP-SBJ-1") == "NP");
  CHECK(plain_label("NP=2") == "NP");
  CHECK(plain_label("NP-TMP=3") == "NP");
  CHECK(plain_label("-NONE-") == "-NONE-");
  CHECK(plain_label("-LRB-") == "-LRB-");
  CHECK(plain_label("=") == "=");
  CHECK(plain_label("") == "");
}

TEST_CASE("trees as tokens") {
  const std::string tree = "(S (NP (DT the) (NN cat)) (VP (VBZ sleeps)) (. .))";
  CHECK(linear(tree) == "(S (NP XX XX )NP (VP XX )VP XX )S");
  CHECK(linear(tree, true) == "(S (NP DT NN )NP (VP VBZ )VP . )S");
  CHECK(sentence_of(tree_of(tree)) == "the cat sleeps .");
  CHECK(linear("( (S (NP-SBJ-1 (PRP it)) (VP (VBZ is) (NP=2 (-NONE- *T*-1)))))") == "(S (NP XX )NP (VP XX )VP )S");
  CHECK(linear("(S (-LRB- -LRB-) (NP (-NONE- *)) (X (Y (-NONE- *)) (NN a)))", true) == "(S -LRB- (X NN )X )S");
  CHECK(linear("(TOP (S (NN a)))") == "(S XX )S");
  CHECK(linear("( (TOP (S (NN a))))") == "(S XX )S");
  CHECK(linear("(TOP (S (NN a)) (S (NN b)))") == "(S XX )S (S XX )S");
  CHECK(linear("( (S (NN a)) (. .))") == "(S XX )S XX");
  CHECK(linear("(NN a)") == "XX");
  CHECK(linear("(S (NP (-NONE- *)))") == "nothing");
  CHECK(normal("( (S-1 (NN a)))") == "(S (NN a))");
  CHECK(normal("( (S (NN a)) (. .))") == "(TOP (S (NN a)) (. .))");
  CHECK(normal("(TOP (NN a))") == "(TOP (NN a))");
  CHECK(normal("(NN a)") == "(TOP (NN a))");
}

TEST_CASE("tokens and words as trees") {
  CHECK(strict("(S (NP XX XX )NP (VP XX )VP )S", "the cat sleeps") == "(S (NP (XX the) (XX cat)) (VP (XX sleeps)))");
  CHECK(strict("(S (NP DT )NP )S", "that") == "(S (NP (DT that)))");
  CHECK(strict("XX", "that") == "(TOP (XX that))");
  CHECK(strict("(S XX )S (S XX )S", "a b") == "(TOP (S (XX a)) (S (XX b)))");
  CHECK(strict("(TOP (S XX )S )TOP", "a") == "(S (XX a))");
  CHECK(strict("", "") == "nothing");
  CHECK(strict("(S XX )S", "(") == "(S (XX -LRB-))");
}

TEST_CASE("malformed tokens are refused with their column") {
  CHECK(error_of("(S (NP XX )NP", "a") == "14: '(S' is not closed");
  CHECK(error_of("(S XX )S )S", "a") == "10: ')S' closes nothing");
  CHECK(error_of("(S (NP XX )VP )S", "a") == "11: ')VP' closes '(NP'");
  CHECK(error_of("(S XX XX )S", "a") == "7: 'XX' is a leaf too many: there are 1 words");
  CHECK(error_of("(S XX )S", "a b") == "9: there are 1 leaves, but 2 words");
  CHECK(error_of("", "a b") == "1: there are 0 leaves, but 2 words");
  CHECK(error_of("(S (NP )NP XX )S", "a") == "8: '(NP' ends without a word");
  CHECK(error_of("( XX )", "a") == "1: '(' has no label");
  CHECK(error_of("((S XX )S", "a") == "1: '((S' has no label");
  CHECK(error_of("(\xC3\xBC X)X )\xC3\xBC", "a") == "4: 'X)X' is neither bracket nor tag");
  CHECK(error_of("XX", "") == "1: 'XX' is a leaf too many: there are 0 words");
}

TEST_CASE("malformed tokens are repaired") {
  CHECK(repaired("(S (NP XX )NP (VP XX", "a b") == "(S (NP (XX a)) (VP (XX b)))");
  CHECK(repaired("(S (NP XX )NP (VP XX", "a b c d") == "(S (NP (XX a)) (VP (XX b) (XX c) (XX d)))");
  CHECK(repaired("(S (NP XX )NP )S", "a b c") == "(S (NP (XX a)) (XX b) (XX c))");
  CHECK(repaired("(S XX )S XX", "a b c") == "(TOP (S (XX a)) (XX b) (XX c))");
  CHECK(repaired("(S (NP XX XX XX )NP (VP XX )VP )S", "a b") == "(S (NP (XX a) (XX b)))");
  CHECK(repaired("(S (NP (X XX )S (VP XX )VP", "a b") == "(TOP (S (NP (X (XX a)))) (VP (XX b)))");
  CHECK(repaired("(S (NP XX )VP XX )S", "a b") == "(S (NP (XX a)) (XX b))");
  CHECK(repaired(")S )S XX", "a") == "(TOP (XX a))");
  CHECK(repaired("( XX ) (S) XX", "a b") == "(TOP (XX a) (XX b))");
  CHECK(repaired("(S X(X )S", "a") == "(S (XX a))");
  CHECK(repaired("(S (NP )NP )S", "a") == "(TOP (XX a))");
  CHECK(repaired("", "a b") == "(TOP (XX a) (XX b))");
  CHECK(repaired("(S XX )S", "") == "nothing");
}

TEST_CASE("any tokens are repaired to a tree over exactly the words") {
  const std::vector<std::string> tokens = {"(S",  "(NP", "(", "XX", "XX",   "DT", ")S",
                                           ")NP", ")X",  ")", "()", "(TOP", "a)"};
  Random random(1);
  for (int round = 0; round < 5000; ++round) {
    std::string line, words;
    for (size_t i = random.below(20); i > 0; --i) line += tokens[random.below(tokens.size())] + " ";
    for (size_t i = random.below(6); i > 0; --i) words += fmt::format("{}{}", words.empty() ? "" : " ", i);
    INFO(line << "| " << words);
    const auto tree = delinearise(line, split_words(words), ignore);
    REQUIRE(tree.has_value() == !words.empty());
    if (!tree) continue;
    CHECK(sentence_of(*tree) == words);
    CHECK(tree_of(tree->text()) == *tree);
    CHECK(normalise(*tree, true) == tree);
    CHECK(delinearise(linearise(*tree), split_words(words), refuse) == tree);
  }
}

TEST_CASE("tokens of any depth are repaired") {
  std::string tokens;
  for (size_t i = 0; i < kMostOpen; ++i) tokens += "(S ";
  CHECK(error_of(tokens + "XX", "a") == "1497: '(S' is not closed");
  CHECK(error_of(tokens + "(S XX", "a") == "1495: more than 498 brackets are open");
  for (int i = 0; i < 1'000'000; ++i) tokens += "(S ";
  const auto tree = delinearise(tokens + "XX", split_words("a b"), ignore);
  REQUIRE(tree);
  CHECK(sentence_of(*tree) == "a b");
  CHECK(tree_of(tree->text()) == *tree);
}

TEST_CASE("a treebank's trees and back") {
  const char* data = std::getenv("NMT_DATA");
  const std::string folder = std::string(data == nullptr ? "" : data) + "/trees/craft";
  if (!std::filesystem::exists(folder)) {
    WARN("SKIPPED: 'a treebank's trees and back' needs NMT_DATA with trees/craft");
    return;
  }
  for (const std::string name : {"train.clean", "dev.clean"}) {
    TreeReader reader(folder + "/" + name);
    int64_t trees = 0, different = 0;
    for (Tree tree; reader.next(tree); ++trees) {
      const auto normal = normalise(tree, true);
      REQUIRE(normal);
      const auto words = sentence_of(*normal);
      different += delinearise(linearise(*normal), split_words(words), refuse) == normal ? 0 : 1;
    }
    CHECK(trees == std::ssize(read_lines(folder + "/" + name)));
    CHECK(different == 0);
  }
}
