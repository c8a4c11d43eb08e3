#include <atomic>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/line_reader.h"
#include "base/log.h"
#include "base/progress.h"
#include "config/app.h"
#include "config/computing.h"
#include "config/option_files.h"
#include "decode/attention_output.h"
#include "decode/line_translator.h"
#include "decode/models.h"
#include "decode/tree_grammar.h"
#include "text/line_queue.h"
#include "text/linear_tree.h"
#include "text/split_words.h"
#include "text/text_reader.h"

namespace nmt {
namespace {

struct DecodeOptions {
  std::string model, shortlist, input = "-", output = "-", score_targets, precision = "auto", trees = "brackets";
  std::vector<std::string> ensemble, vocabs;
  std::vector<double> weights;
  SearchOptions search;
  AttentionOptions attention;
  LineLimits batch;
  int threads = 0;
  std::vector<std::string> devices = {"auto"};
  bool forbid_unk = false, free_trees = false, scores = false, quiet = false, profile = false;

  void declare(Options& o) {
    o.group("Model");
    o.add("model", model, "The model").short_name('m');
    o.add("ensemble", ensemble, "Several models of one vocabulary, whose log-probabilities are averaged");
    o.add("weights", weights, "With --ensemble: one positive number for each model");
    o.add("vocabs", vocabs, "Vocabularies (source and target, or one for both) instead of those in the model");
    o.add("shortlist", shortlist,
          "Look only for translations that this file of `nmt-vocab shortlist` names: faster; probabilities are among "
          "those");
    o.group("Input and output");
    o.add("input", input, "Text to translate, a sentence a line; plain, .gz or .zst").short_name('i');
    o.add("output", output,
          "File to write, when all is translated; what is interrupted leaves its lines in FILE.part.N")
        .short_name('o');
    o.add("n-best", search.n_best,
          "Write the best hypotheses, as many as the beam has, fewer where fewer ended: LINE, from 0 on, ||| "
          "TRANSLATION ||| F0= LOG-P ||| SCORE");
    o.add("scores", scores, "Write LOG-P and SCORE before each translation, with tabs");
    o.add(
        "score-targets", score_targets,
        "Translate nothing: write LOG-P and SCORE (with a tab) of the translations in this file, line by line; the log "
        "ends with their perplexity (of one model)");
    search.declare(o);
    o.add("forbid-unk", forbid_unk, "Never choose the unknown token; the probabilities of the others stay as they are");
    o.add("trees", trees, "What a parser (nmt-train --target-trees) writes: trees in Penn's brackets, or as tokens")
        .choices({"brackets", "tokens"})
        .automatic();
    o.add("free-trees", free_trees, "Let a parser write any tokens, which need be no tree of the line's words")
        .automatic();
    attention.declare(o);
    batch.declare(o);
    o.group("Computing");
    declare_devices(o, devices);
    declare_threads(o, threads);
    o.add("precision", precision,
          "Of matrix products and activations; auto: bf16 on GPUs, f32 on the CPU; tf32, f16: on GPUs; int8: products "
          "of bytes on the CPU")
        .choices({"auto", "f32", "tf32", "bf16", "f16", "int8"});
    o.add("profile", profile, "Write where the time went to standard error at the end: by phase, by op");
    o.add("quiet", quiet, "Log only warnings and errors");
  }

  // One of --model and --ensemble, where a configuration gives the other. Throws UserError for weights of one that
  // counts less than what gives the ensemble: they may be other models'.
  void choose_models(Options& declared) {
    const Option &one = *declared.find("model"), &several = *declared.find("ensemble"),
                 &of_several = *declared.find("weights");
    if (one.given() && several.given()) {
      if (one.source() > several.source()) model.clear();
      if (one.source() < several.source()) {
        ensemble.clear();
        if (of_several.source() > one.source()) weights.clear();
      }
    }
    require(!model.empty() || ensemble.empty() || weights.empty() || of_several.source() <= several.source(),
            "the configuration's weights may be those of other models than this --ensemble's: give --weights with it");
  }

