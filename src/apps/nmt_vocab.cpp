#include <algorithm>
#include <deque>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/parse_number.h"
#include "base/thread_pool.h"
#include "config/app.h"
#include "config/computing.h"
#include "config/option_files.h"
#include "decode/shortlist_trainer.h"
#include "io/model_file.h"
#include "text/corpus.h"
#include "text/line_queue.h"
#include "text/linear_tree.h"
#include "text/split_words.h"
#include "text/text_reader.h"
#include "text/vocab_sentencepiece_trainer.h"
#include "text/vocab_trainer.h"
#include "text/vocab_types.h"
#include "text/vocab_words_merges.h"

namespace {

using namespace nmt;

constexpr const char* kExamples =
    "Examples:\n"
    "  nmt-vocab --type bpe --size 37000 --train-sets train.en train.de --output vocab.spm   one shared vocabulary\n"
    "  nmt-vocab --type unigram --size 16000 --train-sets train.de.gz --output vocab.de.spm  one of its own\n"
    "  nmt-vocab --type words --merges code --train-sets train.en train.de --output vocab.words\n"
    "  nmt-vocab encode --vocab vocab.spm < test.en | nmt-vocab decode --vocab vocab.spm\n"
    "  nmt-vocab inspect --vocab vocab.spm --text-sets test.en\n"
    "  nmt-vocab extract --model model.safetensors --output vocab.spm\n"
    "  nmt-vocab shortlist --vocabs vocab.spm --train-sets train.en train.de --output shortlist.safetensors\n"
    "  nmt-vocab linearise --trees train.trees --words train.words --output train.linear   text to learn parsing from\n"
    "  nmt-vocab delinearise --words dev.words --input dev.out.linear --repair --output dev.out.trees";

struct Streams {
  std::string vocab, input = "-", output = "-";
  int threads = 0;

  void declare(Options& options) {
    options.add("vocab", vocab, "The vocabulary").required();
    options.add("input", input, "File to read (plain, .gz, .zst), - for standard input").short_name('i');
    options.add("output", output, "File to write, - for standard output").short_name('o');
    declare_threads(options, threads);
  }

  std::string where(int64_t line) const { return fmt::format("{}:{}", input_name(input), line); }

  // The vocabulary, where the files are not one another.
  std::shared_ptr<const Vocab> load_vocab(OptionFiles files) const {
    files.opens("vocab", vocab).reads("input", input).writes("output", output);
    return Vocab::load(vocab);
  }

  // Writes convert(line, number) for every line, in order.
  template <class Convert>
  void run(const Convert& convert) const {
    constexpr size_t kBlock = 4096;
    LineQueue queue(input, kBlock);
    AtomicFile file(output);
    ThreadPool pool(threads_or_all(threads));
    int64_t first = 1;
    for (auto lines = queue.take(); !lines.empty(); lines = queue.take()) {
      pool.parallel_for(static_cast<int64_t>(lines.size()), 64, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          std::string& line = lines[static_cast<size_t>(i)];
          line = convert(line, first + i);
          line.push_back('\n');
        }
      });
      for (const auto& line : lines) file.write(line);
      file.send();
      first += std::ssize(lines);
    }
    file.commit();
  }
};

int32_t parse_id(std::string_view text, const std::string& where) {
  const auto id = parse_number<int32_t>(text);
  require(id.has_value(), "{}: '{}' is not a piece id", where, text);
  return *id;
}

struct LearnOptions : VocabTraining {
  std::string output;
  int threads = 0;

  void declare(Options& options) {
    VocabTraining::declare(options);
    options.group("Output");
    options.add("output", output, "The vocabulary's file, - for standard output").short_name('o').required();
    declare_threads(
        options, threads,
        fmt::format(
            "Threads that count how the vocabulary fits its text (SentencePiece trains with {}, whatever is given)",
            kSentencePieceThreads));
  }
};

