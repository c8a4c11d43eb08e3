#include "backend/cuda/device/cublas.h"

#include <string>

#include <dlfcn.h>

#include "base/error.h"

namespace nmt::cuda {
namespace {

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) fail("cuBLASLt: {}", ::dlerror());
}

CublasLt load() {
  const std::string name = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
  void* library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fail("products on devices need cuBLASLt: {}", ::dlerror());
  CublasLt lt{};
  find(library, "cublasLtCreate", lt.create);
  find(library, "cublasLtDestroy", lt.destroy);
  find(library, "cublasLtGetStatusString", lt.status_string);
  find(library, "cublasLtMatmul", lt.matmul);
  find(library, "cublasLtMatmulAlgoGetHeuristic", lt.heuristic);
  find(library, "cublasLtMatmulDescCreate", lt.create_operation);
  find(library, "cublasLtMatmulDescDestroy", lt.destroy_operation);
  find(library, "cublasLtMatmulDescSetAttribute", lt.set_operation);
  find(library, "cublasLtMatmulPreferenceCreate", lt.create_preference);
  find(library, "cublasLtMatmulPreferenceDestroy", lt.destroy_preference);
  find(library, "cublasLtMatmulPreferenceSetAttribute", lt.set_preference);
  find(library, "cublasLtMatrixLayoutCreate", lt.create_layout);
  find(library, "cublasLtMatrixLayoutDestroy", lt.destroy_layout);
  find(library, "cublasLtMatrixLayoutSetAttribute", lt.set_layout);
  return lt;
}

}  // namespace

const CublasLt& CublasLt::get() {
  static const CublasLt lt = load();
  return lt;
}

}  // namespace nmt::cuda
