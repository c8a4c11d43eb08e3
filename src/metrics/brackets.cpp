#include "metrics/brackets.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/error.h"
#include "base/math.h"
#include "text/linear_tree.h"

namespace nmt {
namespace {

using Numbers = std::array<double, 12>;  // a BracketSums; one of all sentences, then one of those up to the cutoff
static_assert(sizeof(Numbers) == sizeof(BracketSums));

BracketSums sums_at(std::span<const double> statistics) {
  Numbers numbers;
  std::copy_n(statistics.begin(), numbers.size(), numbers.begin());
  return std::bit_cast<BracketSums>(numbers);
}

struct Word {
  std::string text, tag;
};

struct Bracket {
  std::string label;
  size_t begin = 0, end = 0;  // among the words
  bool matched = false;
};

// A word that looks like a quote, whether deleted or not; where it is or would be put back.
struct Quote {
  Word word;
  size_t place, next_bracket;
  std::vector<size_t> open;  // the brackets around it
};

bool contains(const std::vector<std::string>& list, std::string_view text) {
  return std::ranges::find(list, text) != list.end();
}

bool equivalent(std::string_view a, std::string_view b, const BracketParameters::Pairs& pairs) {
  return a == b || std::ranges::any_of(pairs, [&](const auto& pair) {
           return (a == pair.first && b == pair.second) || (a == pair.second && b == pair.first);
         });
}

// A sentence's words without deleted ones and its brackets, in order of their beginning, outer ones first.
struct Sentence {
  std::vector<Word> words;
  std::vector<Bracket> brackets;
  std::vector<Quote> quotes;
  std::vector<std::string> tags;  // of all leaves but for not_in_length

  // Where the leaf is XX, the gold tag at its place says whether it is deleted.
  void add(const Tree& tree, std::vector<size_t>& open, const BracketParameters& p, const Sentence* gold) {
    if (tree.is_leaf()) {
      const Word word{tree.word, tree.label};
      const bool any = gold != nullptr && word.tag == kAnyTag && tags.size() < gold->tags.size();
      const bool deleted = contains(p.deleted, any ? gold->tags[tags.size()] : word.tag);
      if (!contains(p.not_in_length, word.tag)) tags.push_back(word.tag);
      if (contains(p.quotes, word.tag) && (word.text == "'" || word.text == "\"" || word.text == "/"))
        quotes.push_back({word, words.size(), brackets.size(), open});
      if (!deleted) words.push_back(word);
      return;
    }
    const size_t number = brackets.size();
    brackets.push_back({tree.label, words.size()});
    open.push_back(number);
    for (const Tree& child : tree.children) add(child, open, p, gold);
    open.pop_back();
    brackets[number].end = words.size();
  }

  void put_back(size_t quote) {
    const Quote& q = quotes[quote];
    words.insert(words.begin() + static_cast<ptrdiff_t>(q.place), q.word);
    for (size_t b = q.next_bracket; b < brackets.size(); ++b) {
      ++brackets[b].begin;
      ++brackets[b].end;
    }
    for (const size_t b : q.open) ++brackets[b].end;
    for (; quote < quotes.size(); ++quote) ++quotes[quote].place;
  }

