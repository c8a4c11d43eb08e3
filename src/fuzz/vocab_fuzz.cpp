// Any bytes either are a vocabulary, which encodes and decodes whatever text by its own pieces, or are a UserError.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "fuzz/fuzz.h"
#include "tests/temp_folder.h"
#include "text/vocab_trainer.h"

std::vector<std::string> examples() {
  using namespace nmt;
  log::set_quiet(true);
  const TempFolder folder;
  std::ofstream(folder / "text") << "the dog barks\nthe dogs bark @@s low@@ er\n\xC3\xA4 x\n";
  std::ofstream(folder / "merges") << "#version: 0.2\nt h\nth e</w>\n";
  const auto bytes_of = [&](const char* type, int size, const std::function<void(VocabTraining&)>& more = {}) {
    VocabTraining settings;
    settings.type = type;
    settings.size = size;
    settings.train_sets = {folder / "text"};
    if (more) more(settings);
    return train_vocab(settings).vocab->bytes();
  };
  // Most of a file are the rules of normalisation, where it has any.
  static constexpr auto plain = [](VocabTraining& s) { s.normalization = "identity"; };
  return {
      bytes_of("bpe", 30,
               [](auto& s) {
                 plain(s);
                 s.user_defined_symbols = {"do"};
               }),
      bytes_of("bpe", 290,
               [](auto& s) {
                 plain(s);
                 s.byte_fallback = true;
               }),
      bytes_of("unigram", 20, plain),
      bytes_of("unigram", 20),
      bytes_of("wordpiece", 40),
      bytes_of("words", 20),
      bytes_of("words", 20, [](auto& s) { s.join_bpe = true; }),
      bytes_of("words", 20, [&](auto& s) { s.merges = folder / "merges"; }),
  };
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nmt;
  const auto demand = [](bool condition) {
    if (!condition) std::abort();
  };
  std::shared_ptr<const Vocab> vocab;
  try {
    vocab = Vocab::from_bytes(std::string(reinterpret_cast<const char*>(data), size), "fuzz");
  } catch (const UserError&) {
    return 0;
  }
  const int n = vocab->size();
  demand(n > 0 && vocab->eos_id() >= 0 && vocab->eos_id() < n && vocab->unk_id() < n);
  for (const char* text : {"the dog barks", " low@@ er\xC3\xA4\xE2\x96\x81 \xFF. do", ""}) {
    const auto ids = vocab->encode(text);
    for (const int32_t id : ids) demand(id >= 0 && id < n && id != vocab->eos_id());
    demand(vocab->words_of(ids).size() == ids.size());
    demand(vocab->decode(ids).find('\n') == std::string::npos);
  }
  std::vector<int32_t> all;
  for (int id = 0; id < n; ++id) {
    all.push_back(id);
    demand(vocab->find(vocab->piece(id)) >= 0);
  }
  demand(vocab->decode(all).find('\n') == std::string::npos);
  vocab->properties();
  demand(Vocab::from_bytes(vocab->bytes(), "again")->bytes() == vocab->bytes());
  return 0;
}
