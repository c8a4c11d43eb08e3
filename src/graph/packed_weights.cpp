#include "graph/packed_weights.h"

namespace nmt {

const cpu::PackedMatrix& PackedWeights::get(ThreadPool& pool, const Tensor& w, DType t, bool transposed) {
  const int64_t rows = w.shape()[0], columns = w.shape()[1];
  const int64_t n = transposed ? columns : rows, k = transposed ? rows : columns;
  if (int8_) t = DType::kI8;
  Packed *entry = nullptr, *other = nullptr;
  {
    const std::lock_guard lock(mutex_);
    entry = &packed_[{w.data, n, k, transposed}];
    if (const auto it = packed_.find({w.data, k, n, !transposed}); it != packed_.end()) other = &it->second;
  }
  const std::lock_guard lock(entry->mutex);
  if (entry->version != version_ || entry->matrix.dtype() != t) {
    pack(pool, w, t, transposed, *entry, other);
    if (on_packed) on_packed({w.as<float>(), static_cast<size_t>(w.elements())});
  }
  return entry->matrix;
}

void PackedWeights::pack(ThreadPool& pool, const Tensor& w, DType t, bool transposed, Packed& entry, Packed* other) {
  const int64_t rows = w.shape()[0], columns = w.shape()[1];
  const auto* values = w.as<float>();
  std::unique_lock<std::mutex> lock;
  if (other != nullptr) lock = std::unique_lock(other->mutex, std::try_to_lock);
  if (lock && other->version != version_ && other->matrix.dtype() == t) {
    cpu::PackedMatrix &b = transposed ? other->matrix : entry.matrix,
                      &gradient = transposed ? entry.matrix : other->matrix;
    cpu::PackedMatrix::pack_both(pool, t, values, rows, columns, b, gradient);
    other->version = version_;
  } else {
    entry.matrix.pack(pool, t, values, transposed ? columns : rows, transposed ? rows : columns, transposed);
  }
  entry.version = version_;
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