  // Deletes brackets without words and those of deleted labels; labels lose function tags.
  void trim(const BracketParameters& p) {
    for (auto& [label, begin, end, matched] : brackets) label.resize(std::min(label.find_first_of("-="), label.size()));
    std::erase_if(brackets, [&](const Bracket& bracket) {
      return bracket.begin == bracket.end || std::ranges::any_of(p.deleted, [&](const std::string& label) {
               return equivalent(bracket.label, label, p.equal_labels);
             });
    });
  }
};

Sentence read_sentence(std::string_view line, const std::string& name, const BracketParameters& p,
                       const Sentence* gold = nullptr) {
  std::deque<Tree> trees;
  TreeParser parser(EmptyBrackets::kAccept);
  parser.parse(line, name + ", column ", trees);
  parser.finish();
  Sentence sentence;
  std::vector<size_t> open;
  for (const Tree& tree : trees) sentence.add(tree, open, p, gold);
  return sentence;
}

// Where the same quote is tagged as a word on one side and deleted on the other, it is a word on both.
void agree_on_quotes(Sentence& gold, Sentence& test, const BracketParameters& p) {
  for (size_t t = 0; t < test.quotes.size(); ++t) {
    const size_t place = test.quotes[t].place;
    const auto first = std::ranges::lower_bound(gold.quotes, place, {}, &Quote::place);
    for (auto g = static_cast<size_t>(first - gold.quotes.begin());
         g < gold.quotes.size() && gold.quotes[g].place == place; ++g) {
      const bool gold_deleted = contains(p.deleted, gold.quotes[g].word.tag);
      const bool test_deleted = contains(p.deleted, test.quotes[t].word.tag);
      if (gold_deleted && !test_deleted) gold.put_back(g);
      if (test_deleted && !gold_deleted) test.put_back(t);
    }
  }
}

// Each gold bracket takes the first equal test bracket that none has taken. Both sides lie in order of their beginning,
// of one beginning the longest first.
int64_t count_matches(const std::vector<Bracket>& gold, std::vector<Bracket>& test, const BracketParameters& p) {
  const auto span = [](const Bracket& bracket) { return std::pair(bracket.begin, ~bracket.end); };
  int64_t matches = 0;
  for (const auto& g : gold)
    for (auto& t : std::ranges::equal_range(test, span(g), {}, span))
      if (!t.matched && (!p.labelled || equivalent(g.label, t.label, p.equal_labels))) {
        t.matched = true;
        ++matches;
        break;
      }
  return matches;
}

// By place between words, 0 to `words`: the innermost bracket that holds the words on both sides, or null.
std::vector<const Bracket*> innermost(const std::vector<Bracket>& brackets, size_t words) {
  std::vector<const Bracket*> found(words + 1), open;
  auto next = brackets.begin();
  for (size_t place = 1; place < words; ++place) {
    while (!open.empty() && open.back()->end <= place) open.pop_back();
    for (; next != brackets.end() && next->begin < place; ++next)
      if (next->end > place) open.push_back(&*next);
    if (!open.empty()) found[place] = open.back();
  }
  return found;
}

// Test brackets that begin in a gold bracket and end outside of it, or the other way round. Of the gold brackets around
// a place the innermost ends first and begins last.
int64_t count_crossing(const std::vector<Bracket>& gold, const std::vector<Bracket>& test, size_t words) {
  const auto around = innermost(gold, words);
  return std::ranges::count_if(test, [&](const Bracket& t) {
    const Bracket *at_begin = around[t.begin], *at_end = around[t.end];
    return (at_begin != nullptr && at_begin->end < t.end) || (at_end != nullptr && at_end->begin > t.begin);
  });
}

std::string details(const BracketSums& s) {
  return fmt::format(
      "recall = {:.2f} precision = {:.2f} complete = {:.2f} crossing = {:.2f} no_crossing = {:.2f} "
      "two_or_less_crossing = {:.2f} tags = {:.2f} sentences = {:.0f} errors = {:.0f} skipped = {:.0f}",
      s.recall(), s.precision(), s.complete_match(), s.average_crossing(), s.without_crossing(), s.with_few_crossings(),
      s.tagging_accuracy(), s.sentences, s.errors, s.skipped);
}

}  // namespace

SentenceBrackets compare_brackets(std::string_view gold_line, std::string_view test_line,
                                  const BracketParameters& parameters) {
  SentenceBrackets result;
  const auto fail = [&](const std::string& error) {
    result.status = SentenceBrackets::kError;
    result.error = error;
    return result;
  };
  Sentence gold, test;
  try {
    gold = read_sentence(gold_line, "reference", parameters);
    result.length = std::ssize(gold.tags);
    result.words = std::ssize(gold.words);
    test = read_sentence(test_line, "hypothesis", parameters, &gold);
  } catch (const UserError& error) {
    return fail(error.what());
  }
  if (test.words.empty()) {
    result.status = SentenceBrackets::kSkipped;
    return result;
  }
  if (gold.words.size() != test.words.size()) agree_on_quotes(gold, test, parameters);
  if (gold.words.size() != test.words.size())
    return fail(fmt::format("{} words, but {} in the reference", test.words.size(), gold.words.size()));
  for (size_t i = 0; i < gold.words.size(); ++i)
    if (!equivalent(gold.words[i].text, test.words[i].text, parameters.equal_words))
      return fail(fmt::format("'{}' is '{}' in the reference", test.words[i].text, gold.words[i].text));

  gold.trim(parameters);
  test.trim(parameters);
  result.words = std::ssize(gold.words);
  result.gold = std::ssize(gold.brackets);
  result.test = std::ssize(test.brackets);
  result.crossing = count_crossing(gold.brackets, test.brackets, gold.words.size());
  result.matched = count_matches(gold.brackets, test.brackets, parameters);
  for (size_t i = 0; i < gold.words.size(); ++i)
    result.tags += equivalent(gold.words[i].tag, test.words[i].tag, parameters.equal_labels) ? 1 : 0;
  return result;
}

void BracketSums::add(const SentenceBrackets& s) {
  sentences += 1;
  errors += s.status == SentenceBrackets::kError ? 1 : 0;
  skipped += s.status == SentenceBrackets::kSkipped ? 1 : 0;
  if (s.status != SentenceBrackets::kValid) return;
  gold += static_cast<double>(s.gold);
  test += static_cast<double>(s.test);
  matched += static_cast<double>(s.matched);
  complete += s.matched == s.gold && s.matched == s.test ? 1 : 0;
  crossing += static_cast<double>(s.crossing);
  no_crossing += s.crossing == 0 ? 1 : 0;
  few_crossing += s.crossing <= 2 ? 1 : 0;
  words += static_cast<double>(s.words);
  tags += static_cast<double>(s.tags);
}

double BracketSums::recall() const { return percent(matched, gold); }
double BracketSums::precision() const { return percent(matched, test); }
double BracketSums::f1() const { return percent(2 * matched, gold + test); }
double BracketSums::complete_match() const { return percent(complete, valid()); }
double BracketSums::average_crossing() const { return percent(crossing, valid()) / 100; }
double BracketSums::without_crossing() const { return percent(no_crossing, valid()); }
double BracketSums::with_few_crossings() const { return percent(few_crossing, valid()); }
double BracketSums::tagging_accuracy() const { return percent(tags, words); }

size_t Brackets::statistics_size() const { return 2 * Numbers().size(); }

void Brackets::sentence_statistics(std::string_view hypothesis, std::span<const std::string_view> references,
                                   std::span<double> statistics) const {
  require(references.size() == 1, "brackets are scored against one reference, not {}", references.size());
  const auto sentence = compare_brackets(references[0], hypothesis, parameters_);
  BracketSums all, up_to_cutoff;
  all.add(sentence);
  if (sentence.length <= parameters_.cutoff) up_to_cutoff.add(sentence);
  auto to = statistics.begin();
  for (const auto& sums : {all, up_to_cutoff}) to = std::ranges::copy(std::bit_cast<Numbers>(sums), to).out;
}

Score Brackets::score(std::span<const double> statistics) const {
  const auto all = sums_at(statistics), up_to_cutoff = sums_at(statistics.subspan(Numbers().size()));
  return {.name = "F1",
          .value = all.f1(),
          .details = fmt::format("({}) len<={}: F1 = {:.2f} ({})", details(all), parameters_.cutoff, up_to_cutoff.f1(),
                                 details(up_to_cutoff))};
}

std::string Brackets::settings() const {
  return fmt::format("labels:{}|cutoff:{}|params:{}", parameters_.labelled ? "yes" : "no", parameters_.cutoff,
                     parameters_ == BracketParameters() ? "collins" : "own");
}

}  // namespace nmt
