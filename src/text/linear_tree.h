#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "text/tree.h"

namespace nmt {

// Trees as sequences of tokens (Vinyals et al. 2015, "Grammar as a Foreign Language"), so that a translation model can
// learn to parse: (S (NP (DT the) (NN cat)) (VP (VBZ sleeps))) is `(S (NP XX XX )NP (VP XX )VP )S`.

constexpr std::string_view kAnyTag = "XX";               // stands for every part of speech
constexpr std::string_view kTopLabel = "TOP";            // of the bracket around a whole sentence
constexpr size_t kMostOpen = TreeParser::kMaxDepth - 2;  // brackets of a token sequence; with a TOP and a leaf

// Whether a token is an opening or a closing bracket with a proper label.
bool is_bracket(std::string_view token);

// What is left of a label without function tags and indices: NP of NP-SBJ-1 and NP=2. -NONE- and -LRB- stay as they
// are.
std::string_view plain_label(std::string_view label);

// The part of a tree that a token sequence holds: plain labels, tags kept or XX, no empty elements (-NONE-) or
// constituents without words. The bracket around the whole (without a label, or TOP) is left out where it holds one
// constituent and is TOP otherwise. Nothing where there is no word.
std::optional<Tree> normalise(const Tree& tree, bool keep_tags);

// The tokens of a normalised tree, separated by a space; a TOP around the whole has none.
std::string linearise(const Tree& tree);

std::string sentence_of(const Tree& tree);  // its words, separated by a space

// The normalised tree of a token sequence, over exactly these words; nothing where there are none. Called for each
// fault of the sequence, with its token's offset and what it is, `fault` may throw; where it returns, or there is none,
// - a closing bracket closes the innermost open constituent of its label, with all in it that is open; where there is
//   none, the innermost; where nothing is open, nothing;
// - leaves beyond the last word, constituents without words, and brackets that have no proper label or are deeper than
//   a TreeParser reads are left out;
// - at the end, words without a leaf join the innermost open constituent, or the last one where none is open, with the
//   tag XX; then all open constituents are closed.
std::optional<Tree> delinearise(std::string_view tokens, std::span<const std::string_view> words,
                                const std::function<void(size_t offset, const std::string& what)>& fault = {});

// What first keeps a token sequence from being a tree over exactly the sentence's words, "{column}: {what}"; empty
// where nothing does, or there is no word.
std::string tree_fault(std::string_view tokens, std::string_view sentence);

}  // namespace nmt
