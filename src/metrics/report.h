#pragma once

#include <span>
#include <string>

#include "metrics/score.h"

namespace nmt {

// sacreBLEU's JSON: name, score, signature, confidence_mean, confidence_var, confidence, verbose_score and each field
// of the signature, rounded to `width` decimals; p_value where there was a test. One object for one score, an array
// for a list of them; its objects begin with "system" where systems are named.
std::string json_report(const Score& score, int width);
std::string json_report(std::span<const Score> scores, std::span<const std::string> systems, int width);

// The outcome of a paired test: the signature, then a line for each system, the first one being the baseline.
std::string paired_report(std::span<const Score> scores, std::span<const std::string> systems, int width);

}  // namespace nmt