  // Throws UserError for options that contradict each other.
  void validate(OptionFiles files) const {
    require(!model.empty() || !ensemble.empty(), "no model: give --model FILE, or --ensemble FILE FILE ...");
    require(model.empty() || ensemble.empty(), "give either --model or --ensemble, not both");
    require(weights.empty() || !ensemble.empty(), "--weights are for an --ensemble");
    require(weights.empty() || weights.size() == ensemble.size(),
            "--weights has {} numbers for {} models of --ensemble", weights.size(), ensemble.size());
    for (const double weight : weights)
      require(weight > 0 && weight < 1e30, "--weights: {} is not a positive number below 1e30", weight);
    require(shortlist.empty() || ensemble.empty(), "--shortlist is for one model, not for an --ensemble");
    require(shortlist.empty() || score_targets.empty(), "--score-targets uses no --shortlist: leave it out");
    require(devices.size() == 1 || score_targets.empty(), "--score-targets uses one GPU: give one number of --devices");
    require(score_targets.empty() || !(search.n_best || scores),
            "--score-targets excludes --n-best and --scores: it writes scores alone");
    require(score_targets.empty() ||
                (search.beam == SearchOptions().beam && search.max_extra == SearchOptions().max_extra &&
                 search.shortest == SearchOptions().shortest && search.sampling == 0 && !forbid_unk),
            "--score-targets searches nothing: leave out --beam-size, --max-length-extra, --min-length, --sampling and "
            "--forbid-unk");
    search.validate();
    require(!(search.n_best && scores), "--n-best has scores already; leave out --scores");
    require(!attention.wanted() || ensemble.empty(),
            "--attention and --alignment show the heads of one model: give --model FILE, not --ensemble");
    attention.validate();
    files.opens("model", model)
        .opens("ensemble", ensemble)
        .opens("vocabs", vocabs)
        .opens("shortlist", shortlist)
        .reads("input", input)
        .reads("score-targets", score_targets)
        .writes("output", output)
        .writes("attention", attention.attention)
        .writes("alignment", attention.alignment);
  }

