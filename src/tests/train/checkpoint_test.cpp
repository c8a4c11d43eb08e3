#include <cstring>
#include <fstream>

#include "base/error.h"
#include "base/philox.h"
#include "tests/complaint.h"
#include "tests/train/training_fixture.h"

using namespace nmt;
using namespace nmt::testing;

namespace {

ModelConfig small_config() {
  ModelConfig config;
  config.dim_emb = 8;
  config.dim_ffn = 12;
  config.heads = 2;
  config.enc_depth = config.dec_depth = 1;
  config.source_vocabulary = config.target_vocabulary = 11;
  return config;
}

std::unique_ptr<Model> make_model(const ModelConfig& config, uint64_t seed) {
  auto model = std::make_unique<Model>(config);
  model->source_vocabulary = model->target_vocabulary = "the vocabulary";
  model->parameters.allocate(true);
  model->transformer.initialise(model->parameters, seed, false);
  return model;
}

Moments make_moments(const Model& model, bool smooths, float value) {
  Moments moments(model.parameters.size(), smooths);
  for (auto* buffer : {&moments.mean, &moments.variance, &moments.smoothed})
    for (float& v : *buffer) v = value += 0.5f;
  return moments;
}

std::string error_of(const std::string& path, Model& model, Moments& moments) {
  return complaint_of([&] { read_checkpoint(path, model, moments); });
}

TrainingState some_state() {
  TrainingState s;
  s.progress = {
      .updates = 17, .epochs = 2, .epoch_ended = true, .sentences = 1234567890123, .tokens = 9, .seconds = 0.1};
  s.position = {.epoch = 2, .window = 3, .batch = 4};
  s.corpus = UINT64_MAX;
  s.batching = UINT64_MAX - 1;
  s.seed = 1ull << 63;
  s.depth_scaling = 1;
  s.mean_norm = 1.0 / 3;
  s.skipped = 5;
  s.skipped_in_row = 1;
  s.loss_scale = {.value = 4096, .updates = 11};
  s.validation_due = s.save_due = true;
  s.validated = 16;
  s.looked = 0.05;
  s.measured_on = {{"bleu", UINT64_MAX - 2}};
  s.best = {{"bleu", 12.5}, {"perplexity", 1e-300}};
  s.stalled = {{"bleu", 3}};
  s.shown = {.loss = 0.1 + 0.2, .seconds = 2, .wait = 1, .tokens = 7, .cost_tokens = 6, .counts = {1, 2, 3, 4, 5}};
  s.epoch = {.loss = 0.7, .seconds = 3, .wait = 0.25, .tokens = 8, .cost_tokens = 5, .counts = {6, 7, 8, 9, 10}};
  return s;
}

}  // namespace

TEST_CASE("a checkpoint holds every bit of the state") {
  const TempFolder folder;
  const std::string path = folder / "state", again = folder / "again";
  const bool smoothing = GENERATE(false, true);
  const auto model = make_model(small_config(), 1);
  Moments moments = make_moments(*model, smoothing, 1);
  write_checkpoint(path, *model, moments, some_state(), "seed = 1\n");

  const auto other = make_model(small_config(), 2);
  Moments blank = make_moments(*other, smoothing, 100);
  const TrainingState state = read_checkpoint(path, *other, blank);
  CHECK(std::ranges::equal(other->parameters.values(), model->parameters.values()));
  CHECK(std::ranges::equal(blank.mean, moments.mean));
  CHECK(std::ranges::equal(blank.variance, moments.variance));
  CHECK(std::ranges::equal(blank.smoothed, moments.smoothed));
  CHECK(state == some_state());
  // The same file again: nothing of it was lost.
  write_checkpoint(again, *other, blank, state, "seed = 1\n");
  CHECK(read_file(again) == read_file(path));
}

TEST_CASE("exponential smoothing may begin at a resume") {
  const TempFolder folder;
  const auto model = make_model(small_config(), 1);
  Moments plain = make_moments(*model, false, 1), smooth = make_moments(*model, true, 1);
  write_checkpoint(folder / "state", *model, plain, {}, "");
  read_checkpoint(folder / "state", *model, smooth);
  CHECK(std::ranges::equal(smooth.smoothed, model->parameters.values()));
}