void learn(const LearnOptions& settings, OptionFiles files) {
  files.reads("merges", settings.merges).reads("train-sets", settings.train_sets).writes("output", settings.output);
  AtomicFile file(settings.output);  // first, so that training is not for nothing
  const auto trained = train_vocab(settings);
  file.write(trained.vocab->bytes());
  file.commit();
  log::info("{}: {}, {} pieces, trained on {} lines", output_name(settings.output), trained.vocab->type(),
            trained.vocab->size(), trained.lines);
  const VocabFit fit = measure_fit(*trained.vocab, trained.words, threads_or_all(settings.threads));
  log::info("{}", fit.text());
  if (fit.unknown > 0 && vocab_type(settings.type).takes("character-coverage") && settings.character_coverage < 1)
    log::warn(
        "rare characters of the text are unknown, and are lost in translation: --character-coverage 1 keeps them");
}

struct EncodeOptions : Streams {
  bool ids = false;

  void declare(Options& options) {
    Streams::declare(options);
    options.add("ids", ids, "Write ids instead of pieces");
  }
};

// Whole lines, however long: this must lose nothing.
void encode(const EncodeOptions& options, OptionFiles files) {
  const auto vocab = options.load_vocab(std::move(files));
  options.run([&](const std::string& line, int64_t) {
    std::string text;
    for (const int32_t id : vocab->encode(line)) {
      if (!text.empty()) text.push_back(' ');
      text += options.ids ? fmt::format("{}", id) : vocab->piece(id);
    }
    return text;
  });
}

struct DecodeOptions : Streams {
  bool ids = false, join_bpe = false;

  void declare(Options& options) {
    Streams::declare(options);
    options.add("ids", ids, "Read ids instead of pieces");
    options.add("join-bpe", join_bpe, "Join `@@ ` whatever the vocabulary says");
  }
};

void decode(const DecodeOptions& options, OptionFiles files) {
  const auto vocab = options.load_vocab(std::move(files));
  const bool ids = options.ids;
  options.run([&](const std::string& line, int64_t number) {
    std::vector<int32_t> pieces;
    for (const std::string_view token : split_words(line, ids ? kAsciiSpaces : " ")) {  // pieces may hold other spaces
      const int32_t id = ids ? parse_id(token, options.where(number)) : vocab->find(token);
      require(id >= 0 && id < vocab->size(), "{}: '{}' is not {} of {}", options.where(number), token,
              ids ? "a piece id" : "a piece", options.vocab);
      pieces.push_back(id);
    }
    std::string text = vocab->decode(pieces);
    return options.join_bpe ? join_bpe(text) : text;
  });
}

struct InspectOptions {
  std::string vocab, output = "-";
  std::vector<std::string> text_sets;
  bool pieces = false;
  int threads = 0;

  void declare(Options& options) {
    options.add("vocab", vocab, "The vocabulary").required();
    options.add("output", output, "File to write, - for standard output").short_name('o');
    declare_threads(options, threads);
    options.add("text-sets", text_sets, "Texts: how many of their words are covered, by how many pieces each");
    options.add("pieces", pieces, "List all pieces with their ids");
  }
};

void inspect(const InspectOptions& options, OptionFiles files) {
  files.opens("vocab", options.vocab).reads("text-sets", options.text_sets).writes("output", options.output);
  const auto vocab = Vocab::load(options.vocab);
  AtomicFile file(options.output);
  std::string text =
      fmt::format("type: {}\nsize: {}\nend of sentence: {} ({})\nunknown: {} ({})\n", vocab->type(), vocab->size(),
                  vocab->piece(vocab->eos_id()), vocab->eos_id(), vocab->piece(vocab->unk_id()), vocab->unk_id());
  for (const auto& [name, value] : vocab->properties()) text += fmt::format("{}: {}\n", name, value);
  for (const auto& path : options.text_sets) {
    WordCounts words;
    TextReader reader(path, OnNul::kReplace);
    for (std::string line; reader.next(line);) count_words(vocab->unsplit(line), words);
    text += fmt::format("{}: {}\n", reader.name(), measure_fit(*vocab, words, threads_or_all(options.threads)).text());
  }
  for (int id = 0; options.pieces && id < vocab->size(); ++id) text += fmt::format("{}\t{}\n", id, vocab->piece(id));
  file.write(text);
  file.commit();
}

