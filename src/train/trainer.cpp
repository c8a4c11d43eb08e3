#include "train/trainer.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <limits>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/version.h"
#include "config/app.h"
#include "config/computing.h"
#include "config/process.h"
#include "train/learning_rate.h"

namespace nmt {
namespace {

std::atomic<int> stop_signal = 0;  // threads that translate look at it, too
static_assert(std::atomic<int>::is_always_lock_free);
void on_signal(int number) { stop_signal = number; }

constexpr size_t kBatchesAhead = 8;

std::unique_ptr<FileLock> lock_training(const std::string& model_path, const TrainingFiles& files) {
  const auto folder = std::filesystem::path(model_path).parent_path();
  std::error_code failed;
  require(folder.empty() || std::filesystem::exists(folder, failed) || failed, "--model {}: there is no folder {}",
          model_path, folder.string());
  return std::make_unique<FileLock>(
      files.lock(), fmt::format("{} is being trained by another nmt-train, which holds {}", model_path, files.lock()));
}

TrainLog begin_log(const TrainOptions& options, const std::string& given) {
  log::set_quiet(options.quiet);
  std::signal(SIGPIPE, SIG_IGN);  // who reads the log may be gone before the last model is saved
  if (!options.log_file.empty()) log::copy_to_file(options.log_file);
  log::info("nmt-train {} ({}): {}", kVersion, kCommit, given);
  return TrainLog(options.log_json, options.quiet);
}

}  // namespace

Trainer::Trainer(const TrainOptions& options, std::string dump, const std::string& given)
    : files_(options.model_path),
      dump_(std::move(dump)),
      ends_(Amount::parse_list("after", options.after)),
      valid_every_(Amount::parse("valid-freq", options.valid_freq)),
      save_every_(Amount::parse("save-freq", options.save_freq)),
      display_every_(Amount::parse("disp-freq", options.disp_freq)),
      lock_(lock_training(options.model_path, files_)),
      log_(begin_log(options, given)),
      setup_(options) {}

std::span<const float> Trainer::served_values() {
  if (moments_.smoothed.empty()) return model_.parameters.values();
  return moments_.smoothed;
}

void Trainer::resume(const std::string& checkpoint) {
  state_ = read_checkpoint(checkpoint, model_, moments_);
  require(state_.seed == options_.seed, "{} was made with --seed {}", checkpoint, state_.seed);
  require(
      state_.corpus == setup_.corpus->fingerprint(),
      "{} was made with other training data, --max-length or --max-length-crop; another training can begin with its "
      "model: --pretrained-model",
      checkpoint);
  require(state_.depth_scaling < 0 || (state_.depth_scaling != 0) == options_.depth_scaling,
          "{} was made {} --transformer-depth-scaling", checkpoint, state_.depth_scaling != 0 ? "with" : "without");
  log_.event(state_.progress, "resume",
             fmt::format("resumed from {} at update {}{}", checkpoint, state_.progress.updates,
                         setup_.pretrained == nullptr
                             ? ""
                             : "; --pretrained-model is what a training begins with, not what it goes on from"));
  if (state_.batching != options_.data.batching()) {
    log_.event(state_.progress, "warning",
               fmt::format("{} was made with other options of batches: epoch {} begins again", checkpoint,
                           state_.position.epoch + 1));
    state_.position = {.epoch = state_.position.epoch};
    state_.epoch = {};
    state_.batching = options_.data.batching();
  }
  if (setup_.validator) forget_other_validations(checkpoint);
  if (state_.progress.updates > 0) saved_at_ = state_.progress.updates;
}

// Values on another text or by another search cannot be compared with those to come.
void Trainer::forget_other_validations(const std::string& checkpoint) {
  std::string names;
  for (const auto& metric : options_.valid_metrics) {
    const auto on = state_.measured_on.find(metric);
    if (on != state_.measured_on.end() && on->second == setup_.validator->fingerprint(metric)) continue;
    if (state_.best.erase(metric) + state_.stalled.erase(metric) > 0) names += (names.empty() ? "" : ", ") + metric;
  }
  if (names.empty()) return;
  state_.validated = -1;
  log_.event(
      state_.progress, "warning",
      fmt::format("{} was validated on another text or with another search: which model is best by {} is found anew",
                  checkpoint, names));
}

void Trainer::begin() {
  state_.seed = options_.seed;
  state_.depth_scaling = options_.depth_scaling ? 1 : 0;
  state_.corpus = setup_.corpus->fingerprint();
  state_.batching = options_.data.batching();
  setup_.initialise();
}

// What this run would write over without knowing it.
void Trainer::refuse_earlier_models() const {
  std::vector<std::string> earlier = files_.find_best(valid_metric_names());
  for (const auto& numbered : files_.find_all()) earlier.push_back(numbered.path);
  if (options_.restart)
    for (const auto& path : earlier)
      require(!same_file(path, options_.pretrained_model),
              "--restart removes {}, which --pretrained-model names: another --model leaves it as it is", path);
  if (options_.restart || std::filesystem::exists(files_.state())) return;
  if (std::filesystem::exists(options_.model_path)) earlier.push_back(options_.model_path);
  if (!earlier.empty())
    user_error(
        "{} is of an earlier training, but there is no {} to go on with: --restart removes or replaces such models",
        earlier.front(), files_.state());
}

void Trainer::start_or_resume() {
  const std::string checkpoint = files_.state();
  if (!options_.restart && std::filesystem::exists(checkpoint)) {
    advise_on_checkpoint([&] { resume(checkpoint); });
  } else {
    begin();
  }
  setup_.pretrained.reset();
  prepare();
}

void Trainer::prepare() {
  state_.loss_scale.start(options_.scales_loss());
  setup_.start({.mean_norm = state_.mean_norm, .count = state_.progress.updates - state_.skipped});
  std::shared_ptr<BatchStream> stream;
  try {
    stream = std::make_shared<BatchStream>(setup_.corpus, options_.data, options_.seed, state_.position);
  } catch (const UserError& error) {
    user_error("{}: {} ({})", files_.state(), error.what(), kBeginAnew);
  }
  batches_ = std::make_unique<Prefetch<TrainingBatch>>([stream] { return stream->next(); }, kBatchesAhead);
  setup_.report();
}

std::vector<Batch> Trainer::next_batches(Step& step) {
  std::vector<Batch> batches;
  const double waited = batches_->wait_seconds();
  for (TrainingBatch& next : next_update([&] { return batches_->next(); }, options_.optimizer_delay)) {
    step.tokens += next.batch.target_words();
    step.sentences += next.batch.sentences();
    state_.shown.counts.add(next.batch);
    state_.epoch.counts.add(next.batch);
    step.next = next.next;
    step.epoch_ended = next.ends_epoch();
    batches.push_back(std::move(next.batch));
  }
  step.wait = batches_->wait_seconds() - waited;
  return batches;
}

// Each batch of an update draws dropout masks of its own.
void Trainer::accumulate(const std::vector<Batch>& batches, const Step& step) {
  replicas_.accumulate(batches, step.tokens, state_.progress.updates * options_.optimizer_delay,
                       state_.loss_scale.value);
}

Update Trainer::take_outcomes(size_t left) {
  auto& s = state_;
  Update update;
  while (begun_.size() > left) {
    const Step step = std::move(begun_.front());
    begun_.pop_front();
    update = replicas_.outcome();
    if (std::isfinite(update.loss))
      for (TrainingSums* sums : {&s.shown, &s.epoch}) {
        sums->loss += update.loss * static_cast<double>(step.tokens);
        sums->cost_tokens += step.tokens;
      }
    s.mean_norm = update.mean_norm;
    const bool beyond_float16 = s.loss_scale.adapt(!std::isfinite(update.norm));
    if (!beyond_float16) sound_ = update.sound();
    if (update.made) {
      s.skipped_in_row = 0;
      continue;
    }
    ++s.skipped;
    if (beyond_float16) {
      log_.event(step.made, "loss-scale",
                 fmt::format("update {} skipped: gradients beyond float16; the loss scale is {} now", step.made.updates,
                             s.loss_scale.value));
      continue;
    }
    ++s.skipped_in_row;
    const bool diverges = s.skipped_in_row == 1 && !std::isfinite(update.norm);
    log_.event(step.made, "warning",
               fmt::format("update {} skipped: loss {}, gradient norm {} ({} skipped so far){}", step.made.updates,
                           std::fabs(update.loss), std::fabs(update.norm), s.skipped,  // NaN without a sign
                           diverges ? "; a smaller --learn-rate or a longer --lr-warmup may help" : ""));
    if (s.skipped_in_row >= options_.skip_limit) fail("{} updates in a row were skipped", s.skipped_in_row);
  }
  return update;
}

void Trainer::count(const Step& step) {
  TrainingProgress& p = state_.progress;
  ++p.updates;
  p.sentences += step.sentences;
  p.tokens += step.tokens;
  p.epochs += step.epoch_ended ? 1 : 0;
  p.epoch_ended = step.epoch_ended;
  state_.position = step.next;
  for (TrainingSums* sums : {&state_.shown, &state_.epoch}) {
    sums->tokens += step.tokens;
    sums->wait += step.wait;
  }
}

void Trainer::count_seconds(double seconds) {
  state_.progress.seconds += seconds;
  state_.shown.seconds += seconds;
  state_.epoch.seconds += seconds;
}

// The gradient's norm of each layer's sub-layers and of the embeddings.
std::map<std::string, double> Trainer::part_norms() {
  std::map<std::string, double> squares;
  for (const auto& e : model_.parameters.entries()) {
    // encoder.0.feed_forward.inner.weight belongs to encoder.0.feed_forward, source_embedding.weight to
    // source_embedding.
    const auto dot = [&](size_t from) { return std::min(e.name.find('.', from), e.name.size()); };
    const size_t number = dot(0) + 1;
    const bool in_layer = number < e.name.size() && std::isdigit(static_cast<unsigned char>(e.name[number])) != 0;
    const std::string part = e.name.substr(0, in_layer ? dot(dot(number) + 1) : e.name.rfind('.'));
    const double norm = replicas_.gradient_norm(e.offset, e.shape.elements());
    squares[part] += norm * norm;
  }
  for (auto& [part, value] : squares) value = std::sqrt(value) / state_.loss_scale.value;
  return squares;
}

void Trainer::display(const Update& update, std::map<std::string, double> part_norms) {
  auto& s = state_.shown;
  const double time = std::max(1e-9, s.seconds);
  log_.update(state_.progress,
              {.cost = std::fabs(s.loss / static_cast<double>(s.cost_tokens)),  // of no loss NaN, without a sign
               .seconds = s.seconds,
               .tokens_per_second = static_cast<double>(s.tokens) / time,
               .gradient_norm = std::fabs(update.norm),
               .learning_rate = learning_rate(options_, state_.progress.updates),
               .wait_share = s.wait / time,
               .padded_share = s.counts.padded_share(),
               .part_norms = std::move(part_norms)});
  s = {};
}

void Trainer::report_epoch() {
  auto& e = state_.epoch;
  auto lines = EpochReport{setup_.corpus->counts(), e.counts}.lines();
  lines.front() += fmt::format("; waited for data: {:.2f}% of {}", 100 * e.wait / std::max(1e-9, e.seconds),
                               hours_minutes_seconds(e.seconds));
  for (const auto& line : lines) log_.event(state_.progress, "epoch", line);
  e = {};
}

bool Trainer::validate() {
  struct Stopped {};
  const auto stop = [] {
    if (stop_signal != 0) throw Stopped();
  };
  std::map<std::string, double> measured;
  replicas_.download();
  const auto exchange_with_smoothed = [&] {
    if (moments_.smoothed.empty()) return;
    std::ranges::swap_ranges(model_.parameters.values(), moments_.smoothed);
    replicas_.upload_values();
  };
  exchange_with_smoothed();
  try {
    measured = setup_.validator->measure(replicas_.first(), model_, state_.progress.updates, stop);
    state_.validation_due = false;
    state_.validated = state_.progress.updates;
  } catch (const Stopped&) {
  }
  exchange_with_smoothed();
  if (state_.validation_due) return false;
  bool found = false;
  for (const auto& metric : options_.valid_metrics) {
    const double value = measured.at(metric);
    const auto best = state_.best.find(metric);
    // No save follows what broke down, so it is no best model that a checkpoint could know of.
    const bool better = sound_ && (best == state_.best.end() ? std::isfinite(value)
                                                             : valid_metric(metric).is_better(value, best->second));
    state_.measured_on[metric] = setup_.validator->fingerprint(metric);
    auto& stalled = state_.stalled[metric];
    stalled = better ? 0 : stalled + 1;
    if (better) {
      state_.best[metric] = value;
      model_.save(files_.best(metric), served_values());
      found = true;
    }
    log_.validation(state_.progress, metric, value, stalled);
  }
  return found;
}

void Trainer::write_state() { write_checkpoint(files_.state(), model_, moments_, state_, dump_); }

const std::string& Trainer::kind_saved() const {
  return saves_by_epoch() ? TrainingFiles::kEpoch : TrainingFiles::kUpdate;
}

void Trainer::remove_old() const {
  if (options_.keep_last > 0) files_.remove_old(kind_saved(), options_.keep_last);
}

void Trainer::save(bool numbered) {
  replicas_.download();
  const auto served = served_values();
  if (numbered) {
    const int64_t number = saves_by_epoch() ? state_.progress.epochs : state_.progress.updates;
    model_.save(files_.numbered(kind_saved(), number), served);
  }
  model_.save(options_.model_path, served);
  write_state();
  saved_at_ = state_.progress.updates;
  log_.event(state_.progress, "save",
             fmt::format("saved {} at update {}", options_.model_path, state_.progress.updates));
  remove_old();  // only now: of a save that is killed before, a resume removes the new model
}

bool Trainer::reached_end() const {
  return std::ranges::any_of(ends_, [&](const Amount& end) { return end.reached(state_.progress); });
}

bool Trainer::stalled() const {
  const auto stalled = state_.stalled.find(options_.valid_metrics.front());
  return options_.early_stopping > 0 && stalled != state_.stalled.end() && stalled->second >= options_.early_stopping;
}

double Trainer::done_share() const {
  double share = -1;
  for (const Amount& end : ends_)
    if (end.count > 0) share = std::max(share, end.measured(state_.progress) / end.count);
  return share;
}

std::string Trainer::last_checkpoint() const {
  if (saved_at_ < 0) return "there is no good checkpoint yet";
  return fmt::format("the last good checkpoint is {}, of update {}", files_.state(), saved_at_);
}

void Trainer::run() try {
  stop_signal = 0;
  // Can be written: known now, not after hours.
  std::vector<std::string> written = {files_.state(), options_.model_path,
                                      files_.numbered(kind_saved(), std::numeric_limits<int32_t>::max())};
  if (!options_.valid_sets.empty())
    for (const auto& metric : options_.valid_metrics) written.push_back(files_.best(metric));
  for (const auto& path : written) AtomicFile{path};
  refuse_earlier_models();
  files_.remove_leftovers();
  replicas_.first().profile.times_ops = options_.profile;
  setup_.load_data();
  bool training = false;
  const auto begin_and_train = [&] {
    start_or_resume();
    const Batch largest = setup_.reserve();
    workspace_ = replicas_.first().arena_bytes();
    if (!replicas_.on_host())
      log::info("memory: {} MB of a device's for tensors, batches of up to {} source and {} target tokens",
                replicas_.used() >> 20, largest.source_words(), largest.target_words());
    if (state_.progress.updates == 0) write_state();  // a disk that is too small for it is known now
    // Models that an earlier run left, or a save that was killed, would be taken for this run's last. The best of all
    // metrics: which a run was given, only its checkpoint knows.
    for (const auto& path : files_.remove_later(state_.progress.updates, state_.progress.epochs, valid_metric_names()))
      log_.event(state_.progress, "remove", fmt::format("removed {}, which {} does not know of", path, files_.state()));
    remove_old();  // of a save that was killed before it did
    training = true;
    // Before this there is nothing to save.
    take_signals({SIGTERM, SIGINT, SIGHUP, SIGXCPU, SIGUSR1, SIGUSR2}, on_signal);
    train();
  };
  try {
    with_out_of_memory(begin_and_train);
  } catch (const OutOfMemory& error) {
    if (!training) throw;
    throw OutOfMemory(fmt::format("{}; {}", error.what(), last_checkpoint()), error.advised());
  } catch (const Error& error) {
    if (!training && dynamic_cast<const UserError*>(&error)) throw;  // of the options; while training, nothing is
    fail("{}; {}", error.what(), last_checkpoint());
  }
  if (options_.profile) print("{}", replicas_.first().profile_table());
} catch (const std::exception& error) {
  log_.error(state_.progress, error.what());
  throw;
}

void Trainer::save_if_due(bool saves, bool found_best, bool ends, bool stops) {
  const bool put_off = state_.save_due, due = saves || put_off;
  // A number that counts epochs is for the model at the end of one.
  const bool numbered = !saves_by_epoch() || put_off || state_.progress.epoch_ended;
  state_.save_due = due && !sound_ && !ends;
  if (!sound_ && saved_at_ >= 0) {  // what broke down is not to take the place of what is good
    if (ends || stops)
      log_.event(state_.progress, "warning",
                 fmt::format("the last loss is no number, and is not saved: {}", last_checkpoint()));
  } else if (ends || (due && sound_)) {
    save(numbered);
  } else if (stops || found_best) {  // a best model that no checkpoint knows of could be replaced by a worse one
    save(false);
  }
}

void Trainer::stop() {
  log_.event(state_.progress, "stop",
             fmt::format("stopped by signal {} at update {}; run again{} to go on", stop_signal.load(),
                         state_.progress.updates, options_.restart ? " without --restart" : ""));
  if (options_.profile) print("{}", replicas_.first().profile_table());
  throw Exit{128 + stop_signal};
}

bool Trainer::do_what_is_due(bool saves, bool ends) {
  Profile& profile = replicas_.first().profile;
  profile.enter("validation");
  const bool found_best = state_.validation_due && validate();
  profile.enter("saving");
  ends = ends || stalled();
  const bool stops = stop_signal != 0;
  if (stops) take_outcomes();
  save_if_due(saves, found_best, ends, stops);
  if (stops) stop();
  return ends;
}

void Trainer::train() {
  Profile& profile = replicas_.first().profile;
  TrainingProgress looked = state_.progress;  // when it was last asked what is due
  looked.seconds = state_.looked;
  sound_ = !state_.save_due;
  bool ends = reached_end() || stalled();
  if (ends && !std::filesystem::exists(options_.model_path)) save(false);
  // Put off by a signal; or this end is one that the options, not an update, have brought.
  const bool unseen = reached_end() && state_.validated != state_.progress.updates;
  state_.validation_due = setup_.validator != nullptr && (state_.validation_due || unseen);
  if (state_.validation_due) ends = do_what_is_due(false, ends);
  while (!ends) {
    if (replicas_.first().arena_bytes() < workspace_) setup_.reserve();  // a validation gave it back (see Validator)
    double since = seconds_now();
    const auto clock = [&] {
      const double time = seconds_now();
      count_seconds(time - std::exchange(since, time));
    };
    const TrainingProgress& p = state_.progress;
    Step step;
    profile.enter("data");
    const auto batches = next_batches(step);
    accumulate(batches, step);
    profile.enter("update");
    count(step);
    clock();
    // All by one clock, so that no time spent below is seen by one and missed by another.
    const TrainingProgress before = std::exchange(looked, p);
    state_.looked = p.seconds;
    ends = reached_end();
    const bool shows = display_every_.crossed(before, p) || p.updates == 1;
    state_.validation_due = setup_.validator != nullptr && (valid_every_.crossed(before, p) || ends);
    const bool saves = save_every_.crossed(before, p);
    auto norms = shows && options_.log_gradients ? part_norms() : std::map<std::string, double>();
    UpdateRule rule = update_rule(options_, p.updates);
    rule.loss_scale = state_.loss_scale.value;
    replicas_.update(rule);  // the gradients are gone now
    step.made = p;
    begun_.push_back(step);
    clock();

    profile.enter("log");
    // A device computes the update while the host goes on to the next one, unless somebody asks now how it went.
    const bool due = state_.validation_due || saves || state_.save_due || ends;
    const Update update =
        take_outcomes(replicas_.on_host() || options_.scales_loss() || shows || step.epoch_ended || due ? 0 : 1);
    clock();
    if (shows) display(update, std::move(norms));
    log_.bar(p, done_share());
    if (step.epoch_ended) report_epoch();
    ends = do_what_is_due(saves, ends);
  }
  if (stalled())
    log_.event(state_.progress, "early-stopping",
               fmt::format("early stopping: {} was not better in {} validations", options_.valid_metrics.front(),
                           state_.stalled.at(options_.valid_metrics.front())));
  log_.event(state_.progress, "finish",
             fmt::format("finished after {} updates, {} epochs, {} target tokens", with_commas(state_.progress.updates),
                         state_.progress.epochs, with_commas(state_.progress.tokens)));
  if (!replicas_.on_host()) log::info("memory: {} MB of a device's for tensors at most", replicas_.peak() >> 20);
}

}  // namespace nmt
