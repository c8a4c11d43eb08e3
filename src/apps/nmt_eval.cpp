#include <algorithm>
#include <functional>
#include <span>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "config/app.h"
#include "config/option_files.h"
#include "metrics/alignment.h"
#include "metrics/bleu.h"
#include "metrics/brackets.h"
#include "metrics/chrf.h"
#include "metrics/report.h"
#include "metrics/ter.h"
#include "metrics/unicode.h"
#include "text/text_reader.h"

namespace nmt {
namespace {

struct EvalOptions {
  std::vector<std::string> references, hypotheses = {"-"};
  bool sentence = false, confidence = false, paired = false, json = false, score_only = false;
  static constexpr int kTrials = 1000;  // sacreBLEU's
  static constexpr uint64_t kSeed = 12345;
  int bootstrap_trials = kTrials, width = 1;
  uint64_t seed = kSeed;
  const Options* declared = nullptr;

  void declare(Options& options, const std::string& reference) {
    declared = &options;
    options.group("Input: plain text, .gz or .zst, a sentence a line; - is standard input");
    options.add("reference", references, reference).short_name('r').required();
    options.add("hypothesis", hypotheses, "What to score, one file for each system").short_name('i');
    options.group("Significance");
    options.add("confidence", confidence, "Give the 95% confidence interval, by bootstrap");
    options.add("paired", paired, "Test each system against the first one, by paired bootstrap");
    options.add("bootstrap-trials", bootstrap_trials, "Resamples").range(2, 1e6);
    options.add("seed", seed, "Seed of the resamples");
    options.group("Output");
    options.add("sentence", sentence, "Score each line by itself");
    options.add("json", json, "Print JSON");
    options.add("score-only", score_only, "Print the number alone, and what --confidence or --paired say of it")
        .short_name('b');
    options.add("width", width, "Decimals of the score").short_name('w').range(0, 17);
  }

  OptionFiles files() const { return OptionFiles(*declared); }
  // files: what else is read.
  void validate(OptionFiles files) const {
    require(!sentence || (hypotheses.size() == 1 && !confidence && !paired),
            "--sentence scores one system, without --confidence or --paired");
    require(!paired || hypotheses.size() > 1, "--paired needs at least two --hypothesis files, the baseline first");
    require(confidence || paired || (bootstrap_trials == kTrials && seed == kSeed),
            "--bootstrap-trials and --seed work with --confidence or --paired");
    require(!json || !score_only, "--json and --score-only exclude each other");
    files.reads("hypothesis", hypotheses).reads("reference", references);
  }
};

using Lines = std::vector<std::string>;

// The lines without white space at their ends, as sacreBLEU takes them.
Lines read_text(const std::string& path) {
  TextReader reader(path, OnNul::kReplace);
  Lines lines;
  for (std::string line; reader.next(line);) lines.emplace_back(metrics::strip_right(line));
  require(!lines.empty(), "{} is empty: there is nothing to score", reader.name());
  return lines;
}

std::vector<Lines> read_references(const EvalOptions& options) {
  std::vector<Lines> references;
  for (const auto& path : options.references) references.push_back(read_text(path));
  return references;
}

Lines read_hypothesis(const std::string& path, const EvalOptions& options, const std::vector<Lines>& references) {
  auto lines = read_text(path);
  for (size_t r = 0; r < references.size(); ++r)
    require(references[r].size() == lines.size(),
            "{} has {} lines, but its reference {} has {}; line by line they must belong together", input_name(path),
            lines.size(), input_name(options.references[r]), references[r].size());
  return lines;
}

// What a command says of a system's lines, read from `path`, before they are scored.
using Inspect = std::function<void(const std::string& path, const Lines& lines, std::span<const Lines> references)>;

void warn_if_tokenized(const std::string& path, const Lines& lines, std::span<const Lines>) {
  constexpr int64_t kMany = 100;  // sacreBLEU's bound
  const auto count = std::ranges::count_if(lines, [](const std::string& line) { return line.ends_with(" ."); });
  if (count >= kMany)
    log::warn("{}: {} lines end in a tokenized period; scores of tokenized text cannot be compared: detokenize it",
              input_name(path), count);
}

void evaluate(const Metric& metric, const EvalOptions& options, const Inspect& inspect = {}) {
  options.validate(options.files());
  const auto references = read_references(options);
  std::vector<Score> scores;
  std::vector<double> baseline;
  for (const auto& path : options.hypotheses) {
    const auto lines = read_hypothesis(path, options, references);
    if (inspect) inspect(path, lines, references);
    const CorpusStatistics statistics(metric, lines, references);
    if (options.sentence) {
      for (size_t line = 0; line < statistics.size(); ++line) scores.push_back(statistics.sentence_score(line));
      continue;
    }
    scores.push_back(statistics.score());
    if (!options.confidence && !options.paired) continue;
    auto trials = statistics.bootstrap(options.bootstrap_trials, options.seed);
    scores.back().signature = statistics.signature(options.bootstrap_trials, options.seed);
    scores.back().interval = confidence_interval(trials);
    if (options.paired && !baseline.empty())
      scores.back().p_value = paired_p_value(baseline, trials, scores[0].value, scores.back().value);
    if (baseline.empty()) baseline = std::move(trials);
  }

  const bool several = options.hypotheses.size() > 1, list = several || options.sentence;
  std::vector<std::string> names;
  if (several) std::ranges::transform(options.hypotheses, std::back_inserter(names), input_name);
  std::string text;
  if (options.json)
    text = list ? json_report(scores, names, options.width) : json_report(scores[0], options.width);
  else if (options.paired && !options.score_only)
    text = paired_report(scores, names, options.width);
  else
    for (size_t i = 0; i < scores.size(); ++i)
      text += fmt::format("{}{}{}\n", several ? names[i] : "", several ? ": " : "",
                          options.score_only ? scores[i].number(options.width) : scores[i].text(options.width));
  print("{}", text);
}

struct BracketOptions {
  std::string params;
  bool evalb = false;

