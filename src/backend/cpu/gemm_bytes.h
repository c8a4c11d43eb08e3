#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels.h"
#include "backend/cpu/product_parts.h"
#include "tensor/dtype.h"

// Products of bytes: by AVX512-VNNI, whose 16 lanes each add four products to a 32-bit sum, by AMX, or where there is
// no VNNI by AVX2. Sums stay in registers or L1 until they are what they mean.
namespace nmt::cpu {

// AVX2 adds four products up in 16 bits. So that these hold them, bytes of x have 7 bits there, and those of B are
// bounded by fours (see quantise_weight), by which weights lose a part of a bit; x, which lost one, errs more.
inline int largest_byte() { return has_vnni() ? 255 : 127; }
inline bool bounds_fours() { return !has_vnni(); }

// Bytes of a row of q, of which those from k on are zeros.
int64_t bytes_of_row(int64_t k);

// Packs columns [begin, end) of B, begin a multiple of kPanel, out of q [end - begin, k] into panels (panels.h).
void pack_bytes(int64_t begin, int64_t end, int64_t k, const int8_t* q, std::byte* packed);

// y [m, end - begin] with the row stride ldy = the epilogue of what x's rows and B's columns mean; the bias is that of
// column `begin`, a multiple of kPanel.
struct ByteProduct {
  int64_t m, k, begin, end;
  const uint8_t* q;
  const RowScale* rows;
  const std::byte* packed;
  const float *scale, *sum;  // of all columns
  DType ty;
  void* y;
  int64_t ldy;
  Epilogue epilogue;  // held: nothing
};
void multiply_bytes(const ByteProduct& p);

}  // namespace nmt::cpu
