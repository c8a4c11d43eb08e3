#include "graph/packed_weights.h"

namespace nmt {

const cpu::PackedMatrix& PackedWeights::get(ThreadPool& pool, const Tensor& w, DType t, bool transposed) {
  const int64_t rows = w.shape()[0], columns = w.shape()[1];
  if (int8_) t = DType::kI8;
  Packed& entry = entry_of({w.data, rows, columns});
  const std::lock_guard lock(entry.mutex);
  Way &way = transposed ? entry.transposed : entry.plain, &other = transposed ? entry.plain : entry.transposed;
  if (way.version == version_ && way.matrix.dtype() == t) return way.matrix;
  const auto* values = w.as<float>();
  const bool other_too = other.version > 0 && other.version != version_ && other.matrix.dtype() == t;
  way.version = 0;  // until it is whole: there may not be the memory
  if (other_too) other.version = 0;
  if (other_too)
    cpu::PackedMatrix::pack_both(pool, t, values, rows, columns, entry.plain.matrix, entry.transposed.matrix);
  else
    way.matrix.pack(pool, t, values, transposed ? columns : rows, transposed ? rows : columns, transposed);
  way.version = version_;
  if (other_too) other.version = version_;
  if (on_packed) on_packed({values, static_cast<size_t>(w.elements())});
  return way.matrix;
}

PackedWeights::Packed& PackedWeights::entry_of(const Key& key) {
  const std::lock_guard lock(mutex_);
  return packed_[key];
}

void PackedWeights::forget(const void* data) {
  const std::lock_guard lock(mutex_);
  std::erase_if(packed_, [&](const auto& entry) { return entry.first.data == data; });
}

int64_t PackedWeights::bytes() const {
  const std::lock_guard lock(mutex_);
  int64_t bytes = 0;
  for (const auto& [key, entry] : packed_) {
    const std::lock_guard entry_lock(entry.mutex);
    bytes += entry.plain.matrix.bytes() + entry.transposed.matrix.bytes();
  }
  return bytes;
}

}  // namespace nmt