  void declare(Options& options) {
    options.group(
        "Brackets: a sentence's tree a line, in Penn's brackets; XX is punctuation where the reference has some");
    options.add("params", params, "EVALB's parameter file; COLLINS.prm where not given");
    options.add("evalb", evalb, "Print what EVALB prints: a line for each sentence and a summary");
  }
};

// Whether the outer bracket has no label, as in treebanks: EVALB counts it, and parsers write none.
bool is_bare(const std::string& tree) {
  const auto next = tree.find_first_not_of(" \t", 1);
  return tree.starts_with("(") && next != std::string::npos && tree[next] == '(';
}

// Names the sentences that count as errors, and stops where EVALB does.
std::vector<SentenceBrackets> compare_sentences(const std::string& path, const Lines& lines,
                                                const std::string& reference_path, const Lines& reference,
                                                const BracketParameters& parameters) {
  std::vector<SentenceBrackets> sentences;
  int errors = 0;
  int64_t bare = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    sentences.push_back(compare_brackets(reference[i], lines[i], parameters));
    bare += is_bare(reference[i]) && !lines[i].empty() && !is_bare(lines[i]) ? 1 : 0;
    if (sentences.back().status != SentenceBrackets::kError) continue;
    log::warn("{}:{} against {}:{}: not scored: {}", input_name(path), i + 1, input_name(reference_path), i + 1,
              sentences.back().error);
    ++errors;
    require(errors - 1 <= parameters.max_errors,
            "{}: {} sentences cannot be scored; are these trees of the reference's sentences? MAX_ERROR in --params "
            "allows for more",
            input_name(path), errors);
  }
  if (bare > 0)
    log::warn(
        "{}: {} of {} trees have an outer bracket without a label, which counts (as in EVALB) and is missing in {}: "
        "nmt-vocab linearise --tags and nmt-vocab delinearise take it away",
        input_name(reference_path), bare, lines.size(), input_name(path));
  return sentences;
}

void evaluate_brackets(const BracketOptions& options, const EvalOptions& common) {
  require(common.references.size() == 1, "brackets takes one --reference, not {}", common.references.size());
  common.validate(common.files().reads("params", options.params));
  const auto parameters = options.params.empty() ? BracketParameters() : BracketParameters::read(options.params);
  if (options.evalb) {
    require(common.hypotheses.size() == 1 && !common.sentence && !common.confidence && !common.json &&
                !common.score_only && common.width == EvalOptions().width,
            "--evalb reports on one system, without --sentence, --confidence, --json, --score-only or --width");
    const auto references = read_references(common);
    const auto& path = common.hypotheses[0];
    const auto lines = read_hypothesis(path, common, references);
    print("{}", evalb_report(compare_sentences(path, lines, common.references[0], references[0], parameters),
                             parameters.cutoff));
    return;
  }
  evaluate(Brackets(parameters), common,
           [&](const std::string& path, const Lines& lines, std::span<const Lines> references) {
             compare_sentences(path, lines, common.references[0], references[0], parameters);
           });
}

void evaluate_alignment(const EvalOptions& common) {
  require(common.references.size() == 1, "alignment takes one --reference, not {}", common.references.size());
  const auto parse = [](const std::string& path, const Lines& lines, bool gold) {
    for (size_t i = 0; i < lines.size(); ++i)
      WordAlignment::parse(lines[i], gold, fmt::format("{}:{}:", input_name(path), i + 1));
  };
  evaluate(AlignmentErrorRate(), common,
           [&](const std::string& path, const Lines& lines, std::span<const Lines> references) {
             parse(common.references[0], references[0], true);
             parse(path, lines, false);
           });
}

// A subcommand: its metric's options and those of every metric.
template <class MetricOptions>
struct Command {
  MetricOptions metric;
  EvalOptions common;

