#include "metrics/moses.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include <unicode/uchar.h>

#include "base/error.h"
#include "base/utf8.h"
#include "metrics/unicode.h"

namespace nmt::metrics {
namespace {

using View = std::u32string_view;

// A run of two or more periods stays one token; while the other rules work it is this value, which no text holds, and
// the lengths are kept in order.
constexpr char32_t kDots = 0x110000;

bool is_alpha(char32_t c) { return u_isUAlphabetic(static_cast<UChar32>(c)); }
bool is_number(char32_t c) { return (U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_N_MASK) != 0; }
bool is_alnum(char32_t c) { return is_alpha(c) || u_charType(static_cast<UChar32>(c)) == U_DECIMAL_DIGIT_NUMBER; }
bool is_lower(char32_t c) { return u_isULowercase(static_cast<UChar32>(c)); }
bool is_perl_space(char32_t c) { return is_space(c) && !(c >= 0x1C && c <= 0x1F); }

// Words before a period that do not end a sentence (the toolkit's list of non-breaking prefixes). Words with a period
// and a letter in them are never split, so they need no entry; single letters, ordinals and Roman numerals are rules.
constexpr auto kTitles = std::to_array<View>(
    {U"Adj",  U"Adm",  U"Adv", U"Asst", U"Bart", U"Bldg",   U"Brig", U"Bros", U"Capt", U"Cmdr", U"Col",  U"Comdr",
     U"Con",  U"Corp", U"Cpl", U"DR",   U"Dr",   U"Ens",    U"Gen",  U"Gov",  U"Hon",  U"Hosp", U"Insp", U"Lt",
     U"MM",   U"MR",   U"MRS", U"MS",   U"Maj",  U"Messrs", U"Mlle", U"Mme",  U"Mr",   U"Mrs",  U"Ms",   U"Msgr",
     U"Op",   U"Ord",  U"Pfc", U"Ph",   U"Prof", U"Pvt",    U"Rep",  U"Reps", U"Res",  U"Rev",  U"Rt",   U"Sen",
     U"Sens", U"Sfc",  U"Sgt", U"Sr",   U"St",   U"Supt",   U"Surg", U"v",    U"vs",   U"Nos",  U"Nr"});
constexpr auto kEnglishWords = std::to_array<View>({U"Drs", U"Hr", U"rev", U"Rs", U"Jan", U"Feb", U"Mar", U"Apr",
                                                    U"Jun", U"Jul", U"Aug", U"Sep", U"Oct", U"Nov", U"Dec"});
constexpr auto kEnglishBeforeNumber = std::to_array<View>({U"No", U"Art", U"pp"});
constexpr auto kGermanWords = std::to_array<View>(
    {U"Mio", U"Mrd",  U"bzw", U"usw",  U"etc", U"MwSt", U"ggf", U"vgl", U"sogen", U"ff",  U"Buchst", U"sog",
     U"Std", U"evtl", U"Zt",  U"Chr",  U"Ltd", U"spp",  U"sen", U"SA",  U"jun",   U"dgl", U"dergl",  U"Co",
     U"zzt", U"usf",  U"Dkr", U"bzgl", U"BSE", U"No",   U"Art", U"pp",  U"ca",    U"Ca"});
constexpr auto kRomanNumerals =
    std::to_array<View>({U"I",  U"II",  U"III",  U"IV",  U"V",  U"VI",  U"VII",  U"VIII",  U"IX",  U"X",
                         U"XI", U"XII", U"XIII", U"XIV", U"XV", U"XVI", U"XVII", U"XVIII", U"XIX", U"XX"});
constexpr auto kFrenchWords =
    std::to_array<View>({U"art",  U"ann", U"apr", U"av",   U"auj", U"lib",   U"boul", U"ca",  U"cf",  U"chap", U"contr",
                         U"dir",  U"éd",  U"env", U"al",   U"etc", U"ex",    U"fasc", U"fém", U"fig", U"fr",   U"hab",
                         U"ibid", U"id",  U"inf", U"masc", U"MM",  U"ms",    U"pl",   U"pp",  U"SS",  U"sec",  U"sect",
                         U"sing", U"sq",  U"sqq", U"suiv", U"sup", U"suppl", U"tél",  U"vb",  U"vol", U"vs"});

bool contains(std::span<const View> words, View word) { return std::ranges::find(words, word) != words.end(); }

bool is_capital(View word) { return word.size() == 1 && word[0] >= 'A' && word[0] <= 'Z'; }
bool is_small_letter(View word) { return word.size() == 1 && word[0] >= 'a' && word[0] <= 'z'; }

bool is_ordinal(View word) {  // 1 to 99
  const auto digit = [](char32_t c) { return c >= '0' && c <= '9'; };
  return !word.empty() && word.size() <= 2 && word[0] != '0' && std::ranges::all_of(word, digit);
}

bool is_roman(View word) {  // all capitals or all small, to XX
  std::u32string upper(word);
  if (std::ranges::all_of(word, [](char32_t c) { return c >= 'a' && c <= 'z'; }))
    for (auto& c : upper) c -= 'a' - 'A';
  return contains(kRomanNumerals, upper);
}

// s/\s+/ /g, control characters away, one space between words, none outside
std::u32string clean(const std::u32string& text) {
  std::u32string result;
  for (const char32_t c : text) {
    if (is_perl_space(c)) {
      if (!result.empty() && result.back() != ' ') result.push_back(' ');
    } else if (c > 0x1F) {
      result.push_back(c);
    }
  }
  if (!result.empty() && result.back() == ' ') result.pop_back();
  return result;
}

// Left, apostrophe, right: each match becomes left + middle + right.
template <class Left, class Right>
std::u32string replace_apostrophes(const std::u32string& text, Left left, Right right, View middle) {
  std::u32string result;
  for (size_t i = 0; i < text.size(); ++i) {
    result.push_back(text[i]);
    if (i + 2 < text.size() && text[i + 1] == '\'' && left(text[i]) && right(text[i + 2])) {
      result.append(middle).push_back(text[i + 2]);
      i += 2;
    }
  }
  return result;
}

// Takes runs of periods out: " " kDots, and a space before what follows.
std::u32string fold_dots(const std::u32string& text, std::vector<size_t>& lengths) {
  std::u32string result;
  for (size_t i = 0; i < text.size();) {
    const size_t end = std::min(text.find_first_not_of('.', i), text.size());
    if (end - i < 2) {
      result.push_back(text[i++]);
      continue;
    }
    lengths.push_back(end - i);
    result.append({' ', kDots});
    if (end < text.size()) result.push_back(' ');
    i = end;
  }
  return result;
}

}  // namespace

MosesTokenizer::MosesTokenizer(std::string_view language) {
  require(language == "en" || language == "de" || language == "fr", "--tokenize moses needs --language en, de or fr{}",
          language.empty() ? "" : fmt::format(", not {}", language));
  language_ = language == "en" ? Language::kEnglish : language == "de" ? Language::kGerman : Language::kFrench;
}

MosesTokenizer::Break MosesTokenizer::after_prefix(View word) const {
  bool known = is_capital(word);
  switch (language_) {
    case Language::kEnglish:
      if (contains(kEnglishBeforeNumber, word)) return Break::kNotBeforeNumber;
      known = known || contains(kTitles, word) || contains(kEnglishWords, word);
      break;
    case Language::kGerman:
      known = known || is_small_letter(word) || contains(kTitles, word) || contains(kGermanWords, word) ||
              is_roman(word) || is_ordinal(word);
      break;
    case Language::kFrench:
      known = known || (is_small_letter(word) && word != U"a") || contains(kFrenchWords, word);
      break;
  }
  return known ? Break::kNever : Break::kAlways;
}

std::u32string MosesTokenizer::split_apostrophes(const std::u32string& text) const {
  const auto other = [](char32_t c) { return !is_alpha(c); };
  const auto neither = [](char32_t c) { return !is_alpha(c) && !is_number(c); };
  const auto is_s = [](char32_t c) { return c == 's'; };
  std::u32string result;
  switch (language_) {
    case Language::kEnglish:  // contractions stay with the right part: do n't, John 's, 1990 's
      result = replace_apostrophes(text, other, other, U" ' ");
      result = replace_apostrophes(result, neither, is_alpha, U" ' ");
      result = replace_apostrophes(result, is_alpha, other, U" ' ");
      result = replace_apostrophes(result, is_alpha, is_alpha, U" '");
      return replace_apostrophes(result, is_number, is_s, U" '");
    case Language::kFrench:  // with the left one: l' eau
      result = replace_apostrophes(text, other, other, U" ' ");
      result = replace_apostrophes(result, other, is_alpha, U" ' ");
      result = replace_apostrophes(result, is_alpha, other, U" ' ");
      return replace_apostrophes(result, is_alpha, is_alpha, U"' ");
    case Language::kGerman:
      return pad(text, [](char32_t c) { return c == '\''; });
  }
  return result;
}

std::u32string MosesTokenizer::split_periods(const std::u32string& text) const {
  std::vector<View> words;  // two spaces in a row have an empty word between them: what follows it is not "the next"
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find(' ', start), text.size());
    words.push_back(View(text).substr(start, end - start));
    start = end + 1;
  }
  while (!words.empty() && words.back().empty()) words.pop_back();

  std::u32string result;
  for (size_t i = 0; i < words.size(); ++i) {
    View word = words[i];
    if (word.size() > 1 && word.back() == '.') {
      word.remove_suffix(1);
      const View next = i + 1 < words.size() ? words[i + 1] : View();
      const auto rule = after_prefix(word);
      const bool last = i + 1 == words.size();  // the end of a sentence, whatever the word is
      const bool stays = (word.find('.') != View::npos && std::ranges::any_of(word, is_alpha)) ||
                         rule == Break::kNever ||
                         (!next.empty() &&
                          (is_lower(next[0]) || (rule == Break::kNotBeforeNumber && next[0] >= '0' && next[0] <= '9')));
      result.append(word).append(stays && !last ? U"." : U" .");
    } else {
      result.append(word);
    }
    result.push_back(' ');
  }
  return result;
}

std::string MosesTokenizer::operator()(std::string_view line) const {
  std::u32string text = clean(to_utf32(line));
  text = pad(text, [](char32_t c) {
    return !is_alnum(c) && !is_perl_space(c) && c != '.' && c != '\'' && c != '`' && c != ',' && c != '-';
  });
  std::vector<size_t> dots;
  text = fold_dots(text, dots);

  text = split_marks(
      text, [](char32_t c) { return c == ','; }, is_number);
  if (text.size() > 1 && text.back() == ',' && is_number(text[text.size() - 2])) {
    text.back() = ' ';
    text.push_back(',');
  }

  text = clean(split_periods(split_apostrophes(text)));
  if (text.ends_with(U".'")) {
    text.resize(text.size() - 2);
    text.append(U" . '");
  }

  std::u32string result;
  size_t run = 0;
  for (const char32_t c : text)
    if (c == kDots)
      result.append(dots[run++], '.');
    else
      result.push_back(c);
  return to_utf8(result);
}

}  // namespace nmt::metrics
