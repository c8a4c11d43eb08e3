#include "backend/cuda/gemm.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <tuple>

#include "backend/cuda/device/check.h"
#include "backend/cuda/device/cublas.h"
#include "base/error.h"
#include "base/math.h"

namespace nmt::cuda {
namespace {

void check_blas(cublasStatus_t status, const char* doing) {
  if (status == CUBLAS_STATUS_ALLOC_FAILED) check_cuda(cudaErrorMemoryAllocation, doing);
  if (status != CUBLAS_STATUS_SUCCESS) fail("cuBLASLt: {}: {}", doing, CublasLt::get().status_string(status));
}

cudaDataType_t type_of(DType t) { return t == DType::kBF16 ? CUDA_R_16BF : t == DType::kF16 ? CUDA_R_16F : CUDA_R_32F; }

constexpr size_t kWorkspace = 32 << 20;

void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, const auto& value) {
  check_blas(CublasLt::get().set_operation(operation, attribute, &value, sizeof value), "describing a product");
}

// A row-major matrix, as cuBLASLt sees it: column-major with rows and columns exchanged.
cublasLtMatrixLayout_t layout(DType t, int64_t rows, int64_t columns, int64_t count) {
  const CublasLt& lt = CublasLt::get();
  cublasLtMatrixLayout_t made;
  check_blas(lt.create_layout(&made, type_of(t), static_cast<uint64_t>(columns), static_cast<uint64_t>(rows), columns),
             "describing a matrix");
  if (count > 1) {
    const auto batches = static_cast<int32_t>(count);
    const int64_t stride = rows * columns;
    check_blas(lt.set_layout(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batches, sizeof batches),
               "describing a matrix");
    check_blas(lt.set_layout(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride),
               "describing a matrix");
  }
  return made;
}

// What cuBLASLt must know of a product, owned. Row-major y = a b is computed as its column-major y^T = b^T a^T.
struct Described {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, y = nullptr;

  Described(const Product& p, bool tf32) {
    const auto compute = tf32 && p.t == DType::kF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    check_blas(CublasLt::get().create_operation(&operation, compute, CUDA_R_32F), "describing a product");
    set(operation, CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(operation, CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    const bool relu = p.activation == Activation::kRelu, bias = p.bias != nullptr;
    const cublasLtEpilogue_t epilogue = bias && relu ? CUBLASLT_EPILOGUE_RELU_BIAS
                                        : bias       ? CUBLASLT_EPILOGUE_BIAS
                                        : relu       ? CUBLASLT_EPILOGUE_RELU
                                                     : CUBLASLT_EPILOGUE_DEFAULT;
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    if (bias) set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
    a = p.transpose_a ? layout(p.t, p.k, p.m, p.count) : layout(p.t, p.m, p.k, p.count);
    b = p.transpose_b ? layout(p.t, p.n, p.k, p.count) : layout(p.t, p.k, p.n, p.count);
    y = layout(p.ty, p.m, p.n, p.count);
  }
  Described(const Described&) = delete;
  Described& operator=(const Described&) = delete;
  ~Described() {
    for (cublasLtMatrixLayout_t matrix : {a, b, y})
      if (matrix != nullptr) CublasLt::get().destroy_layout(matrix);
    if (operation != nullptr) CublasLt::get().destroy_operation(operation);
  }
};

// The largest power of two, up to `most`, that divides x: algorithms differ in what they ask for.
uint32_t alignment_of(uint64_t x, uint32_t most) {
  const uint64_t bits = x | most;
  return static_cast<uint32_t>(bits & -bits);
}

struct Alignments {
  uint32_t a, b, y, bias;
  auto operator<=>(const Alignments&) const = default;
};

// Sizes that share an algorithm: rounded up to their four leading bits. Tokens in a batch are hardly ever as many as in
// the last one.
int64_t common_size(int64_t x) {
  const int64_t step = std::max<int64_t>(1, static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(x))) / 8);
  return round_up(x, step);
}

// Whether cuBLASLt says that there is no such product, or not by this algorithm; any other failure is thrown: another
// way of computing it would hide what is wrong, and make results depend on how much memory is free.
bool is_refused(cublasStatus_t status) {
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
      status == CUBLAS_STATUS_ARCH_MISMATCH)
    return true;
  check_blas(status, "a product");
  return false;
}

}  // namespace

struct Products::Implementation {
  // Whatever an algorithm may depend on; of each pointer and each row's width how it is aligned (0: exact sizes).
  using Key = std::tuple<bool, bool, int64_t, int64_t, int64_t, uint32_t, uint32_t, uint32_t, DType, DType, bool, bool,
                         Activation, int64_t, Alignments, bool>;

  cublasLtHandle_t handle = nullptr;
  DeviceMemory workspace;
  std::map<Key, std::optional<cublasLtMatmulAlgo_t>> algorithms;