struct ExtractOptions {
  std::string model;
  std::vector<std::string> output;

  void declare(Options& options) {
    options.add("model", model, "The model's file, or a checkpoint").short_name('m').required();
    options.add("output", output, "The vocabulary's file, or two: the source's and the target's")
        .short_name('o')
        .required();
  }
};

void extract(const ExtractOptions& options, OptionFiles files) {
  files.opens("model", options.model);
  for (const auto& path : options.output) files.writes("output", path);
  const ModelFile model = ModelFile::open(options.model);
  require(model.has_vocabulary(), "{} holds no vocabulary", options.model);
  std::vector<std::string_view> vocabularies = {model.source_vocabulary()};
  if (!model.shared_vocabulary()) vocabularies.push_back(model.target_vocabulary());
  require(options.output.size() == vocabularies.size(), "{} holds {}: --output takes as many files", options.model,
          model.shared_vocabulary() ? "one vocabulary, of both sides" : "two vocabularies, of source and target");
  std::deque<AtomicFile> outputs;
  for (size_t i = 0; i < vocabularies.size(); ++i) outputs.emplace_back(options.output[i]).write(vocabularies[i]);
  for (AtomicFile& file : outputs) file.commit();
}

struct ShortlistOptions {
  std::vector<std::string> vocabs, train_sets, valid_sets;
  std::string output, tempdir;
  int64_t max_length = DataOptions().max_length;
  ShortlistTraining training;
  int threads = 0;

  void declare(Options& options) {
    options.add("vocabs", vocabs, "Vocabulary of both sides, or of source and target").required();
    options
        .add("train-sets", train_sets, "Text to learn from: SOURCE TARGET, or several such pairs; plain, .gz or .zst")
        .required();
    options.add("valid-sets", valid_sets, "Text to say the coverage of: SOURCE TARGET, or several such pairs");
    options.add("output", output, "The shortlist's file").short_name('o').required();
    training.declare(options);
    options.add("max-length", max_length, "Pairs with more tokens on a side are skipped")
        .range(1, SentenceStore::kMaxTokens);
    options.add("tempdir", tempdir, "Folder for text that is larger than memory; $TMPDIR or /tmp where not given");
    declare_threads(options, threads);
  }

  DataOptions data(const std::vector<std::string>& paths) const {
    DataOptions data{.train_sets = paths, .max_length = max_length, .tempdir = tempdir};
    data.mini_batch_words = SentenceStore::kMaxTokens + 1;  // no batches: none is too small
    return data;
  }
};

void make_shortlist(const ShortlistOptions& options, OptionFiles files) {
  files.opens("vocabs", options.vocabs)
      .reads("train-sets", options.train_sets)
      .reads("valid-sets", options.valid_sets)
      .writes("output", options.output);
  SafetensorsWriter file(options.output);  // first, so that training is not for nothing
  const auto [source, target] = Vocab::load_sides(options.vocabs);
  const int threads = threads_or_all(options.threads);
  std::optional<Corpus> valid;  // before training, too, as its files may be missing
  if (!options.valid_sets.empty()) valid.emplace(options.data(options.valid_sets), source, target, threads);
  const Corpus corpus(options.data(options.train_sets), source, target, threads);
  ThreadPool pool(threads);
  const auto shortlist = train_shortlist(corpus.store(), *source, *target, options.training, pool);
  shortlist.save(file);

  int64_t pieces = 0, targets = 0;
  for (int32_t id = 0; id < source->size(); ++id) {
    const auto likely = shortlist.likely(id);
    pieces += likely.empty() ? 0 : 1;
    targets += std::ssize(likely);
  }
  log::info("{}: {:.1f} targets for each of {} source pieces and {} for all, learned from {} of {} pairs",
            output_name(options.output),
            static_cast<double>(targets) / static_cast<double>(std::max<int64_t>(pieces, 1)), pieces,
            shortlist.frequent().size(), corpus.counts().kept, corpus.counts().read);
  log::info("training text: {}", measure_fit(shortlist, corpus.store(), pool).text());
  if (valid) log::info("validation text: {}", measure_fit(shortlist, valid->store(), pool).text());
}

