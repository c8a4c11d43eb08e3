#include "decode/device_beams.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "graph/runtime.h"

namespace nmt {
namespace {

constexpr size_t kWord = sizeof(int32_t), kRoom = 1 << 16;  // bytes; of a message, which grows
constexpr int64_t kStride = 64;                             // at least, so that plans repeat

}  // namespace

DeviceBeams::DeviceBeams(std::shared_ptr<Backend> backend, const SearchOptions& options, int32_t eos)
    : backend_(std::move(backend)), options_(options), rule_(options.rule(eos)) {
  for (Report& report : reports_) report.message = backend_->message(kRoom);
}

void DeviceBeams::open(int64_t longest) {
  longest_ = longest;
  stride_ = std::max(kStride, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(longest))));
  penalties_ = options_.penalties(stride_);
  slots_ = {};
  sentences_.clear();
  for (Report& report : reports_) report.sentences.clear();
  for (size_t kind = 0; kind < kKinds; ++kind) {
    const int64_t each = kind == kBeams ? BeamBatch::state_words(rule_) : rule_.beam * (kind == kEntry ? stride_ : 1);
    states_[kind].words = each;
  }
}

bool DeviceBeams::follow(Sentences& all, bool begun) {
  auto under_way = all.under_way();
  if (under_way.empty()) return false;
  if (begun || 2 * under_way.size() <= sentences_.size()) {
    regroup(under_way, all);
    all.lay_out(std::vector<int32_t>(under_way.size(), rule_.beam), 2 * under_way.size() + 1);
    sentences_ = std::move(under_way);
    if (all.allowed) {
      const auto ids = all.allowed->ids();
      names_.assign(ids.begin(), ids.end());
      names_.resize(static_cast<size_t>(all.allowed->padded_size()));
    }
  }
  return true;
}

// What a sentence begins with; the words are 0 before.
void DeviceBeams::write_first_state(Kind kind, int32_t slot, int64_t limit, int32_t* words) const {
  if (kind == kBeams) {
    const BeamProgress progress{.limit = static_cast<int32_t>(limit), .first_slot = slot};
    std::memcpy(words, &progress, sizeof progress);
    return;
  }
  const int64_t each = states_[kind].words / rule_.beam;
  for (int32_t h = 0; h < rule_.beam; ++h)
    words[h * each] = kind == kIds ? -1 : kind == kPositions ? 0 : kind == kLength ? 1 : slot + h;
}

void DeviceBeams::regroup(const std::vector<int32_t>& sentences, const Sentences& all) {
  std::unordered_map<int32_t, int32_t> index;  // of each now
  for (const int32_t s : sentences) index.emplace(s, static_cast<int32_t>(index.size()));
  std::vector<int32_t> kept, begun, slots;  // where those that were there go, and those that begin
  for (const int32_t s : sentences_) {
    const auto found = index.find(s);
    kept.push_back(found == index.end() ? -1 : found->second);
    if (found != index.end()) index.erase(found);
  }
  for (const int32_t s : sentences) {
    if (!index.contains(s)) continue;
    begun.push_back(index.at(s));
    slots.push_back(slots_.take(s, static_cast<int32_t>(all.limit(s)) * rule_.beam));
  }
  const auto grow = [&](Buffer& buffer, int64_t words) {
    const auto bytes = static_cast<size_t>(words) * kWord;
    if (buffer.bytes() < bytes) buffer = Buffer(backend_, bytes * 3 / 2);
  };
  std::vector<Backend::RowCopy> move, place;
  std::vector<int32_t> states;
  std::vector<size_t> first;
  for (size_t kind = 0; kind < kKinds; ++kind) {
    State& state = states_[kind];
    grow(state.next, std::ssize(sentences) * state.words);
    move.push_back({state.next.data(), state.now.data(), static_cast<size_t>(state.words) * kWord});
    first.push_back(states.size());
    states.resize(states.size() + begun.size() * static_cast<size_t>(state.words));
    for (size_t i = 0; i < begun.size(); ++i)
      write_first_state(static_cast<Kind>(kind), slots[i], all.limit(sentences[static_cast<size_t>(begun[i])]),
                        states.data() + first.back() + i * static_cast<size_t>(state.words));
    states.resize(static_cast<size_t>(round_up(std::ssize(states), 4)));  // for wide copies
  }
  grow(begun_, std::ssize(states));
  for (size_t kind = 0; kind < kKinds; ++kind)
    place.push_back({states_[kind].next.data(), begun_.data() + first[kind] * kWord, move[kind].bytes});
  if (!kept.empty()) backend_->copy_rows(move, kept);
  if (!begun.empty()) {
    backend_->upload(begun_.data(), states.data(), states.size() * kWord);
    backend_->copy_rows(place, begun);
  }
  for (State& state : states_) std::swap(state.now, state.next);
  if (const auto bytes = static_cast<size_t>(cache_rows()) * sizeof(BeamToken); history_.bytes() < bytes) {
    Buffer larger(backend_, bytes * 3 / 2);
    backend_->copy(larger.data(), history_.data(), history_.bytes());
    history_ = std::move(larger);
  }
}

