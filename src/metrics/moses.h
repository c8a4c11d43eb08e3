#pragma once

#include <string>
#include <string_view>

namespace nmt::metrics {

// The tokeniser of the Moses toolkit (Koehn et al. 2007; scripts/tokenizer/tokenizer.perl), its behaviour for English,
// German and French without escaping and without aggressive hyphen splitting. Newspaper BLEU of the Transformer paper
// was computed on such text.
class MosesTokenizer {
 public:
  // language: en, de or fr; throws UserError for another.
  explicit MosesTokenizer(std::string_view language);

  // Tokens separated by one space each.
  std::string operator()(std::string_view line) const;

 private:
  enum class Language { kEnglish, kGerman, kFrench };
  enum class Break { kAlways, kNever, kNotBeforeNumber };

  std::u32string split_apostrophes(const std::u32string& text) const;
  std::u32string split_periods(const std::u32string& text) const;
  Break after_prefix(std::u32string_view word) const;  // is a period after this word a token of its own?

  Language language_;
};

}  // namespace nmt::metrics