struct LineariseOptions {
  std::string trees = "-", words, output = "-";
  bool tags = false;

  void declare(Options& options) {
    options.add("trees", trees, "Trees in Penn's brackets (plain, .gz, .zst), - for standard input");
    options.add("words", words, "File to write the sentences to, one a line").required();
    options.add("output", output, "File to write the trees' tokens to, one tree a line, - for standard output")
        .short_name('o');
    options.add("tags", tags, "Keep part-of-speech tags; without, all are XX");
  }
};

void linearise_trees(const LineariseOptions& options, OptionFiles files) {
  files.reads("trees", options.trees).writes("words", options.words).writes("output", options.output);
  TreeReader reader(options.trees);
  AtomicFile words(options.words), output(options.output);
  int64_t trees = 0, empty = 0;
  for (Tree tree; reader.next(tree); ++trees) {
    const auto normal = normalise(tree, options.tags);
    if (!normal) ++empty;
    words.write(normal ? sentence_of(*normal) : "");
    words.write("\n");
    output.write(normal ? linearise(*normal) : "");
    output.write("\n");
  }
  words.commit();
  output.commit();
  if (empty > 0) log::warn("{} of {} trees have no words: their lines are empty", empty, trees);
}

struct DelineariseOptions {
  std::string words, input = "-", output = "-";
  bool repair = false;

  void declare(Options& options) {
    options.add("words", words, "The sentences, one a line (plain, .gz, .zst)").required();
    options.add("input", input, "Their trees' tokens, one tree a line, - for standard input").short_name('i');
    options.add("output", output, "File to write the trees to, in Penn's brackets, - for standard output")
        .short_name('o');
    options.add("repair", repair, "Make a tree of malformed lines, too, in place of stopping there");
  }
};

void delinearise_trees(const DelineariseOptions& options, OptionFiles files) {
  files.reads("words", options.words).reads("input", options.input).writes("output", options.output);
  TextReader words(options.words, OnNul::kReplace), input(options.input, OnNul::kReplace);
  AtomicFile output(options.output);
  int64_t malformed = 0;
  for (std::string sentence, tokens;;) {
    const bool more = input.next(tokens);
    require(words.next(sentence) == more, "{} and {} do not have the same number of lines: {} has {}", words.name(),
            input.name(), (more ? words : input).name(), (more ? words : input).line_number());
    if (!more) break;
    bool repaired = false;
    const auto tree = delinearise(tokens, split_words(sentence), [&](size_t offset, const std::string& what) {
      if (!options.repair)
        user_error("{}:{}:{}: {} (--repair makes a tree of such lines, too)", input.name(), input.line_number(),
                   column_of(tokens, offset), what);
      repaired = true;
    });
    malformed += repaired ? 1 : 0;
    output.write(tree ? tree->text() + "\n" : "\n");
  }
  output.commit();
  if (options.repair) log::info("{} of {} lines were malformed", malformed, input.line_number());
}

// A command's options, which live as long as it does, and what it runs.
template <class CommandOptions>
void declare(App& app, void (*run)(const CommandOptions&, OptionFiles)) {
  const auto options = std::make_shared<CommandOptions>();
  options->declare(app.options());
  app.run([=, &app] { run(*options, OptionFiles(app.options())); });
}

}  // namespace

int main(int argc, char** argv) {
  App app("nmt-vocab", "Trains a vocabulary, and encodes and decodes text with it.");
  app.footer(kExamples);
  declare(app, learn);
  declare(app.command("encode", "Text to pieces, line by line"), encode);
  declare(app.command("decode", "Pieces to text, line by line"), decode);
  declare(app.command("inspect", "What a vocabulary is, and how it fits a text"), inspect);
  declare(app.command("extract", "The vocabulary out of a model"), extract);
  declare(app.command("shortlist", "Learns which target pieces translate a source piece, for nmt-decode"),
          make_shortlist);
  declare(app.command("linearise", "Trees to tokens, as a translation model learns to parse"), linearise_trees);
  declare(app.command("delinearise", "Tokens and sentences to trees"), delinearise_trees);
  return app.main(argc, argv);
}
