// What a training begins with, and what it leaves: models and checkpoints.
#include "io/training_files.h"

#include <filesystem>
#include <fstream>

#include <unistd.h>

#include "base/error.h"
#include "tests/complaint.h"
#include "tests/file_size_limit.h"
#include "tests/train/training_fixture.h"

using namespace nmt;
using namespace nmt::testing;

TEST_CASE("a save that was put off is made after the next sound update") {
  const TrainingFolder folder;
  TrainOptions o = folder.options();
  folder.fresh(o, "16u");  // 15 updates an epoch
  folder.change([](nlohmann::json& state, Tensors&) {
    CHECK(state.at("due") == nlohmann::json({false, false}));
    state["due"] = {true, true};
  });
  if (GENERATE(false, true)) o.valid_sets = o.data.train_sets;  // else no validation is due any more
  const bool by_epoch = GENERATE(false, true);
  o.save_freq = by_epoch ? "100e" : "100u";
  folder.further(o, "19u");
  CHECK(std::filesystem::exists(folder / (by_epoch ? "m.epoch1.safetensors" : "m.iter17.safetensors")));
  CHECK(!std::filesystem::exists(folder / "m.iter18.safetensors"));
}

TEST_CASE("a training can begin with another one's model") {
  const TrainingFolder folder;
  TrainOptions o = folder.options();
  folder.fresh(o, "20u");
  const std::string general = folder / "general.safetensors";
  std::filesystem::rename(o.model_path, general);
  const Tensors expected = read_tensors(general);

  // As nmt-train reads it: architecture and vocabulary are the model's.
  TrainOptions tuned;
  Options declared;
  tuned.declare(declared);
  declared.find("pretrained-model")->set({general});
  tuned.settle(declared);
  tuned.model_path = o.model_path;
  tuned.data = o.data;
  tuned.precision = "f32";
  tuned.devices = {"cpu"};
  tuned.threads = 1;
  tuned.quiet = true;
  tuned.exponential_smoothing = 0.1;
  tuned.seed = 2;
  CHECK(tuned.model.dim_ffn == o.model.dim_ffn);
  CHECK(tuned.model.dropout == o.model.dropout);

  TrainOptions still = tuned;
  still.learn_rate = 1e-30;
  CHECK(with_prefix(folder.fresh(still, "1u"), "ema.") == expected);
  CHECK(read_tensors(o.model_path) == expected);
  CHECK(ModelFile::open(o.model_path).source_vocabulary() == ModelFile::open(general).source_vocabulary());
  still.vocabs = o.vocabs;
  folder.fresh(still, "1u");
  CHECK(read_tensors(o.model_path) == expected);

  const Tensors unbroken = folder.fresh(tuned, "4u");
  folder.fresh(tuned, "2u");
  CHECK(folder.further(tuned, "4u") == unbroken);

  TrainOptions wider = tuned;
  wider.model.dim_ffn *= 2;
  CHECK_THROWS_WITH(folder.fresh(wider, "1u"),
                    fmt::format("--pretrained-model {} has another architecture than the options name: its "
                                "transformer-dim-ffn is {}, not {}; leave them out",
                                general, o.model.dim_ffn, wider.model.dim_ffn));
  TrainOptions other = tuned;
  other.vocabs = {folder / "others"};
  std::string words = read_file(o.vocabs[0]);
  words.replace(words.find("w7\t"), 2, "v7");
  std::ofstream(other.vocabs[0]) << words;
  CHECK_THROWS_WITH(folder.fresh(other, "1u"),
                    "--pretrained-model " + general + " has another vocabulary than --vocabs: leave that out");
}

TEST_CASE("how parameters were first scaled does not change at a resume") {
  const TrainingFolder folder;
  TrainOptions o = folder.options();
  folder.fresh(o, "2u");
  o.depth_scaling = true;
  CHECK_THROWS_WITH(folder.further(o, "3u"),
                    folder.state_path() +
                        " was made without --transformer-depth-scaling (another --model leaves that training as it is; "
                        "--restart begins anew and removes its models)");
  folder.change([](nlohmann::json& state, Tensors&) { state.erase("depth-scaling"); });  // an earlier version's
  folder.further(o, "3u");
}

TEST_CASE("a training that has ended writes its model again where that is gone") {
  const TrainingFolder folder;
  const TrainOptions o = folder.options();
  folder.fresh(o, "3u");
  const std::string model = read_file(o.model_path);
  std::filesystem::remove(o.model_path);
  folder.further(o, "3u");
  CHECK(read_file(o.model_path) == model);
}

