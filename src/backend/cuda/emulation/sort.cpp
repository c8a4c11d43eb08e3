#include <algorithm>
#include <numeric>

#include "backend/cuda/emulation/run.h"
#include "backend/cuda/kernels.h"

namespace nmt::cuda {

int64_t sort_room(int64_t) { return 0; }

void sort_rows(Stream, int64_t rows, const int32_t* ids, void*, int32_t* sorted_ids, int32_t* order) {
  emulation::begin([=] {
    std::iota(order, order + rows, 0);
    std::stable_sort(order, order + rows, [&](int32_t a, int32_t b) { return ids[a] < ids[b]; });
    for (int64_t i = 0; i < rows; ++i) sorted_ids[i] = ids[order[i]];
  });
}

}  // namespace nmt::cuda
