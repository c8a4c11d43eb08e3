#include "metrics/report.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"

namespace nmt {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Score& score, int width) {
  const auto rounded = [&](double x) { return std::stod(fmt::format("{:.{}f}", x, width)); };
  Json json = {{"name", score.name}, {"score", rounded(score.value)}, {"signature", score.signature}};
  if (score.interval) {
    json["confidence_mean"] = rounded(score.interval->mean);
    json["confidence_var"] = rounded(score.interval->half_width);
    json["confidence"] =
        fmt::format("μ = {:.{}f} ± {:.{}f}", score.interval->mean, width, score.interval->half_width, width);
  }
  if (score.p_value) json["p_value"] = *score.p_value;
  if (!score.details.empty()) json["verbose_score"] = score.details;
  for (size_t start = 0; start < score.signature.size();) {
    const size_t end = std::min(score.signature.find('|', start), score.signature.size());
    const std::string field = score.signature.substr(start, end - start);
    const size_t colon = field.find(':');
    check(colon != std::string::npos, "signature field '{}' has no value", field);
    json[field.substr(0, colon)] = field.substr(colon + 1);
    start = end + 1;
  }
  return json;
}

}  // namespace

std::string json_report(const Score& score, int width) { return json_text(to_json(score, width), 1) + "\n"; }

std::string json_report(std::span<const Score> scores, std::span<const std::string> systems, int width) {
  auto array = Json::array();
  for (size_t i = 0; i < scores.size(); ++i) {
    Json json;
    if (!systems.empty()) json["system"] = systems[i];
    json.update(to_json(scores[i], width));
    array.push_back(std::move(json));
  }
  return json_text(array, 1) + "\n";
}

std::string paired_report(std::span<const Score> scores, std::span<const std::string> systems, int width) {
  check(!scores.empty() && scores.size() == systems.size(), "a report needs one name for each score");
  std::vector<std::string> names(systems.begin(), systems.end());
  names[0] = "Baseline: " + names[0];
  const size_t longest = std::ranges::max(names, {}, &std::string::size).size();
  std::string text = fmt::format("{}|{}\n", scores[0].name, scores[0].signature);
  for (size_t i = 0; i < scores.size(); ++i)
    text += fmt::format("{:<{}}  {}\n", names[i], longest, scores[i].number(width));
  return text;
}

}  // namespace nmt
