// Every op that the sources define is computed by some case.
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "tests/compute_types.h"
#include "tests/ops/op_case.h"

namespace nmt::testing {
namespace {

std::set<std::string> defined_ops() {
  std::set<std::string> names;
  const auto source = std::filesystem::path(__FILE__).parent_path().parent_path().parent_path();
  const std::regex declaration("kName = \"([^\"]+)\"");
  for (const char* folder : {"graph", "ops"})
    for (const auto& entry : std::filesystem::directory_iterator(source / folder)) {
      if (entry.path().extension() != ".h") continue;
      std::ifstream file(entry.path());
      const std::string text{std::istreambuf_iterator<char>(file), {}};
      for (std::sregex_iterator it(text.begin(), text.end(), declaration), end; it != end; ++it) names.insert((*it)[1]);
    }
  return names;
}

}  // namespace

TEST_CASE("every op has a case", "[ops]") {
  compute_types();  // says where bf16 is skipped
  const auto defined = defined_ops();
  REQUIRE(defined.size() >= 25);
  std::map<std::string, bool> used;
  for (const auto& cases : {basic_cases(), elementwise_cases(), linear_cases(), normalize_cases(), attention_cases(),
                            layer_cases(), text_cases()})
    for (const OpCase& c : cases) used.merge(ops_of(c));
  for (const auto& name : defined) {
    INFO(name);
    CHECK(used.count(name) == 1);
  }
  if (!kHaveCuda) return;
  // ModelConfig::validate_for_devices refuses the models that need these.
  const std::set<std::string> on_host = {
      "additive_attention", "additive_attention_gradient", "cached_additive_attention",
      "neighbours",         "neighbours_gradient",         "cached_neighbours",
      "recurrence",         "recurrence_gradient",         "recurrent_step"};
  for (const auto& [name, on_devices] : used) {
    INFO(name);
    CHECK(on_devices == !on_host.contains(name));
  }
}

}  // namespace nmt::testing
