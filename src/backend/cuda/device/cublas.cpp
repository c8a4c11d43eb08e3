#include "backend/cuda/device/cublas.h"

#include <fmt/format.h>

#include "backend/cuda/device/library.h"

namespace nmt::cuda {
namespace {

CublasLt load() {
  const Library library(fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR), "products on devices need cuBLASLt");
  CublasLt lt{};
  library.find("cublasLtCreate", lt.create);
  library.find("cublasLtDestroy", lt.destroy);
  library.find("cublasLtGetStatusString", lt.status_string);
  library.find("cublasLtMatmul", lt.matmul);
  library.find("cublasLtMatmulAlgoGetHeuristic", lt.heuristic);
  library.find("cublasLtMatmulDescCreate", lt.create_operation);
  library.find("cublasLtMatmulDescDestroy", lt.destroy_operation);
  library.find("cublasLtMatmulDescSetAttribute", lt.set_operation);
  library.find("cublasLtMatmulPreferenceCreate", lt.create_preference);
  library.find("cublasLtMatmulPreferenceDestroy", lt.destroy_preference);
  library.find("cublasLtMatmulPreferenceSetAttribute", lt.set_preference);
  library.find("cublasLtMatrixLayoutCreate", lt.create_layout);
  library.find("cublasLtMatrixLayoutDestroy", lt.destroy_layout);
  library.find("cublasLtMatrixLayoutSetAttribute", lt.set_layout);
  return lt;
}

}  // namespace

const CublasLt& CublasLt::get() {
  static const CublasLt lt = load();
  return lt;
}

}  // namespace nmt::cuda