TEST_CASE("a checkpoint of something else is refused, and says of what") {
  const TempFolder folder;
  const std::string path = folder / "state";
  const auto model = make_model(small_config(), 1);
  Moments moments = make_moments(*model, false, 1);
  write_checkpoint(path, *model, moments, some_state(), "");

  ModelConfig wider = small_config();
  wider.dim_ffn = 13;
  const auto other = make_model(wider, 1);
  Moments its = make_moments(*other, false, 1);
  CHECK(error_of(path, *other, its) == path + " belongs to another model: its transformer-dim-ffn is 12, not 13");
  ModelConfig drier = small_config();  // a training may go on with it
  drier.dropout = drier.dropout_attention = drier.dropout_ffn = 0.25;
  const auto same = make_model(drier, 1);
  same->source_vocabulary = same->target_vocabulary = "the vocabulary";
  CHECK(error_of(path, *same, moments).empty());
  for (std::string* vocabulary : {&model->source_vocabulary, &model->target_vocabulary}) {
    *vocabulary = "another vocabulary";
    CHECK(error_of(path, *model, moments) == path + " belongs to another vocabulary");
    *vocabulary = "the vocabulary";
  }
  CHECK(error_of(path, *model, moments).empty());
  model->save(path, model->parameters.values());
  CHECK(error_of(path, *model, moments) == path + " is a model without the state of its training");
}

TEST_CASE("a checkpoint that is cut off or damaged is never taken for a whole one") {
  const TempFolder folder;
  const std::string path = folder / "state";
  const auto model = make_model(small_config(), 1);
  Moments moments = make_moments(*model, false, 1);
  write_checkpoint(path, *model, moments, some_state(), "");
  const std::string whole = read_file(path);
  const auto error_of_content = [&](const std::string& content) {
    std::ofstream(path, std::ios::binary) << content;
    return error_of(path, *model, moments);
  };
  const auto check_cut = [&](size_t size) { CHECK(error_of_content(whole.substr(0, size)).starts_with(path)); };
  for (size_t size = 0; size < whole.size(); size += 1 + whole.size() / 97) check_cut(size);
  check_cut(whole.size() - 1);

  const auto replaced = [](std::string content, const std::string& what, const std::string& with) {
    const size_t at = content.find(what);
    REQUIRE(at != std::string::npos);
    REQUIRE(what.size() == with.size());
    return content.replace(at, what.size(), with);
  };
  const std::string unhashed = replaced(whole, "nmt.hash", "nmt.hush");  // as by an earlier version
  CHECK(error_of_content(unhashed).empty());
  const auto check_refused = [&](const std::string& what, const std::string& with) {
    INFO(with);
    CHECK(error_of_content(replaced(unhashed, what, with)) == path + ": the state of the training is damaged");
  };
  // In the state's JSON, which is a string of the header: numbers that are none, wrong types.
  check_refused("updates\\\":17", "updates\\\":xx");
  check_refused("updates\\\":17", "updates\\\":[]");
  check_refused("position\\\":[2,3,4]", "position\\\":[2,3  ]");
  check_refused("epoch-batches\\\":[6,7", "epoch-batches\\\":\\\"67");
  check_refused("updates\\\":17", "updates\\\":-7");
  check_refused("updates\\\":17,", "updates\\\":1.5");
  check_refused("sentences\\\":1234567890123", "sentences\\\":12345678901.3");
  check_refused("skipped\\\":5,", "skipped\\\":.5");
  check_refused("position\\\":[2,3,4]", "position\\\":[2,.3,4");
}

TEST_CASE("a checkpoint with a negative variance is refused") {
  const TempFolder folder;
  const std::string path = folder / "state";
  const auto model = make_model(small_config(), 1);
  Moments moments = make_moments(*model, false, 1);
  moments.variance.back() = -1;
  write_checkpoint(path, *model, moments, some_state(), "");
  CHECK(error_of(path, *model, moments) == path + ": the state of the training is damaged: a variance is negative");
}

TEST_CASE("a bit that is turned in a checkpoint's data or progress is noticed") {
  const TempFolder folder;
  const std::string path = folder / "state";
  const auto model = make_model(small_config(), 1);
  Moments moments = make_moments(*model, true, 1);
  write_checkpoint(path, *model, moments, some_state(), "");
  REQUIRE(error_of(path, *model, moments).empty());
  const std::string whole = read_file(path);
  uint64_t header = 0;
  std::memcpy(&header, whole.data(), sizeof header);
  std::vector<size_t> places = {whole.find("\\\"updates\\\":17") + 13};
  Random random(1);
  for (int i = 0; i < 60; ++i) places.push_back(8 + header + random.below(whole.size() - 8 - header));
  for (const size_t place : places) {
    INFO("byte " << place << " of " << whole.size());
    std::string turned = whole;
    turned[place] = static_cast<char>(turned[place] ^ 1);
    std::ofstream(path, std::ios::binary) << turned;
    CHECK_FALSE(error_of(path, *model, moments).empty());
  }
}

