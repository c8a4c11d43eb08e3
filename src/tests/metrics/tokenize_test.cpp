#include "metrics/tokenize.h"

#include "base/error.h"
#include "metrics/moses.h"
#include "metrics/unicode.h"
#include "tests/catch.h"
#include "text/lowercase.h"

using namespace nmt;
using namespace nmt::metrics;

namespace {

std::string joined(const std::string& tokenized) {
  std::string text;
  for (const auto word : split_at_spaces(tokenized)) text.append(text.empty() ? "" : " ").append(word);
  return text;
}

}  // namespace

TEST_CASE("white space is Python's") {
  CHECK(split_at_spaces("").empty());
  CHECK(split_at_spaces(" \t ").empty());
  const std::string text = "a\u00a0b\u2028c\u3000d\x1c\u0085e\u200bf g ";
  CHECK(split_at_spaces(text) == std::vector<std::string_view>{"a", "b", "c", "d", "e\u200bf", "g"});
  CHECK(strip_right("x y\u3000\r\u0085 ") == "x y");
  CHECK(strip_right("\u00e0") == "\u00e0");  // ends in byte A0
  CHECK(strip_right("\u2003").empty());
  CHECK(split_at_spaces("\xe2\x80") == std::vector<std::string_view>{"\xe2\x80"});  // cut off
}

TEST_CASE("each part is replaced once, in time that grows with the text") {
  const auto replaced = [](std::string text, std::string_view from, std::string_view to) {
    replace_all(text, from, to);
    return text;
  };
  CHECK(replaced("aXXbXc", "X", "XX") == "aXXXXbXXc");
  CHECK(replaced("ababa", "aba", "") == "ba");
  CHECK(replaced("plain", "X", "Y") == "plain");
  CHECK(replaced("", "X", "Y").empty());
  std::string text;
  for (int i = 0; i < 4'000'000; ++i) text += "&quot;";  // beyond a test's time where the rest is moved each time
  CHECK(replaced(text, "&quot;", "\"") == std::string(4'000'000, '"'));
}

TEST_CASE("lower case is Unicode's, of no language") {
  CHECK(lowercase("ÄSS ΟΔΟΣ, ΣΑΣ.") == "äss οδος, σας.");
  CHECK(lowercase("İI") == "i\u0307i");
  CHECK(lowercase("").empty());
  CHECK(lowercase("A\xE2\x82Z\xFF") == "a\xEF\xBF\xBDz\xEF\xBF\xBD");
}

TEST_CASE("13a and the international tokeniser") {
  const auto check = [](const std::string& line, const std::string& v13a, const std::string& international) {
    CHECK(joined(tokenize_13a(line)) == v13a);
    CHECK(joined(tokenize_international(line)) == international);
  };
  check("Hello, world! It's 3,000.50 or 10-20 (say).", "Hello , world ! It's 3,000.50 or 10 - 20 ( say ) .",
        "Hello , world ! It ' s 3,000.50 or 10-20 ( say ) .");
  check("x<skipped>y &quot;a&amp;b&quot; &amp;lt;", "xy \" a & b \" <",
        "x < skipped > y & quot ; a & amp ; b & quot ; & amp ; lt ;");
  check("„Straße“ kostet 5€, ½ – 3.14 … ok.", "„Straße“ kostet 5€ , ½ – 3.14 … ok .",
        "„ Straße “ kostet 5 € , ½ – 3.14 … ok .");
  check("1990s-style e.g. u.s. .5 5. -x", "1990s-style e . g . u . s . . 5 5 . -x",
        "1990s - style e . g . u . s . . 5 5 . - x");
  CHECK(joined(tokenize_characters("a 中é")) == "a 中 é");
}

TEST_CASE("Chinese is scored by characters, the rest as 13a splits it") {
  const auto tokens = [](const std::string& line) { return joined(tokenize_chinese(line)); };
  CHECK(tokens("我们在2019年,买了3.5个iPhone。") == "我 们 在 2019 年 , 买 了 3.5 个 iPhone 。");
  CHECK(tokens("（全角）“引”— ok.") == "（ 全 角 ） “ 引 ” — ok .");
  CHECK(tokens("  .5 &amp; カナ・ひら 한국어 𠀀\t") == ".5 & amp ; カナ・ひら 한국어 𠀀");
  CHECK(tokens("\u3000").empty());
}

