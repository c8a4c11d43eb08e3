#include "train/train_log.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <exception>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"

namespace nmt {
namespace {

nlohmann::ordered_json object(const char* kind, const TrainingProgress& p) {
  return {
      {"kind", kind}, {"epoch", p.epoch()}, {"update", p.updates}, {"sentences", p.sentences}, {"tokens", p.tokens}};
}

// JSON has no NaN or infinity.
nlohmann::ordered_json number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

}  // namespace

std::string with_commas(int64_t value) {
  std::string text = std::to_string(value);
  for (auto i = static_cast<int64_t>(text.size()) - 3; i > (value < 0 ? 1 : 0); i -= 3)
    text.insert(static_cast<size_t>(i), 1, ',');
  return text;
}

TrainLog::TrainLog(std::string path, bool quiet) : json_path_(std::move(path)), bar_(quiet) {
  if (json_path_.empty()) return;
  end_last_line(json_path_);
  json_ = std::fopen(json_path_.c_str(), "a");
  require(json_ != nullptr, "--log-json: cannot write {}: {}", json_path_, std::strerror(errno));
}

TrainLog::~TrainLog() {
  if (json_ != nullptr) std::fclose(json_);
}

void TrainLog::json(const std::string& line) {
  if (json_ == nullptr) return;
  // A long line is written by the first call alone, which then tells of errors.
  if (std::fputs((line + "\n").c_str(), json_) < 0 || std::fflush(json_) != 0)
    fail("--log-json: cannot write {}: {}", json_path_, std::strerror(errno));
}

void TrainLog::update(const TrainingProgress& p, const Line& u) {
  log::info("Ep. {} : Up. {} : Sen. {} : Cost {:.8f} : Time {:.2f}s : {:.2f} words/s : gNorm {:.4f} : L.r. {:.4e}",
            p.epoch(), p.updates, with_commas(p.sentences), u.cost, u.seconds, u.tokens_per_second, u.gradient_norm,
            u.learning_rate);
  for (const auto& [part, norm] : u.part_norms) log::info("    gNorm {:<32} {:.6f}", part, norm);
  auto line = object("update", p);
  line["cost"] = number(u.cost);
  line["seconds"] = u.seconds;
  line["words_per_second"] = u.tokens_per_second;
  line["gradient_norm"] = number(u.gradient_norm);
  line["learning_rate"] = u.learning_rate;
  line["wait_share"] = u.wait_share;
  line["padded_share"] = u.padded_share;
  if (!u.part_norms.empty()) line["gradient_norms"] = u.part_norms;
  json(json_text(line));
}

void TrainLog::validation(const TrainingProgress& p, const std::string& metric, double value, int64_t stalled) {
  log::info("[valid] Ep. {} : Up. {} : {} : {:.6g} : {}", p.epoch(), p.updates, metric, value,
            stalled == 0 ? "new best" : fmt::format("stalled {} times", stalled));
  auto line = object("validation", p);
  line["metric"] = metric;
  line["value"] = number(value);
  line["best"] = stalled == 0;
  line["stalled"] = stalled;
  json(json_text(line));
}

void TrainLog::event(const TrainingProgress& p, const std::string& kind, const std::string& text) {
  if (kind == "warning")
    log::warn("{}", text);
  else
    log::info("{}", text);
  auto line = object(kind.c_str(), p);
  line["text"] = text;
  json(json_text(line));
}

void TrainLog::error(const TrainingProgress& p, const std::string& text) noexcept try {
  auto line = object("error", p);
  line["text"] = text;
  json(json_text(line));
} catch (const std::exception&) {  // the program's exit code tells that it failed
}

void TrainLog::bar(const TrainingProgress& p, double done) {
  const double rate = static_cast<double>(p.tokens) / std::max(1e-9, p.seconds);
  bar_.show(done, p.seconds, fmt::format("{:.0f} words/s", rate));
}

}  // namespace nmt
