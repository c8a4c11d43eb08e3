#pragma once

#include <string>
#include <string_view>

// Tokenisers of the published scores. Each returns the line with white space around its tokens: the tokens are the
// words that split_at_spaces finds.
namespace nmt::metrics {

// mteval-v13a, WMT's: `<skipped>` and four XML entities, then ASCII punctuation; a period, a comma or a dash inside a
// number stays.
std::string tokenize_13a(std::string_view line);

// mteval-v14 --international-tokenization: punctuation (\p{P}) beside a non-number, and symbols (\p{S}).
std::string tokenize_international(std::string_view line);

// sacreBLEU's for Chinese: each Chinese character or sign is a token; the rest is split as in 13a, but of the line
// without white space around it, and neither entities nor <skipped> are replaced.
std::string tokenize_chinese(std::string_view line);

// Each character that is no white space is a token.
std::string tokenize_characters(std::string_view line);

// The normaliser of tercom (Snover et al. 2006), option by option as sacreBLEU's TER has them. One space between
// tokens.
struct TercomOptions {
  bool normalized = false;      // entities, Western punctuation
  bool no_punct = false;        // drop . , ? : ; ! " ( )
  bool asian_support = false;   // the same for CJK text: each character a token, full-width punctuation
  bool case_sensitive = false;  // keep the case
};
std::string tokenize_tercom(std::string_view line, const TercomOptions& options);

// "rich-text" becomes "rich ##AT##-##AT## text", as the English-German papers from GNMT on score compounds
// (tensor2tensor, get_ende_bleu.sh). Of a-b-c only the first hyphen splits where b is one character long: matches of
// (\S)-(\S) do not overlap there either.
std::string split_compounds(std::string_view tokenized);

}  // namespace nmt::metrics
