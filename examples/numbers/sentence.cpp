#include "sentence.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "base/error.h"
#include "slots.h"

namespace nmt::numbers {
namespace {

class Writer {
 public:
  explicit Writer(Random& random) : slots_(random) {}

  std::optional<Pair> write(const Carrier& carrier) {
    Pair pair;
    pair.en = expand(carrier.en, false);
    if (failed_) return std::nullopt;
    pair.de = expand(carrier.de, true);
    return pair;
  }

 private:
  std::string expand(std::string_view text, bool german) {
    std::string out;
    for (;;) {
      const size_t open = std::min(text.find_first_of("{["), text.size());
      out += text.substr(0, open);
      text.remove_prefix(open);
      if (text.empty() || failed_) break;
      const size_t close = text.find_first_of("}]");
      check(close != text.npos, "carrier: '{}' is not closed", text);
      const std::string_view inside = text.substr(1, close - 1);
      out += text[0] == '[' ? agree(inside, text.substr(close + 1)) : fill(inside, german);
      text.remove_prefix(close + 1);
    }
    if (!out.empty() && out[0] >= 'a' && out[0] <= 'z') out[0] = static_cast<char>(out[0] - 'a' + 'A');
    return out;
  }

  std::string_view agree(std::string_view forms, std::string_view rest) {
    if (!plural_) {  // "There [is|are] {thing}": the noun comes after its verb
      const size_t open = std::min(rest.find('{'), rest.size()), close = std::min(rest.find('}'), rest.size());
      check(open < close, "carrier: nothing is counted around '[{}]'", forms);
      phrase(rest.substr(open + 1, close - open - 1), true);
    }
    check(plural_.has_value(), "carrier: nothing is counted around '[{}]'", forms);
    const size_t bar = forms.find('|');
    return *plural_ ? forms.substr(bar + 1) : forms.substr(0, bar);
  }

  const std::string& fill(std::string_view inside, bool german) {
    const size_t dot = inside.find('.');
    const Phrase& found = phrase(inside.substr(0, dot), !german);
    if (!german) return found.en;
    const std::string_view name = dot == inside.npos ? "nom" : inside.substr(dot + 1);
    const std::string& form = found.de[name == "acc" ? kAccusative : name == "dat" ? kDative : kNominative];
    check(!form.empty(), "carrier: '{}' has no such form", inside);
    return form;
  }

  const Phrase& phrase(std::string_view name, bool may_draw) {
    if (const auto found = phrases_.find(name); found != phrases_.end()) return found->second;
    check(may_draw, "carrier: slot '{}' is missing in the English text", name);
    const bool second = name.ends_with('2');
    const std::string_view kind = second ? name.substr(0, name.size() - 1) : name;
    Phrase drawn = slots_.draw(kind);
    if (second) {
      const auto first = phrases_.find(kind);
      check(first != phrases_.end(), "carrier: '{}' comes without '{}'", name, kind);
      const auto clashes = [&] {
        return drawn.id >= 0 ? drawn.id == first->second.id : drawn.order <= first->second.order;
      };
      const bool free = drawn.id < 0 && drawn.order < 0;
      for (int tries = 0; !free && clashes() && !failed_; ++tries) {
        drawn = slots_.draw(kind);
        failed_ = tries == 50;
      }
    }
    if (drawn.count && !plural_) plural_ = drawn.plural;
    return phrases_.emplace(name, std::move(drawn)).first->second;
  }

  Slots slots_;
  std::map<std::string, Phrase, std::less<>> phrases_;
  std::optional<bool> plural_;
  bool failed_ = false;
};

}  // namespace

std::optional<Pair> write_sentence(const Carrier& carrier, Random& random) { return Writer(random).write(carrier); }

}  // namespace nmt::numbers