  template <class Run>
  void declare(App& app, const std::string& name, const std::string& help, Run run,
               const std::string& reference = "Reference translations, one file each") {
    App& command = app.command(name, help);
    common.declare(command.options(), reference);
    metric.declare(command.options());
    command.run([this, run] { run(metric, common); });
  }
};

int run(int argc, char** argv) {
  App app("nmt-eval",
          "Scores translations: the figures of sacreBLEU 2; trees: the figures of EVALB; word alignments: AER.");
  app.footer(
      "Examples:\n"
      "  nmt-eval bleu --reference test.de < test.out.de\n"
      "  nmt-eval bleu --tokenize moses --language de --compound-split --reference test.de < test.out.de\n"
      "  nmt-eval chrf --word-order 2 --reference test.de --hypothesis a.de b.de --paired\n"
      "  nmt-eval brackets --reference dev.trees < dev.out.trees\n"
      "  nmt-eval alignment --reference gold.align < test.align\n"
      "Intervals and p-values come from nmt's own random numbers: they differ from sacreBLEU's within the resampling "
      "error.");
  Command<BleuOptions> bleu;
  Command<ChrfOptions> chrf;
  Command<TerOptions> ter;
  bleu.declare(app, "bleu", "BLEU, in percent", [](BleuOptions options, const EvalOptions& common) {
    options.effective_order |= common.sentence;
    evaluate(Bleu(options), common, options.splits_words() ? warn_if_tokenized : Inspect());
  });
  chrf.declare(app, "chrf", "Character n-gram F score, in percent",
               [](const ChrfOptions& options, const EvalOptions& common) { evaluate(Chrf(options), common); });
  ter.declare(app, "ter", "Translation edit rate, in percent",
              [](const TerOptions& options, const EvalOptions& common) { evaluate(Ter(options), common); });
  Command<BracketOptions> brackets;
  brackets.declare(app, "brackets", "Labelled F1 of constituency trees, in percent: the figures of EVALB",
                   evaluate_brackets, "The gold trees, one file");
  EvalOptions alignment;
  App& command = app.command("alignment", "Alignment error rate of links between words, in percent; less is better");
  alignment.declare(command.options(), "The gold links, one file; of words from 0 on, 1-2 is sure and 1?2 possible");
  command.run([&] { evaluate_alignment(alignment); });
  return app.main(argc, argv);
}

}  // namespace
}  // namespace nmt

int main(int argc, char** argv) { return nmt::run(argc, argv); }