  // Of parsers, or of translation models of this name: what is not given (a parser's search has section 6.3's numbers),
  // and what then does nothing.
  void settle(Options& declared, bool parsers, const std::string& models) {
    const auto given = [&](const char* name) { return declared.find(name)->given(); };
    const bool beam_given = given("beam-size");
    if (parsers) search.settle_for_parser(declared);
    if (search.sampling > 0 && !beam_given) search.beam = 1;
    require(!parsers || shortlist.empty(), "--shortlist is for translation; {} is a parser, whose tokens are few",
            models);
    require(!parsers || free_trees || !forbid_unk,
            "--forbid-unk: the trees of a parser, {}, have no unknown token; leave it out", models);
    require(!free_trees || !given("trees"), "--free-trees writes tokens: leave out --trees");
    require(score_targets.empty() || !given("trees"),
            "--score-targets takes a parser's tokens and writes no trees: leave out --trees");
    for (const char* name : {"trees", "free-trees"})
      require(parsers || !given(name), "--{} is for parsers; {} was not trained with --target-trees", name, models);
  }
};

// A tree over the words of its line; those that were cut from it join the last constituent.
std::string tree_text(const std::string& tokens, const std::string& line, bool brackets) {
  if (!brackets && tree_fault(tokens, line).empty()) return tokens;
  const auto tree = delinearise(tokens, split_words(line));
  if (!tree) return "";
  return brackets ? tree->text() : linearise(*tree);
}

// What is written of a line.
std::string line_text(const DecodeOptions& options, int64_t number, const std::string& line,
                      std::span<const Translation> translations) {
  const auto text_of = [&](const Translation& t) {
    return options.search.trees != nullptr ? tree_text(t.text, line, options.trees == "brackets") : t.text;
  };
  const Translation& best = translations.front();
  if (!options.score_targets.empty()) return fmt::format("{:.6f}\t{:.6f}\n", best.log_probability, best.score);
  if (options.scores) return fmt::format("{:.6f}\t{:.6f}\t{}\n", best.log_probability, best.score, text_of(best));
  if (!options.search.n_best) return text_of(best) + "\n";
  std::string text;
  for (const Translation& t : translations)
    text += fmt::format("{} ||| {} ||| F0= {:.6f} ||| {:.6f}\n", number, text_of(t), t.log_probability, t.score);
  return text;
}

// For the bar; 0 for what can be read only once, or before it is known.
int64_t count_lines(const std::string& path, const std::stop_token& stop) {
  std::error_code failed;
  if (path == "-" || !std::filesystem::is_regular_file(path, failed)) return 0;
  int64_t lines = 0;
  try {
    LineReader reader(path);
    for (std::string line; reader.next(line); ++lines)
      if (stop.stop_requested()) return 0;
  } catch (const std::exception&) {  // is said where it is read in earnest, behind what comes before it
  }
  return lines;
}

// The next translations to score; of `trees`, those of these lines' words.
std::vector<std::string> next_targets(TextReader& reader, std::span<const std::string> lines, const std::string& input,
                                      bool trees) {
  std::vector<std::string> targets(lines.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    require(reader.next(targets[i]), "{} has {} lines, fewer than {}; line by line they must belong together",
            reader.name(), reader.line_number(), input);
    const auto fault = trees ? tree_fault(targets[i], lines[i]) : "";
    require(fault.empty(), "{}:{}:{}", reader.name(), reader.line_number(), fault);
  }
  return targets;
}

void report(const LineTranslator::Totals& totals, const char* done, const std::string& input, double seconds,
            bool of_ensemble) {
  if (totals.cut > LineTranslator::kNamed) log::warn("{} cuts in all", totals.cut);
  warn_of_unknown(input, totals.unknown, totals.source_tokens);
  log::info("{} {} lines: {} source and {} target tokens without </s>, {:.2f}s, {:.2f} lines/s, {:.2f} words/s", done,
            totals.lines, totals.source_tokens, totals.target_tokens, seconds,
            static_cast<double>(totals.lines) / seconds, static_cast<double>(totals.target_tokens) / seconds);
  if (totals.scored_tokens == 0 || of_ensemble) return;  // a mean of log-probabilities is none
  const double entropy = -totals.log_probability / static_cast<double>(totals.scored_tokens);
  log::info("cross-entropy {:.6g}, perplexity {:.6g} of {} tokens with </s>", entropy, std::exp(entropy),
            totals.scored_tokens);
}

void decode(DecodeOptions& options, Options& declared) {
  options.validate(OptionFiles(declared));
  log::set_quiet(options.quiet);
  Profile profile(options.profile);  // from here on
  const std::string input = input_name(options.input);
  AtomicFile output(options.output, AtomicFile::Unfinished::kKept);
  std::unique_ptr<TextReader> targets;
  if (!options.score_targets.empty()) targets = std::make_unique<TextReader>(options.score_targets, OnNul::kReplace);

  const bool int8 = options.precision == "int8";  // computed on the CPU only
  const std::vector<std::string> automatic = {"auto"}, cpu = {"cpu"};
  const auto backends = backends_of(int8 && options.devices == automatic ? cpu : options.devices);
  const bool on_host = backends.front()->on_host();
  LineQueue queue(options.input, static_cast<size_t>(options.batch.lines_ahead(on_host)));  // it begins to read
  Models models(options.ensemble.empty() ? std::vector{options.model} : options.ensemble, options.weights);
  const std::vector<Scorer> scorers = models.load(backends.front());
  const Vocabularies vocabularies = models.vocabularies(options.vocabs);
  options.settle(declared, models.are_parsers(), models.name());
  std::optional<TreeGrammar> trees;
  if (models.are_parsers()) trees.emplace(*vocabularies.target, vocabularies.shared(), vocabularies.target_name);
  if (trees && !options.free_trees) options.search.trees = &*trees;
  if (options.forbid_unk) options.search.forbidden = vocabularies.target->unk_id();
  std::optional<Shortlist> shortlist;
  if (!options.shortlist.empty())
    shortlist = Shortlist::load(options.shortlist, *vocabularies.source, *vocabularies.target);

  const DType compute = int8 ? DType::kBF16 : compute_type(options.precision, backends, false);
  Runtime runtime(threads_or_all(options.threads), compute, int8, backends.front());
  log::info("{}", runtime.text(names_of(backends)));
  runtime.profile = std::move(profile);
  runtime.weights().on_packed = [&](std::span<const float> values) { models.release(values); };
  std::vector<Decoder::FurtherDevice> further;
  for (size_t i = 1; i < backends.size(); ++i) further.push_back({models.load(backends[i]), backends[i]});
  Decoder decoder(scorers, runtime, options.search, shortlist ? &*shortlist : nullptr, std::move(further));
  LineTranslator translator(decoder, *vocabularies.source, *vocabularies.target, options.batch, input);
  std::optional<AttentionOutput> attention;
  if (options.attention.wanted())
    attention.emplace(options.attention, scorers[0], runtime, *vocabularies.source, *vocabularies.target);

  std::vector<IdPair> pairs;                                 // whose attention is not written yet
  Progress progress(options.quiet || output.is_terminal());  // its lines say how far it is
  std::atomic<int64_t> expected = 0;
  std::jthread counting;  // a long input is not read to its end before it is translated
  if (progress.shown())
    counting = std::jthread([&](const std::stop_token& stop) { expected = count_lines(options.input, stop); });
  const double start = seconds_now();
  const auto sink = [&](int64_t number, const std::string& line, std::span<const Translation> translations) {
    output.write(line_text(options, number, line, translations));
    output.send();
    if (attention) pairs.push_back(translations.front().ids);
    const double done = static_cast<double>(number + 1), seconds = seconds_now() - start;
    const auto all = static_cast<double>(expected);
    progress.show(all == 0 ? -1 : done / all, seconds,
                  fmt::format("{} lines, {:.1f} lines/s", number + 1, done / seconds));
  };
  while (true) {
    runtime.profile.enter("input");
    const std::vector<std::string> lines = queue.take();
    models.require_unchanged();  // by those before
    runtime.profile.enter("text");
    if (lines.empty()) break;
    if (targets)
      translator.score(lines, next_targets(*targets, lines, input, options.search.trees != nullptr), targets->name(),
                       sink);
    else
      translator.translate(lines, sink);
    if (!attention) continue;
    runtime.profile.enter("attention");
    advise_on_memory("a smaller --max-length needs less", [&] { attention->write(pairs); });
    pairs.clear();
  }
  if (std::string extra; targets && targets->next(extra))
    user_error("{} has more lines than {}; line by line they must belong together", targets->name(), input);
  output.commit();
  if (attention) attention->commit();
  progress.clear();

  if (options.profile) std::fputs(runtime.profile_table().c_str(), stderr);
  report(translator.totals(), targets ? "scored" : "translated", input, seconds_now() - start,
         !options.ensemble.empty());
}

}  // namespace
}  // namespace nmt

int main(int argc, char** argv) {
  nmt::App app("nmt-decode", "Translates lines of text, or scores given translations");
  nmt::DecodeOptions options;
  options.declare(app.options());
  app.footer(
      "Lines are translated as soon as they come, and written in their order.\nExamples:\n"
      "  nmt-decode --model model.safetensors < test.en > test.out.de\n"
      "  nmt-decode --model model.safetensors --beam-size 12 --n-best --input test.en.gz --output test.nbest\n"
      "  nmt-decode --ensemble a.safetensors b.safetensors --weights 2 1 < test.en > test.out.de\n"
      "  nmt-decode --model model.safetensors --input test.en --score-targets test.de > test.scores");
  app.prepare([&] { options.choose_models(app.options()); });
  app.run([&] {
    nmt::advise_on_memory(
        "smaller --mini-batch, --mini-batch-words and --maxi-batch need less, and on a CPU fewer --cpu-threads",
        [&] { nmt::decode(options, app.options()); });
  });
  return app.main(argc, argv);
}
