#include "graph/backend.h"

#include <cstdlib>
#include <cstring>
#include <numeric>
#include <vector>

#include "backend/cpu/kernels.h"
#include "base/error.h"
#include "base/math.h"

namespace nmt {
namespace {

constexpr int64_t kGrain = 1 << 16;  // elements of one task and of one partial sum

class Host : public Backend {
 public:
  bool on_host() const override { return true; }
  std::string name() const override { return "cpu"; }
  void* allocate(size_t bytes) override {
    void* memory = std::aligned_alloc(64, static_cast<size_t>(round_up(static_cast<int64_t>(bytes), 64)));
    if (memory == nullptr && bytes > 0) fail("out of memory: {} MB are needed", bytes >> 20);
    return memory;
  }
  void free(void* memory) override { std::free(memory); }
  void upload(void* to, const void* from, size_t bytes) override { copy(to, from, bytes); }
  void download(void* to, const void* from, size_t bytes) override { copy(to, from, bytes); }
  void copy(void* to, const void* from, size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void zero(void* to, size_t bytes) override {
    if (bytes > 0) std::memset(to, 0, bytes);
  }
  void synchronize() override {}
  void compute(const Op& op, const Launch& launch) override { op.cpu(launch); }

  double sum_of_squares(ThreadPool& pool, int64_t n, const float* x) override {
    std::vector<double> sums(static_cast<size_t>((n + kGrain - 1) / kGrain));
    pool.parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
      sums[static_cast<size_t>(begin / kGrain)] = cpu::sum_of_squares(x + begin, end - begin);
    });
    return std::accumulate(sums.begin(), sums.end(), 0.0);
  }

  void adam(ThreadPool& pool, const Adam& step, int64_t n, float* g, float* m, float* v, float* p,
            float* average) override {
    pool.parallel_for(n, kGrain, [&](int64_t begin, int64_t end) { cpu::adam(step, begin, end, g, m, v, p, average); });
  }
};

}  // namespace

std::shared_ptr<Backend> host_backend() {
  static const auto host = std::make_shared<Host>();
  return host;
}

FloatBuffer::FloatBuffer(std::shared_ptr<Backend> backend, size_t count)
    : backend_(std::move(backend)), own_(count), host_(own_) {
  if (backend_->on_host()) return;
  on_device_ = Buffer(backend_, count * sizeof(float));
  backend_->zero(on_device_.data(), on_device_.bytes());
}

FloatBuffer::FloatBuffer(std::shared_ptr<Backend> backend, std::span<float> borrowed)
    : backend_(std::move(backend)), host_(borrowed) {
  if (!backend_->on_host()) on_device_ = Buffer(backend_, borrowed.size() * sizeof(float));
  upload();
}

void FloatBuffer::upload() {
  if (on_device_.data() != nullptr) backend_->upload(on_device_.data(), host_.data(), host_.size() * sizeof(float));
}

void FloatBuffer::zero() { backend_->zero(data(), size() * sizeof(float)); }

void FloatBuffer::download() {
  if (on_device_.data() != nullptr) backend_->download(host_.data(), on_device_.data(), host_.size() * sizeof(float));
}

}  // namespace nmt