  // As the library's own rules choose: to measure would be to let time decide how results are rounded. None: it knows
  // of no product like this one.
  std::optional<cublasLtMatmulAlgo_t> find(const Product& p, const Alignments& alignments, bool tf32) {
    const CublasLt& lt = CublasLt::get();
    const Described d(p, tf32);
    cublasLtMatmulPreference_t preference;
    check_blas(lt.create_preference(&preference), "looking for an algorithm");
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      check_blas(lt.set_preference(preference, attribute, &value, sizeof value), "looking for an algorithm");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspace);
    // Where k is split the parts are summed in float32, never in the type of y.
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignments.b);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignments.a);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignments.y);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignments.y);
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    const cublasStatus_t status = lt.heuristic(handle, d.operation, d.b, d.a, d.y, d.y, preference, 1, &found, &count);
    lt.destroy_preference(preference);
    if (is_refused(status) || count == 0 || is_refused(found.state)) return std::nullopt;
    return found.algo;
  }

  // For products of about this size. It depends on p alone, not on what was asked for before.
  const std::optional<cublasLtMatmulAlgo_t>& algorithm(const Product& p, const Alignments& alignments, bool tf32) {
    Product about = p;
    for (int64_t* size : {&about.m, &about.n, &about.k}) *size = common_size(*size);
    // Which widths of rows are aligned matters too.
    const auto width = [](bool is_one, int64_t size) {
      return is_one ? alignment_of(static_cast<uint64_t>(size), 16) : 16;
    };
    const uint32_t m = width(p.transpose_a, p.m), n = width(true, p.n), k = width(!p.transpose_a || p.transpose_b, p.k);
    const Key key{p.transpose_a, p.transpose_b, about.m,           about.n,      about.k, m,          n,   k, p.t,
                  p.ty,          p.accumulate,  p.bias != nullptr, p.activation, p.count, alignments, tf32};
    const auto known = algorithms.find(key);
    if (known != algorithms.end()) return known->second;
    // The common size may be aligned better than this one.
    const auto as_this = [](int64_t& size, uint32_t alignment) {
      if (alignment_of(static_cast<uint64_t>(size), 16) > alignment) size += alignment;
    };
    as_this(about.m, m);
    as_this(about.n, n);
    as_this(about.k, k);
    return algorithms.emplace(key, find(about, alignments, tf32)).first->second;
  }

  // For products of exactly this size, where the one above does not suit it.
  const std::optional<cublasLtMatmulAlgo_t>& exact_algorithm(const Product& p, const Alignments& alignments,
                                                             bool tf32) {
    const Key key{p.transpose_a, p.transpose_b,     p.m,          p.n,     p.k,        0,   0, 0, p.t, p.ty,
                  p.accumulate,  p.bias != nullptr, p.activation, p.count, alignments, tf32};
    const auto known = algorithms.find(key);
    if (known != algorithms.end()) return known->second;
    constexpr size_t kMost = 1 << 14;  // a long training has as many sizes as batches
    if (algorithms.size() >= kMost) algorithms.clear();
    return algorithms.emplace(key, find(p, alignments, tf32)).first->second;
  }
};

Products::Products(Device& device) : implementation_(std::make_unique<Implementation>()), device_(device) {
  implementation_->workspace = DeviceMemory(device, kWorkspace);
  check_blas(CublasLt::get().create(&implementation_->handle), "starting");  // on the device that is current
}

Products::~Products() { CublasLt::get().destroy(implementation_->handle); }

const char* Products::begin(const Product& p, const void* a, const void* b, void* y) {
  auto& i = *implementation_;
  // More than this depends on where memory happens to be, and the choice of an algorithm must not.
  const auto aligned = [](const void* address) { return alignment_of(reinterpret_cast<uintptr_t>(address), 64); };
  const Alignments alignments{aligned(a), aligned(b), aligned(y), aligned(p.bias)};
  const Described d(p, tf32);
  const float one = 1, beta = p.accumulate ? 1 : 0;
  const auto multiply_by = [&](const std::optional<cublasLtMatmulAlgo_t>& algorithm) {
    if (!algorithm) return CUBLAS_STATUS_NOT_SUPPORTED;
    return CublasLt::get().matmul(i.handle, d.operation, &one, b, d.b, a, d.a, &beta, y, d.y, y, d.y, &*algorithm,
                                  i.workspace.data(), kWorkspace, device_.stream());
  };
  cublasStatus_t status = multiply_by(i.algorithm(p, alignments, tf32));
  // What suits a size need not suit its neighbours.
  if (is_refused(status)) status = multiply_by(i.exact_algorithm(p, alignments, tf32));
  return is_refused(status) ? CublasLt::get().status_string(status) : nullptr;
}

}  // namespace nmt::cuda
