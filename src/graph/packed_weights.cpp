#include "graph/packed_weights.h"

namespace nmt {

const cpu::PackedMatrix& PackedWeights::get(ThreadPool& pool, const Tensor& w, DType t, bool transposed) {
  const int64_t rows = w.shape()[0], columns = w.shape()[1];
  const int64_t n = transposed ? columns : rows, k = transposed ? rows : columns;
  if (int8_) t = DType::kI8;
  Packed& entry = entry_of({w.data, n, k, transposed});
  const std::lock_guard lock(entry.mutex);
  if (entry.version != version_ || entry.matrix.dtype() != t) {
    if (!pack_both(pool, w, t, entry, transposed)) entry.matrix.pack(pool, t, w.as<float>(), n, k, transposed);
    entry.version = version_;
    if (on_packed) on_packed({w.as<float>(), static_cast<size_t>(w.elements())});
  }
  return entry.matrix;
}

bool PackedWeights::pack_both(ThreadPool& pool, const Tensor& w, DType t, Packed& entry, bool transposed) {
  const int64_t rows = w.shape()[0], columns = w.shape()[1];
  Packed* other = find({w.data, transposed ? rows : columns, transposed ? columns : rows, !transposed});
  if (other == nullptr) return false;
  const std::unique_lock lock(other->mutex, std::try_to_lock);
  if (!lock || other->version == version_ || other->matrix.dtype() != t) return false;
  cpu::PackedMatrix& b = transposed ? other->matrix : entry.matrix;
  cpu::PackedMatrix& gradient = transposed ? entry.matrix : other->matrix;
  cpu::PackedMatrix::pack_both(pool, t, w.as<float>(), rows, columns, b, gradient);
  other->version = version_;
  return true;
}

PackedWeights::Packed* PackedWeights::find(const Key& key) {
  const std::lock_guard lock(mutex_);
  const auto it = packed_.find(key);
  return it == packed_.end() ? nullptr : &it->second;
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
    bytes += entry.matrix.bytes();
  }
  return bytes;
}

}  // namespace nmt
