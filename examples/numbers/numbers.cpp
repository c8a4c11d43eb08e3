// Writes nmt's sample corpus: English-German sentence pairs about numbers, dates, times, prices and quantities.
#include <cstdio>

#include "base/error.h"
#include "config/app.h"
#include "corpus.h"

int main(int argc, char** argv) {
  std::string output, check, baselines;
  nmt::numbers::Sizes sizes;
  uint64_t seed = 1;

  nmt::App app("numbers-corpus", "Writes and checks a sample corpus: English-German sentence pairs about numbers.");
  nmt::Options& options = app.options();
  options.add("output", output, "Folder to write: {train,dev,test}.{en,de}");
  options.add("train", sizes.train, "Training pairs").range(0, 1e6);
  options.add("dev", sizes.dev, "Development pairs").range(0, 1e5);
  options.add("test", sizes.test, "Test pairs").range(0, 1e5);
  options.add("seed", seed, "The same seed gives the same files");
  options.add("check", check, "Folder to check: held-out values, duplicates, translations, lengths");
  options.add("baselines", baselines,
              "Folder to add baseline.copy.de and baseline.nearest.de to, translations of test.en");
  app.run([&] {
    nmt::require(!output.empty() || !check.empty() || !baselines.empty(),
                 "nothing to do: give --output, --check or --baselines with a folder");
    if (!output.empty()) nmt::numbers::write_corpus(output, sizes, seed);
    if (!check.empty()) {
      const auto report = nmt::numbers::examine(check);
      std::fputs(report.text().c_str(), stdout);
      nmt::require(report.sound(), "{} does not keep its values apart or its sentences single (see the lines above)",
                   check);
    }
    if (!baselines.empty()) nmt::numbers::write_baselines(baselines);
  });
  return app.main(argc, argv);
}
