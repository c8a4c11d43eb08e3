#include "decode/device_beams.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "graph/runtime.h"
#include "ops/beams.h"

namespace nmt {
namespace {

constexpr size_t kWord = sizeof(int32_t), kRoom = 1 << 16;  // bytes; of a message, which grows
constexpr int64_t kLeastStride = 64;                        // the least width of tables

// As many sentences, and some of none, so that plans repeat: few numbers, 1/16 more at most.
size_t padded(size_t sentences) {
  const size_t step = std::max<size_t>(1, std::bit_floor(sentences) / 16);
  return (sentences + step - 1) / step * step;
}

}  // namespace

DeviceBeams::DeviceBeams(std::shared_ptr<Backend> backend, const SearchOptions& options, int32_t eos)
    : backend_(std::move(backend)), options_(options), rule_(options.rule(eos)) {
  for (Report& report : reports_) report.message = backend_->message(kRoom);
}

void DeviceBeams::clear() {
  sentences_.clear();
  for (Report& report : reports_) report.sentences.clear();
  if (!under_way_.empty()) release();
}

void DeviceBeams::release() {
  under_way_.clear();
  free_pages_.clear();
  pages_ = 0;
  for (Buffer* buffer : {&beams_, &next_beams_, &begun_, &history_}) *buffer = {};
}

bool DeviceBeams::follow(Sentences& all, bool begun) {
  if (all.count() == 0) return false;
  if (begun || 2 * all.count() <= std::ssize(sentences_)) regroup(all);

  int32_t steps = 0;
  for (auto& [sentence, known] : under_way_) {
    if (known.steps < known.limit) {  // or it has ended, which the host will be told
      if (known.steps % kPageSteps == 0) known.pages.push_back(take_page());
      ++known.steps;
    }
    steps = std::max(steps, known.steps);
  }
  stride_ = std::max(kLeastStride, static_cast<int64_t>(std::bit_ceil(static_cast<uint32_t>(steps))));
  const auto width = static_cast<size_t>(stride_ / kPageSteps);
  page_table_.assign(sentences_.size() * width, 0);
  for (size_t i = 0; i < sentences_.size(); ++i)
    if (const auto known = under_way_.find(sentences_[i]); known != under_way_.end())
      std::ranges::copy(known->second.pages, page_table_.begin() + static_cast<std::ptrdiff_t>(i * width));
  while (std::ssize(penalties_) <= stride_) penalties_.push_back(options_.penalty(std::ssize(penalties_)));
  return true;
}

// Those that were there go on in other rows, and those that begin get theirs.
void DeviceBeams::regroup(Sentences& all) {
  const auto sentences = all.under_way();
  const auto each = static_cast<size_t>(BeamBatch::state_words(rule_));
  std::map<int32_t, int32_t> place;
  for (const int32_t s : sentences) place.emplace(s, static_cast<int32_t>(place.size()));
  std::vector<int32_t> kept, begun, states;
  for (const int32_t s : sentences_) kept.push_back(place.contains(s) ? place.at(s) : -1);
  const auto begin = [&](int32_t at, const BeamProgress& progress) {
    begun.push_back(at);
    states.resize(states.size() + each);
    *BeamBatch::progress(rule_, states.data(), std::ssize(begun) - 1) = progress;
  };
  for (const int32_t s : sentences) {
    const auto limit = static_cast<int32_t>(all.limit(s));
    if (under_way_.try_emplace(s, UnderWay{limit}).second)
      begin(place.at(s), {.last_penalty = options_.penalty(limit), .key = all.key(s), .limit = limit});
  }
  sentences_ = sentences;
  sentences_.resize(padded(sentences.size()), -1);
  for (size_t i = sentences.size(); i < sentences_.size(); ++i)
    begin(static_cast<int32_t>(i), {.last_penalty = 1, .limit = 1, .live = 0});

  const auto take = [&](Buffer& buffer, size_t words) {
    if (buffer.bytes() < words * kWord) buffer = Buffer(backend_, words * kWord * 3 / 2);
  };
  take(next_beams_, sentences_.size() * each);
  const Backend::RowCopy move{next_beams_.data(), beams_.data(), each * kWord};
  if (!kept.empty()) backend_->copy_rows({&move, 1}, kept);
  if (!begun.empty()) {
    take(begun_, states.size());
    backend_->upload(begun_.data(), states.data(), states.size() * kWord);
    const Backend::RowCopy place_them{next_beams_.data(), begun_.data(), each * kWord};
    backend_->copy_rows({&place_them, 1}, begun);
  }
  std::swap(beams_, next_beams_);

  // Of n sentences' sources there are at most n + 1 free places beside, and one more is for rows of no sentence.
  const std::vector<int32_t> rows(sentences.size(), rule_.beam);
  all.lay_out(rows, 2 * sentences_.size() + 2, std::ssize(sentences_) * rule_.beam);
  if (all.allowed) {
    const auto ids = all.allowed->ids();
    names_.assign(ids.begin(), ids.end());
    names_.resize(static_cast<size_t>(all.allowed->padded_size()));
  }
}

// Half as many again where there are too few: the cache is copied then.
int32_t DeviceBeams::take_page() {
  if (free_pages_.empty()) {
    const int32_t first = pages_;
    pages_ += std::max(8, pages_ / 2);
    check(cache_rows() <= INT32_MAX, "{} rows of keys and values", cache_rows());
    Buffer larger(backend_, static_cast<size_t>(cache_rows()) * sizeof(BeamToken));
    backend_->copy(larger.data(), history_.data(), history_.bytes());
    history_ = std::move(larger);
    for (int32_t page = pages_; page-- > first;) free_pages_.push_back(page);
  }
  const int32_t page = free_pages_.back();
  free_pages_.pop_back();
  return page;
}

DeviceBeams::Leaves DeviceBeams::leaves(Graph& graph) const {
  const int64_t sentences = std::ssize(sentences_);
  return {.beams = graph.state({{sentences, BeamBatch::state_words(rule_)}, DType::kI32}, beams_.data()),
          .history = graph.state({{cache_rows(), 2}, DType::kI32}, history_.data()),
          .pages = graph.input({{sentences, stride_ / kPageSteps}, DType::kI32}, page_table_.data())};
}

Transformer::StepRows DeviceBeams::rows(const Leaves& leaves, const Sentences& all) const {
  const Expr rows = beam_rows(rule_, leaves.beams, leaves.history, leaves.pages);
  return {.ids = rows,
          .positions = rows.output(1),
          .slot = rows.output(2),
          .entry = rows.output(4),
          .length = rows.output(3),
          .longest = std::min(stride_, all.longest())};
}

Expr DeviceBeams::advance(const Leaves& leaves, Expr best, const Sentences& all) {
  Graph& graph = best.graph();
  const Expr penalties = graph.input({{stride_ + 1}, DType::kF64}, penalties_.data());
  const Expr names = all.allowed ? graph.input({{std::ssize(names_)}, DType::kI32}, names_.data()) : Expr();
  return advance_beams(rule_, leaves.beams, leaves.history, leaves.pages, best, best.output(1), penalties, names);
}

void DeviceBeams::send(const void* report) {
  std::swap(reports_[0], reports_[1]);
  Report& last = reports_[1];
  last.sentences = sentences_;
  last.stride = stride_;
  last.message->send(report, sentences_.size() * static_cast<size_t>(BeamStep::report_words(rule_, stride_)) * kWord);
}

void DeviceBeams::receive() {
  Report& report = reports_[0];
  if (!report.sentences.empty()) report.words = static_cast<const int32_t*>(report.message->receive());
}

void DeviceBeams::read(Sentences& all, const SearchDone& done) {
  Report& report = reports_[0];
  const int32_t* words = report.words;
  for (const int32_t s : std::exchange(report.sentences, {})) {
    const auto status = static_cast<BeamStatus>(words[0]);
    check_status(status);
    if (status == BeamStatus::kEnded) {
      std::vector<Hypothesis> best;
      for (int32_t i = 0; i < words[1]; ++i) {
        const auto& f = *BeamStep::finished(words, report.stride, i);
        const int32_t* tokens = BeamStep::tokens(&f);
        best.push_back({{tokens, tokens + f.tokens}, f.log_probability, f.score});
      }
      const auto ended = under_way_.find(s);
      free_pages_.insert(free_pages_.end(), ended->second.pages.begin(), ended->second.pages.end());
      under_way_.erase(ended);
      all.end(s);
      done(static_cast<size_t>(s), std::move(best));
    }
    words += BeamStep::report_words(rule_, report.stride);
  }
}

}  // namespace nmt
