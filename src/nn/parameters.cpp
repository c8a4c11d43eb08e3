#include "nn/parameters.h"

#include <algorithm>

#include "base/error.h"
#include "ops/elementwise.h"

namespace nmt {

void Parameters::declare(std::string name, const Shape& shape) {
  check(index_.emplace(name, entries_.size()).second, "parameter {} is declared twice", name);
  entries_.push_back({std::move(name), shape, size_});
  size_ += shape.elements();
}

void Parameters::allocate(bool gradients, const std::shared_ptr<Backend>& backend, size_t room) {
  values_ = FloatBuffer(backend, static_cast<size_t>(size_), room);
  gradients_ = gradients ? FloatBuffer(backend, static_cast<size_t>(size_), room) : FloatBuffer();
}

void Parameters::borrow(std::span<float> values, const std::shared_ptr<Backend>& backend, bool gradients, size_t room) {
  check(static_cast<int64_t>(values.size()) == size_, "{} values for {} parameters", values.size(), size_);
  values_ = FloatBuffer(backend, values, room);
  gradients_ = gradients ? FloatBuffer(backend, values.size(), room) : FloatBuffer();
}

const Parameters::Entry& Parameters::entry(const std::string& name) const {
  const auto it = index_.find(name);
  check(it != index_.end(), "no parameter {}", name);
  return entries_[it->second];
}

Expr Leaves::joined(std::initializer_list<std::string> names) {
  const auto& first = parameters_.entry(*names.begin());
  Expr& leaf = leaves_[{first.offset, names.size()}];
  if (leaf) return leaf;
  Shape shape = first.shape;
  int64_t end = first.offset;
  for (const auto& name : names) {
    const auto& e = parameters_.entry(name);
    check(e.offset == end && e.shape.rank() == shape.rank() && (names.size() == 1 || e.shape[1] == shape[1]),
          "{} does not follow the parameters it is joined with", name);
    end += e.shape.elements();
    if (e.offset != first.offset) shape[0] += e.shape[0];
  }
  leaf = graph_.parameter(shape, parameters_.value_buffer().data() + first.offset,
                          train_ ? parameters_.gradient_buffer().data() + first.offset : nullptr);
  return leaf;
}

float Leaves::dropout_rate(double rate, const std::string& name) {
  if (!train_ || rate == 0) return 0;
  sites_.push_back({name, graph_.dropout_sites(), static_cast<float>(rate)});
  return static_cast<float>(rate);
}

Expr Leaves::dropout(Expr x, double rate, const std::string& name) { return nmt::dropout(x, dropout_rate(rate, name)); }

Expr Leaves::named(std::string name, Expr x) {
  named_.emplace_back(std::move(name), x);
  return x;
}

Expr Leaves::find(const std::string& name) const {
  const auto it = std::ranges::find(named_, name, &std::pair<std::string, Expr>::first);
  return it == named_.end() ? Expr() : it->second;
}

}  // namespace nmt
