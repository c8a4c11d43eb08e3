#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nmt {

class ThreadPool;

// A mapping between text and piece ids [0, size()). Immutable after loading, so every member may be called from many
// threads at once. Text is UTF-8; malformed parts are taken as U+FFFD.
class Vocab {
 public:
  virtual ~Vocab() = default;
  Vocab(const Vocab&) = delete;
  Vocab& operator=(const Vocab&) = delete;

  // Reads a vocabulary; its kind is told by its content (see vocab_types). Throws UserError where it is none of these,
  // is damaged or has no end-of-sentence piece; `name` stands for the file in messages.
  static std::shared_ptr<const Vocab> load(const std::string& path);
  static std::shared_ptr<const Vocab> from_bytes(std::string bytes, const std::string& name);
  // Of source and target, from the files of --vocabs, one or two: one object for both sides where their bytes are the
  // same. UserError for another number.
  static std::pair<std::shared_ptr<const Vocab>, std::shared_ptr<const Vocab>> load_sides(
      const std::vector<std::string>& paths);

  // The serialised form: from_bytes(v.bytes(), name) equals v.
  const std::string& bytes() const { return bytes_; }

  virtual std::string type() const = 0;  // a name of vocab_types, or another kind that its files can hold
  virtual int size() const = 0;
  virtual int eos_id() const = 0;  // ends every sentence; never the result of encode
  virtual int unk_id() const = 0;  // stands for text that has no piece

  // Ids of a line of text, without the end-of-sentence id; an empty or blank line gives none.
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;

  // The same of text whose lines may be of any length: of a longer line, its first kMostLineBytes bytes, in whole
  // characters. SentencePiece takes time by the square of a line of unknown characters, and 200 bytes of memory a byte.
  static constexpr size_t kMostLineBytes = 128 << 10;
  struct LineIds {
    std::vector<int32_t> ids;
    bool whole;  // nothing was cut
  };
  LineIds encode_line(std::string_view line) const;
  // Of several, by all threads.
  std::vector<LineIds> encode_lines(std::span<const std::string> lines, ThreadPool& pool) const;

  // The text of ids, always one line; control pieces (end of sentence, padding) give none, so trailing ones need not be
  // removed. decode(encode(text)) is the text normalised whenever encode(text) is without unk_id(); how depends on the
  // kind and is said at each class.
  // Throws UserError for an id outside [0, size()).
  virtual std::string decode(std::span<const int32_t> ids) const = 0;

  // For each id the number, from 0, of the word that its piece belongs to, or begins in; -1 for a control piece. Words
  // are what spaces separate in decode(ids), save those that it puts around an unknown piece (WordPiece: what
  // basic_words gives).
  virtual std::vector<int32_t> words_of(std::span<const int32_t> ids) const = 0;

  virtual std::string piece(int id) const = 0;         // throws UserError for an id outside [0, size())
  virtual int find(std::string_view piece) const = 0;  // the piece's id, or -1

  // What else is worth knowing, as pairs of name and value (for `nmt-vocab inspect`).
  virtual std::vector<std::pair<std::string, std::string>> properties() const = 0;

  // A text whose words are in the vocabulary's pieces (`@@ `), with its words whole, as decode gives them: the
  // reference of a translation. The text itself where decode joins none.
  virtual std::string join(std::string_view text) const { return std::string(text); }
  // The text as encode() takes it apart: words that are split already (`@@ `) are whole where it splits words itself.
  virtual std::string unsplit(std::string_view text) const { return std::string(text); }

 protected:
  explicit Vocab(std::string bytes) : bytes_(std::move(bytes)) {}
  void check_id(int64_t id) const;  // throws UserError for an id outside [0, size())

 private:
  std::string bytes_;
};

// Warns where more than a tenth of a text's tokens are unknown: it may be of another language than the vocabulary.
void warn_of_unknown(const std::string& text, int64_t unknown, int64_t tokens);

}  // namespace nmt
