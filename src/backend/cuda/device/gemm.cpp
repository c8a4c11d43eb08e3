#include "backend/cuda/gemm.h"

#include <map>
#include <memory>
#include <tuple>

#include <cublasLt.h>

#include "base/error.h"

namespace nmt::cuda {
namespace {

void check_blas(cublasStatus_t status, const char* doing) {
  if (status != CUBLAS_STATUS_SUCCESS) fail("cuBLASLt: {}: {}", doing, cublasLtGetStatusString(status));
}

cudaDataType_t type_of(DType t) { return t == DType::kBF16 ? CUDA_R_16BF : CUDA_R_32F; }

constexpr size_t kWorkspace = 32 << 20;

// What cuBLASLt must know of a product, owned.
struct Described {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, y = nullptr;
  cublasLtMatmulAlgo_t algorithm;

  Described() = default;
  Described(const Described&) = delete;
  Described& operator=(const Described&) = delete;
  ~Described() {
    for (cublasLtMatrixLayout_t layout : {a, b, y})
      if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
    if (operation != nullptr) cublasLtMatmulDescDestroy(operation);
  }
};

template <class T>
void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check_blas(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof value), "describing a product");
}

cublasLtMatrixLayout_t layout(DType t, int64_t rows, int64_t columns, int64_t count) {
  cublasLtMatrixLayout_t made;
  check_blas(
      cublasLtMatrixLayoutCreate(&made, type_of(t), static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), rows),
      "describing a matrix");
  if (count > 1) {
    const auto batches = static_cast<int32_t>(count);
    const int64_t stride = rows * columns;
    check_blas(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batches, sizeof batches),
               "describing a matrix");
    check_blas(
        cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride),
        "describing a matrix");
  }
  return made;
}

// The largest power of two, up to 256, that divides the address: algorithms differ in what they ask for.
uint32_t alignment_of(const void* address) {
  const auto bits = reinterpret_cast<uintptr_t>(address) | 256;
  return static_cast<uint32_t>(bits & -bits);
}

using Key = std::tuple<bool, bool, int64_t, int64_t, int64_t, DType, DType, bool, bool, Activation, int64_t, uint32_t,
                       uint32_t, uint32_t>;

}  // namespace

struct Products::Implementation {
  cublasLtHandle_t handle = nullptr;
  void* workspace = nullptr;
  std::map<Key, std::unique_ptr<Described>> known;
};

Products::Products(Device& device) : implementation_(new Implementation), device_(device) {
  check_blas(cublasLtCreate(&implementation_->handle), "starting");
  implementation_->workspace = device.allocate(kWorkspace);
}

Products::~Products() {
  implementation_->known.clear();
  device_.free(implementation_->workspace);
  cublasLtDestroy(implementation_->handle);
  delete implementation_;
}

namespace {

// cuBLASLt's matrices are column-major: a row-major [m, n] is its [n, m], so that y = a b is computed as y^T = b^T a^T.
std::unique_ptr<Described> describe(cublasLtHandle_t handle, const Product& p, const void* a, const void* b,
                                    const void* y) {
  auto d = std::make_unique<Described>();
  check_blas(cublasLtMatmulDescCreate(&d->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describing a product");
  set(d->operation, CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(d->operation, CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  const bool relu = p.activation == Activation::kRelu, bias = p.bias != nullptr;
  const cublasLtEpilogue_t epilogue = bias && relu ? CUBLASLT_EPILOGUE_RELU_BIAS
                                      : bias       ? CUBLASLT_EPILOGUE_BIAS
                                      : relu       ? CUBLASLT_EPILOGUE_RELU
                                                   : CUBLASLT_EPILOGUE_DEFAULT;
  set(d->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
  if (bias) set(d->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  d->b = p.transpose_b ? layout(p.t, p.k, p.n, p.count) : layout(p.t, p.n, p.k, p.count);
  d->a = p.transpose_a ? layout(p.t, p.m, p.k, p.count) : layout(p.t, p.k, p.m, p.count);
  d->y = layout(p.ty, p.n, p.m, p.count);
  cublasLtMatmulPreference_t preference;
  check_blas(cublasLtMatmulPreferenceCreate(&preference), "looking for an algorithm");
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    check_blas(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
               "looking for an algorithm");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspace);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(b));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(a));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(y));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(y));
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle, d->operation, d->b, d->a, d->y, d->y, preference, 1, &found, &count);
  cublasLtMatmulPreferenceDestroy(preference);
  if (status != CUBLAS_STATUS_SUCCESS || count == 0)
    fail("cuBLASLt has no product [{}, {}] x [{}, {}] of {} into {}", p.m, p.k, p.k, p.n, name_of(p.t), name_of(p.ty));
  d->algorithm = found.algo;
  return d;
}

}  // namespace

void Products::multiply(const Product& p, const void* a, const void* b, void* y) {
  if (p.m == 0 || p.n == 0 || p.count == 0) return;
  auto& i = *implementation_;
  const Key key{p.transpose_a,
                p.transpose_b,
                p.m,
                p.n,
                p.k,
                p.t,
                p.ty,
                p.accumulate,
                p.bias != nullptr,
                p.activation,
                p.count,
                alignment_of(a),
                alignment_of(b),
                alignment_of(y)};
  auto& described = i.known[key];
  if (described == nullptr) described = describe(i.handle, p, a, b, y);
  if (p.bias != nullptr) set(described->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  const float one = 1, beta = p.accumulate ? 1 : 0;
  check_blas(
      cublasLtMatmul(i.handle, described->operation, &one, b, described->b, a, described->a, &beta, y, described->y, y,
                     described->y, &described->algorithm, i.workspace, kWorkspace, device_.stream()),
      "multiplying");
}

}  // namespace nmt::cuda
