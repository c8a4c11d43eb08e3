// driver RUNS: as many inputs, each an example of the target's that was changed in a few places.
// driver FILE...: these, as libFuzzer keeps them.
#include <cstdio>
#include <random>

#include "base/error.h"
#include "base/files.h"
#include "base/parse_number.h"
#include "fuzz/fuzz.h"

namespace {

void try_input(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}

// Numbers and signs of the text's own are more likely to be wrong in an interesting way than any byte is.
void change(std::string& text, std::mt19937& random) {
  const auto below = [&](size_t n) { return n == 0 ? 0 : random() % n; };
  const size_t at = below(text.size() + 1), length = 1 + below(8), from = below(text.size() + 1);
  switch (below(5)) {
    case 0:
      text.insert(at, 1, static_cast<char>(random()));
      break;
    case 1:
      if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
      break;
    case 2:
      text.erase(at, length);
      break;
    case 3:
      text.insert(at, text.substr(from, length));
      break;
    default:
      if (below(8) == 0) text.resize(at);
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const auto runs = argc == 2 ? nmt::parse_number<int>(argv[1]) : std::nullopt;
  if (!runs) {
    for (int i = 1; i < argc; ++i) try_input(nmt::read_file(argv[i]));
    return 0;
  }
  const auto all = examples();
  std::mt19937 random(1);
  for (const auto& example : all) try_input(example);
  for (int run = 0; run < *runs; ++run) {
    std::string input = all[random() % all.size()];
    for (size_t changes = 1 + random() % 6; changes > 0; --changes) change(input, random);
    try_input(input);
  }
  std::printf("%d inputs\n", *runs);
  return 0;
} catch (const nmt::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