TEST_CASE("what a killed run left half written is removed, and nothing else") {
  const TrainingFolder folder;
  const auto write = [&](const std::string& name) { std::ofstream(folder / name) << "half"; };
  // A process number that is none: the largest possible is 2^22.
  const std::vector<std::string> leftovers = {"m.state.tmp.99999999", "m.safetensors.tmp.99999999",
                                              "m.iter5.safetensors.tmp.99999999", "m.epoch5.safetensors.tmp.99999999",
                                              "m.best-cross-entropy.safetensors.tmp.99999999", "m.state.tmp.99999999.1",
                                              // of a process that had this one's number
                                              fmt::format("m.iter5.safetensors.tmp.{}", ::getpid())};
  const std::vector<std::string> others = {"other.state.tmp.99999999",
                                           "m.big.state.tmp.99999999",  // of the model m.big
                                           "m.big.iter5.safetensors.tmp.99999999",
                                           "m.best-big.iter5.safetensors.tmp.99999999",
                                           "m.best-Big.safetensors.tmp.99999999",
                                           "m.iter-0.safetensors.tmp.99999999",
                                           "mm.state.tmp.99999999",
                                           "m.iter5x.safetensors.tmp.99999999",
                                           "m.notes.tmp.txt",
                                           "m.state.tmp.99999999.x",
                                           "m.state.tmp.1"};  // of a process that lives
  for (const auto* names : {&leftovers, &others})
    for (const auto& name : *names) write(name);
  Trainer(folder.options(), "");  // a run that does not start removes nothing
  for (const auto& name : leftovers) CHECK(std::filesystem::exists(folder / name));
  folder.further(folder.options(), "1u");
  for (const auto& name : leftovers) CHECK(!std::filesystem::exists(folder / name));
  for (const auto& name : others) CHECK(std::filesystem::exists(folder / name));
}

TEST_CASE("a log may be named as a training's file where it lies elsewhere") {
  const TrainingFiles files("./m.safetensors");
  CHECK_NOTHROW(files.refuse_own("log", "other/m.state"));
  CHECK_THROWS_AS(files.refuse_own("log", "other/../m.state"), UserError);
}

TEST_CASE("a model of a later update than the checkpoint's, as of a save that was killed, does not stay") {
  const TrainingFolder folder;
  TrainOptions o = folder.options();
  o.save_freq = "2u";
  o.keep_last = 2;
  folder.fresh(o, "4u");
  for (const char* later : {"m.iter7.safetensors", "m.epoch1.safetensors"})
    std::filesystem::copy_file(folder / "m.iter4.safetensors", folder / later);
  folder.further(o, "8u");
  CHECK(!std::filesystem::exists(folder / "m.iter4.safetensors"));
  CHECK(std::filesystem::exists(folder / "m.iter6.safetensors"));
  CHECK(!std::filesystem::exists(folder / "m.iter7.safetensors"));
  CHECK(!std::filesystem::exists(folder / "m.epoch1.safetensors"));
  CHECK(std::filesystem::exists(folder / "m.iter8.safetensors"));
}

TEST_CASE("the model that a checkpoint knows of stays until the next checkpoint is written") {
  const TrainingFolder folder;
  TrainOptions o = folder.options();
  o.save_freq = "2u";
  o.keep_last = 1;
  folder.fresh(o, "2u");
  {
    const FileSizeLimit limit(200000);  // enough for a model, not for the state
    CHECK_THROWS_AS(folder.further(o, "4u"), Error);
  }
  CHECK(std::filesystem::exists(folder / "m.iter2.safetensors"));
  CHECK(std::filesystem::exists(folder / "m.iter4.safetensors"));
  folder.further(o, "3u");
  CHECK(!std::filesystem::exists(folder / "m.iter2.safetensors"));
  CHECK(std::filesystem::exists(folder / "m.iter3.safetensors"));
  CHECK(!std::filesystem::exists(folder / "m.iter4.safetensors"));
  // As of a last save that was killed before it removed the one before.
  std::filesystem::copy_file(folder / "m.iter3.safetensors", folder / "m.iter2.safetensors");
  folder.further(o, "3u");
  CHECK(!std::filesystem::exists(folder / "m.iter2.safetensors"));
  CHECK(std::filesystem::exists(folder / "m.iter3.safetensors"));
}

TEST_CASE("a model that cannot be written is refused before anything is trained") {
  const TrainingFolder folder;
  TrainOptions o = folder.options();
  o.save_freq = "2u";
  SECTION("as its path is a folder") {
    std::filesystem::create_directory(o.model_path);
    CHECK(complaint_of([&] { folder.further(o, "4u"); }) == "cannot write " + o.model_path + ": it is a folder");
  }
  SECTION("as its path leads to where nothing is") {
    std::filesystem::create_symlink(folder / "nowhere/m.safetensors", o.model_path);
    CHECK(complaint_of([&] { folder.further(o, "4u"); }).starts_with("cannot write " + o.model_path));
  }
  SECTION("as the disk is too small for its state") {
    const FileSizeLimit limit(200000);  // of which a model has less than half
    CHECK(complaint_of<Error>([&] { folder.further(o, "4u"); }).starts_with("cannot write " + folder.state_path()));
  }
  CHECK(!std::filesystem::exists(folder.state_path()));
  CHECK(!std::filesystem::exists(folder / "m.iter2.safetensors"));
}
