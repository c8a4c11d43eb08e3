// Any input either is trees, which are read as they are written and are the same after linearising and back, or is a
// UserError; and any line of tokens can be repaired.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "fuzz/fuzz.h"
#include "text/linear_tree.h"
#include "text/split_words.h"

namespace {

void demand(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

std::vector<std::string> examples() {
  return {"(S (NP (DT the) (NN dog)) (VP (VBZ barks)) (. .))\n",
          "((S (NP-SBJ=2 (-NONE- *T*-1)) (VP (VB go))))\n(X y)\n", "(S\n  (NP (-LRB- -LRB-) (NN a\\/b))\n)\n",
          "(S (NP XX XX )NP (VP XX )VP )S"};
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nmt;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto ignore = [](size_t, const std::string&) {};
  const auto repaired = delinearise(text, split_words("three words here"), ignore);
  demand(repaired && sentence_of(*repaired) == "three words here");

  std::deque<Tree> trees;
  try {
    TreeParser parser;
    for (size_t begin = 0; begin < size;) {
      const size_t end = std::min(text.find('\n', begin), size);
      parser.parse(std::string_view(text).substr(begin, end - begin), "fuzz:", trees);
      begin = end + 1;
    }
    parser.finish();
  } catch (const UserError&) {
    return 0;
  }
  for (const Tree& tree : trees) {
    std::deque<Tree> again;
    TreeParser().parse(tree.text(), "again:", again);
    demand(again.size() == 1 && again[0] == tree);
    const auto normal = normalise(tree, true);
    if (!normal) continue;
    bool deep = false;  // the deepest trees that can be read are too deep for tokens
    const auto same = delinearise(linearise(*normal), split_words(sentence_of(*normal)), [&](size_t, const auto& what) {
      demand(what.starts_with("more than "));
      deep = true;
    });
    demand(deep || same == normal);
  }
  return 0;
}
