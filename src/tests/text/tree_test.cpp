#include "text/tree.h"

#include <fstream>

#include "base/error.h"
#include "base/philox.h"
#include "tests/catch.h"
#include "tests/complaint.h"
#include "tests/temp_folder.h"

using namespace nmt;
using nmt::testing::complaint_of;

namespace {

std::vector<Tree> read_trees(const std::string& text) {
  TempFolder folder;
  std::ofstream(folder / "trees", std::ios::binary) << text;
  TreeReader reader(folder / "trees");
  std::vector<Tree> trees;
  for (Tree tree; reader.next(tree);) trees.push_back(tree);
  return trees;
}

// The error's place and reason, without the file's folder; empty where there is none.
std::string error_of(const std::string& text) {
  const std::string what = complaint_of([&] { read_trees(text); });
  return what.empty() ? what : what.substr(what.find("trees:") + 6);
}

std::string repeated(const std::string& text, size_t times) {
  std::string all;
  for (size_t i = 0; i < times; ++i) all += text;
  return all;
}

}  // namespace

TEST_CASE("a tree has labels, tags and words") {
  const auto trees = read_trees("(S (NP (DT the) (NN cat)) (VP (VBZ sleeps)))\n");
  REQUIRE(trees.size() == 1);
  const Tree& s = trees[0];
  CHECK(s.label == "S");
  CHECK(!s.is_leaf());
  REQUIRE(s.children.size() == 2);
  REQUIRE(s.children[0].children.size() == 2);
  CHECK(s.children[0].children[1] == Tree{"NN", "cat"});
  CHECK(s.children[1].children[0].is_leaf());
}

TEST_CASE("trees in all layouts of treebanks") {
  const std::string one = "(S (NP (PRP it)) (VP (VBZ is)))";
  const std::string lines = "\n( (S\n    (NP (PRP it))\n\t(VP\n      (VBZ is ) )) )\n\n";
  CHECK(read_trees(one)[0].text() == one);
  CHECK(read_trees(lines)[0].text() == "( " + one + ")");
  CHECK(read_trees(one + one + " " + one + "\n" + one + lines).size() == 5);
  CHECK(read_trees("\xEF\xBB\xBF" + one + "\r\n" + one + "\r\n").at(1).text() == one);
  CHECK(read_trees("(S(NP(PRP it))(VP(VBZ is)))")[0].text() == one);
  CHECK(read_trees("(NN word)")[0] == Tree{"NN", "word"});
  CHECK(read_trees("").empty());
  CHECK(read_trees(" \n\n\t\n").empty());
}

TEST_CASE("labels and words are kept as they are") {
  const std::string text =
      "(S (NP-SBJ-1 (-LRB- -LRB-) (NN=2 h\xC3\xBCte) (-RRB- -RRB-)) (VP|X (-NONE- *T*-1) ('' '') (, ,) (PRP$ its)))";
  CHECK(read_trees(text)[0].text() == text);
  CHECK(Tree{"SYM", "f(x)"}.text() == "(SYM f-LRB-x-RRB-)");
}

TEST_CASE("a text that is no tree is refused with line and column") {
  CHECK(error_of("(S (NN a))\n  )") == "2:3: ')' closes nothing");
  CHECK(error_of("(S (NN a))\n\n (S\n(NN a)\n") == "3:2: this bracket is not closed");
  CHECK(error_of("(S ())") == "1:4: this bracket has no label");
  CHECK(error_of("()") == "1:2: the bracket that ends here is empty");
  CHECK(error_of("(S (NP ) (NN a))") == "1:8: the bracket that ends here is empty");
  CHECK(error_of("(S ( (NN a)))") == "1:4: this bracket has no label");
  CHECK(error_of("( a)") == "1:3: the word 'a' has no tag");
  CHECK(error_of("(S (NN \xC3\xBC\xC3\xBC) a)") ==
        "1:12: the word 'a' stands beside brackets; it needs one of its own");
  CHECK(error_of("(S a (NN b))") == "1:6: a bracket after the word 'a'");
  CHECK(error_of("(S (NN a b))") == "1:10: the word 'b' stands beside the word 'a'");
  CHECK(error_of("a (S (NN b))") == "1:1: the word 'a' stands outside of all brackets");
  CHECK(error_of("(S (NN a))\n(S (NN \xC3\xBC\xFF))") == "2:9: malformed UTF-8");
  CHECK(error_of("(S (NN \xEF\xBF"
                 "a))") == "1:8: malformed UTF-8");
  CHECK(error_of(std::string("(S (NN a\0))", 11)) == "1:9: NUL byte: this is not UTF-8 text");
}

TEST_CASE("an empty bracket can be asked for") {
  TreeParser parser(EmptyBrackets::kAccept);
  std::deque<Tree> trees;
  parser.parse("(()) () (TOP)", "", trees);
  REQUIRE(trees.size() == 3);
  CHECK(trees[2] == Tree{"TOP"});
}

TEST_CASE("hostile depth and size are refused, not followed") {
  constexpr size_t kMany = 1'000'000;
  const auto most = TreeParser::kMaxDepth - 1;
  CHECK(read_trees(repeated("(S ", most) + "(NN a)" + repeated(")", most)).size() == 1);
  CHECK(error_of(repeated("(S ", most + 1) + "(NN a)").starts_with("1:1501: more than 500 brackets are open"));
  CHECK(!error_of(repeated("(S ", kMany)).empty());
  CHECK(!error_of(repeated("(S\n", kMany)).empty());
  CHECK(!error_of(repeated("(", kMany)).empty());
  CHECK(!error_of(repeated(")", kMany)).empty());
  CHECK(!error_of("(S " + repeated("(NN a) ", kMany) + ")").empty());
  CHECK(read_trees(repeated("(NN a)", kMany)).size() == kMany);
  const std::string huge(kMany, 'x');
  CHECK(read_trees(fmt::format("({} (NN {}))", huge, huge))[0].label == huge);
}

TEST_CASE("a tree that is cut off is refused, wherever the cut is") {
  const std::string text = "( (S (NP-SBJ (DT the) (NN cat)) (VP (VBZ sleeps)) (. .)))";
  for (size_t size = 1; size < text.size(); ++size) {
    INFO(text.substr(0, size));
    CHECK(!error_of(text.substr(0, size)).empty());
  }
}

TEST_CASE("random text is trees or an error, and trees are read as they are written") {
  const std::vector<std::string> parts = {"(S ", "(", "(NN a)", "(NN ", ")", ")", ")", " ", "a", "-", "\xC3", "\xBC"};
  Random random(1);
  int read = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (size_t i = random.below(12); i > 0; --i) text += parts[random.below(parts.size())];
    std::deque<Tree> trees;
    try {
      TreeParser parser;
      parser.parse(text, "text:", trees);
      parser.finish();
    } catch (const UserError&) {
      continue;
    }
    for (const Tree& tree : trees) {
      std::deque<Tree> again;
      TreeParser().parse(tree.text(), "", again);
      CHECK(again.at(0) == tree);
      ++read;
    }
  }
  CHECK(read > 200);
}