TEST_CASE("a checkpoint whose state cannot be is refused") {
  const TempFolder folder;
  const std::string path = folder / "state";
  const auto model = make_model(small_config(), 1);
  Moments moments = make_moments(*model, false, 1);
  const auto check_state = [&](bool sound, const TrainingState& state) {
    write_checkpoint(path, *model, moments, state, "");
    CHECK(error_of(path, *model, moments) == (sound ? "" : path + ": the state of the training is damaged"));
  };
  check_state(true, some_state());
  const auto changed = [&](auto change) {
    TrainingState state = some_state();
    change(state);
    return state;
  };
  check_state(false, changed([](auto& s) { s.position.epoch = static_cast<uint64_t>(s.progress.epochs) + 2; }));
  check_state(false, changed([](auto& s) { s.position.window = UINT64_MAX; }));
  check_state(false, changed([](auto& s) { s.position.batch = uint64_t{1} << 46; }));
  for (const int64_t none : {INT64_MAX, int64_t{1} << 46, int64_t{-2}, INT64_MIN}) {
    check_state(false, changed([&](auto& s) { s.progress.updates = none; }));
    check_state(false, changed([&](auto& s) { s.progress.tokens = none; }));
    check_state(false, changed([&](auto& s) { s.shown.tokens = none; }));
    check_state(false, changed([&](auto& s) { s.epoch.cost_tokens = none; }));
    check_state(false, changed([&](auto& s) { s.epoch.counts.padding = none; }));
    check_state(false, changed([&](auto& s) { s.skipped_in_row = none; }));
    check_state(false, changed([&](auto& s) { s.validated = none; }));
    check_state(false, changed([&](auto& s) { s.stalled["bleu"] = none; }));
    check_state(false, changed([&](auto& s) { s.loss_scale.updates = none; }));
  }
  check_state(false, changed([](auto& s) { s.progress.epochs = -1; }));
  check_state(false, changed([](auto& s) { s.progress.seconds = -1; }));
  check_state(false, changed([](auto& s) { s.looked = -1; }));
  check_state(false, changed([](auto& s) { s.looked = s.progress.seconds + 1; }));
  check_state(false, changed([](auto& s) { s.validated = s.progress.updates + 1; }));
  check_state(false, changed([](auto& s) { s.skipped = -1; }));
  check_state(false, changed([](auto& s) { s.skipped = s.progress.updates + 1; }));
  check_state(false, changed([](auto& s) { s.loss_scale.value = 0; }));
  check_state(false, changed([](auto& s) { s.loss_scale.value = -1; }));
}

TEST_CASE("a checkpoint that lacks a moment, or holds what is no number, is refused") {
  const TempFolder folder;
  const std::string path = folder / "state";
  const auto model = make_model(small_config(), 1);
  Moments moments = make_moments(*model, false, 1);
  moments.variance.back() = NAN;
  write_checkpoint(path, *model, moments, some_state(), "");
  CHECK(error_of(path, *model, moments).find("holds NaN or infinite values") != std::string::npos);

  ModelContent content = model->content(model->parameters.values());
  moments = make_moments(*model, false, 1);
  write_checkpoint(path, *model, moments, some_state(), "");
  const std::string progress = *ModelFile::open(path).metadata(kProgressKey);
  content.metadata[std::string(kProgressKey)] = progress;
  model->add_tensors(content, kAdamMeanPrefix, moments.mean);
  write_model(path, content);
  const std::string error = error_of(path, *model, moments);
  CHECK(error.starts_with(path));
  CHECK(error.find(kAdamVariancePrefix) != std::string::npos);
}

TEST_CASE("a state that an earlier version has written is read, and one of a later version refused") {
  const TempFolder folder;
  const std::string path = folder / "state";
  const auto model = make_model(small_config(), 1);
  Moments moments = make_moments(*model, false, 1);
  write_checkpoint(path, *model, moments, some_state(), "");
  const auto state = parse_json(*ModelFile::open(path).metadata(kProgressKey));
  const auto error_with = [&](const nlohmann::json& changed) {
    ModelContent content = model->content(model->parameters.values());
    content.metadata[std::string(kProgressKey)] = json_text(changed);
    model->add_tensors(content, kAdamMeanPrefix, moments.mean);
    model->add_tensors(content, kAdamVariancePrefix, moments.variance);
    write_model(path, content);
    return error_of(path, *model, moments);
  };
  CHECK(error_with(state).empty());
  nlohmann::json earlier = state, later = state, less = state;
  for (const char* name : {"cost-tokens", "validated", "looked"}) earlier.erase(name);
  earlier["validation"] = 1;
  CHECK(error_with(earlier).empty());
  const TrainingState read = read_checkpoint(path, *model, moments);
  CHECK(read.shown.cost_tokens == read.shown.tokens);
  CHECK(read.epoch.cost_tokens == read.epoch.tokens);
  CHECK(read.validated == read.progress.updates);
  CHECK(read.looked == read.progress.seconds);
  later["plateau"] = 3;
  less.erase("epoch-ended");
  CHECK(error_with(later) == path + ": this version of nmt does not know the state 'plateau' of its training");
  CHECK(error_with(less) == path + ": the state of the training is damaged");
}
