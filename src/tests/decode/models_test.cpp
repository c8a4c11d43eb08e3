// What files of models, and of vocabularies beside them, are refused together.
#include "decode/models.h"

#include <fstream>

#include "model_fixture.h"
#include "tests/catch.h"
#include "tests/complaint.h"
#include "tests/temp_folder.h"
#include "tests/variable.h"

using namespace nmt;

namespace {

void write_model_of(const std::string& path, const Vocab& source, const Vocab& target,
                    const ModelConfig& config = TestModel::config(12)) {
  TestModel model(5, config);
  model.model.source_vocabulary = source.bytes();
  model.model.target_vocabulary = target.bytes();
  model.model.save(path, model.model.parameters.values());
}

std::string complaint(const std::vector<std::string>& models, const std::vector<std::string>& vocabularies = {}) {
  Models loaded(models, {});
  loaded.load(host_backend());
  return testing::complaint_of([&] { loaded.vocabularies(vocabularies); });
}

}  // namespace

TEST_CASE("models of an ensemble must have one vocabulary on either side") {
  const TempFolder folder;
  const auto words = word_vocab(), others = vocab_of({"w2", "w3", "x4", "w5", "w6", "w7", "w8", "w9", "w10", "w11"});
  const std::string first = folder / "first", target = folder / "target", source = folder / "source";
  write_model_of(first, *words, *words);
  write_model_of(target, *words, *others);
  write_model_of(source, *others, *words);
  const auto differ = [&](const char* side, const std::string& other) {
    return fmt::format(
        "models of an ensemble must have one vocabulary, but the {} vocabularies of {} and {} differ: "
        "entry 4 is 'w4' and 'x4'",
        side, first, other);
  };
  CHECK(own_vocabularies(*Model::load(first), first).shared());
  CHECK(!own_vocabularies(*Model::load(target), target).shared());
  CHECK(complaint({first, first}).empty());
  CHECK(complaint({first, target}) == differ("target", target));
  CHECK(complaint({first, first, source}) == differ("source", source));
}

#ifdef NMT_CUDA_EMULATION
TEST_CASE("a model that is too large for its device is said to be that") {
  const testing::Variable memory("NMT_EMULATED_MEMORY", "1");
  const TempFolder folder;
  ModelConfig config = TestModel::config(12);
  config.dim_ffn = 20000;
  write_model_of(folder / "model", *word_vocab(), *word_vocab(), config);
  const auto load = [&](const std::vector<std::string>& files) {
    return testing::complaint_of<OutOfMemory>([&] { Models(files, {}).load(backend_of("0")); });
  };
  CHECK(load({folder / "model"}).ends_with("; a smaller model needs less"));
  CHECK(load({folder / "model", folder / "model"}).ends_with("; fewer or smaller models of --ensemble need less"));
}
#endif

TEST_CASE("a vocabulary whose </s> is not where the model has it is refused") {
  const TempFolder folder;
  const auto words = word_vocab();
  std::ofstream(folder / "words") << words->bytes();
  for (int ModelConfig::*side : {&ModelConfig::source_eos, &ModelConfig::eos}) {
    ModelConfig config = TestModel::config(12);
    config.*side = 0;
    write_model_of(folder / "model", *words, *words, config);
    CHECK(complaint({folder / "model"}, {folder / "words"}) ==
          fmt::format("{}: the {} vocabulary has 12 entries and </s> at 1, but the model {} has 12 and 0",
                      folder / "words", side == &ModelConfig::eos ? "target" : "source", folder / "model"));
  }
}