TEST_CASE("the normaliser of tercom, option by option") {
  const std::string line = "Tom's ΟΔΟΣ, &amp; 中文。カナ 3,5!";
  CHECK(tokenize_tercom(line, {}) == "tom's οδος, &amp; 中文。カナ 3,5!");
  CHECK(tokenize_tercom(line, {.normalized = true}) == "tom 's οδος , & 中文。カナ 3,5 !");
  CHECK(tokenize_tercom(line, {.no_punct = true}) == "tom's οδος &amp 中文。カナ 35");
  CHECK(tokenize_tercom(line, {.normalized = true, .asian_support = true}) == "tom 's οδος , & 中 文 。 カナ 3,5 !");
  CHECK(tokenize_tercom(line, {.no_punct = true, .asian_support = true}) == "tom's οδος &amp 中文カナ 35");
  CHECK(tokenize_tercom(line, {.case_sensitive = true}) == "Tom's ΟΔΟΣ, &amp; 中文。カナ 3,5!");
}

TEST_CASE("compounds split at hyphens, without overlap") {
  CHECK(split_compounds("rich-text format") == "rich ##AT##-##AT## text format");
  CHECK(split_compounds("a-b-c ab-cd-ef - x- -y") ==
        "a ##AT##-##AT## b-c ab ##AT##-##AT## cd ##AT##-##AT## ef - x- -y");
  CHECK(split_compounds("ä-ö") == "ä ##AT##-##AT## ö");
  CHECK(split_compounds("").empty());
}

TEST_CASE("the Moses tokeniser by language") {
  const MosesTokenizer en("en"), de("de"), fr("fr");
  const std::string dog = "Dr. Smith's dog didn't bark... Did it? No. No. 7 and pp. 12,500.";
  CHECK(en(dog) == "Dr. Smith 's dog didn 't bark ... Did it ? No . No. 7 and pp. 12,500 .");
  CHECK(de(dog) == "Dr. Smith ' s dog didn ' t bark ... Did it ? No. No. 7 and pp. 12,500 .");
  CHECK(fr(dog) == "Dr . Smith' s dog didn' t bark ... Did it ? No . No . 7 and pp. 12,500 .");
  const std::string list = "Die z.B. am 3. Mai usw. gezeigte E-Mail-Liste (ca. 5,5 MB) ist Tom's.";
  CHECK(en(list) == "Die z.B. am 3 . Mai usw. gezeigte E-Mail-Liste ( ca . 5,5 MB ) ist Tom 's .");
  CHECK(de(list) == "Die z.B. am 3. Mai usw. gezeigte E-Mail-Liste ( ca. 5,5 MB ) ist Tom ' s .");
  CHECK(fr(list) == "Die z.B. am 3 . Mai usw. gezeigte E-Mail-Liste ( ca. 5,5 MB ) ist Tom' s .");
  const std::string water = "L'eau d'aujourd'hui, c'est l'an 1990's : « oui » etc. Non.'";
  CHECK(en(water) == "L 'eau d 'aujourd 'hui , c 'est l 'an 1990 's : « oui » etc . Non . '");
  CHECK(de(water) == "L ' eau d ' aujourd ' hui , c ' est l ' an 1990 ' s : « oui » etc. Non . '");
  CHECK(fr(water) == "L' eau d' aujourd' hui , c' est l' an 1990 ' s : « oui » etc. Non . '");
  CHECK(en("'A,B,C' x',") == "'A , B , C ' x ' ,");
  CHECK(de("'A,B,C' x',") == "' A , B , C ' x ' ,");

  CHECK(en("").empty());
  CHECK(en(" \t\u00a0\u0085").empty());
  CHECK(en("a\x01\x02 \x03 b\r") == "a b");
  CHECK(en("wait.... what..no .... .") == "wait .... what .. no .... .");
  CHECK(en("1, 2,") == "1 , 2 ,");
  CHECK(de("XIX. xx. XXI. 99. 100. X") == "XIX. xx. XXI . 99. 100 . X");
  CHECK_THROWS_AS(MosesTokenizer("es"), UserError);
  CHECK_THROWS_AS(MosesTokenizer(""), UserError);
}
