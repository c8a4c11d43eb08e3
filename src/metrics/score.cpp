#include "metrics/score.h"

#include <fmt/format.h>

namespace nmt {

std::string Score::number(int width) const {
  std::string text = fmt::format("{:.{}f}", value, width);
  if (interval) text += fmt::format(" (μ = {:.{}f} ± {:.{}f})", interval->mean, width, interval->half_width, width);
  if (p_value) text += fmt::format(" (p = {:.4f}){}", *p_value, *p_value > 0.05 ? "" : "*");
  return text;
}

std::string Score::text(int width) const {
  return fmt::format("{}{}{} = {}{}{}", name, signature.empty() ? "" : "|", signature, number(width),
                     details.empty() ? "" : " ", details);
}

}  // namespace nmt