Expr DeviceBeams::state(Graph& graph, Kind kind) const {
  const int64_t sentences = std::ssize(sentences_), rows = sentences * rule_.beam, words = states_[kind].words;
  const Shape shape = kind == kBeams ? Shape{sentences, words} : kind == kEntry ? Shape{rows, stride_} : Shape{rows};
  return graph.state({shape, DType::kI32}, states_[kind].now.data());
}

Transformer::StepRows DeviceBeams::rows(Graph& graph) const {
  return {.ids = state(graph, kIds),
          .positions = state(graph, kPositions),
          .slot = state(graph, kSlot),
          .entry = state(graph, kEntry),
          .length = state(graph, kLength),
          .longest = longest_};
}

Expr DeviceBeams::advance(Expr best, const Transformer::StepRows& rows, const Sentences& all) {
  Graph& graph = best.graph();
  const Expr penalties = graph.input({{std::ssize(penalties_)}, DType::kF64}, penalties_.data());
  const Expr names = all.allowed ? graph.input({{std::ssize(names_)}, DType::kI32}, names_.data()) : Expr();
  return advance_beams(rule_, best, best.output(1),
                       {.ids = rows.ids,
                        .positions = rows.positions,
                        .slot = rows.slot,
                        .length = rows.length,
                        .entry = rows.entry,
                        .beams = state(graph, kBeams),
                        .history = graph.state({{cache_rows(), 2}, DType::kI32}, history_.data())},
                       penalties, names);
}

void DeviceBeams::send(const void* report) {
  std::swap(reports_[0], reports_[1]);
  reports_[1].sentences = sentences_;
  const auto words = std::ssize(sentences_) * BeamBatch::report_words(rule_, stride_);
  reports_[1].message->send(report, static_cast<size_t>(words) * kWord);
}

void DeviceBeams::receive(Sentences& all, const SearchDone& done) {
  Report& report = reports_[0];
  if (report.sentences.empty()) return;
  const auto* words = static_cast<const int32_t*>(report.message->receive());
  for (const int32_t s : std::exchange(report.sentences, {})) {
    const auto status = static_cast<BeamStatus>(words[0]);
    check_status(status);
    if (status == BeamStatus::kEnded) {
      std::vector<Hypothesis> best;
      for (int32_t i = 0; i < words[1]; ++i) {
        const auto& f = *BeamBatch::finished(words, stride_, i);
        const auto* tokens = reinterpret_cast<const int32_t*>(&f + 1);
        best.push_back({{tokens, tokens + f.tokens}, f.log_probability, f.score});
      }
      slots_.free(s);
      all.end(s);
      done(static_cast<size_t>(s), std::move(best));
    }
    words += BeamBatch::report_words(rule_, stride_);
  }
}

}  // namespace nmt
