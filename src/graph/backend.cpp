#include "graph/backend.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <vector>

#include "backend/cpu/kernels.h"
#include "base/aligned.h"
#include "base/error.h"
#include "base/math.h"

namespace nmt {
namespace {

constexpr int64_t kGrain = 1 << 16;  // elements of one task and of one partial sum

class HostMessage : public Message {
 public:
  void send(const void* from, size_t bytes) override {
    const auto* first = static_cast<const std::byte*>(from);
    sent_.assign(first, first + bytes);
  }
  const void* receive() override { return sent_.data(); }

 private:
  std::vector<std::byte> sent_;
};

class Host : public Backend {
 public:
  bool on_host() const override { return true; }
  std::string name() const override { return "cpu"; }
  void* allocate(size_t bytes) override {
    void* memory = allocate_aligned(bytes);
    if (memory == nullptr && bytes > 0)
      throw OutOfMemory(fmt::format("out of memory: {} MB are needed", divide_up(bytes, size_t{1} << 20)));
    return memory;
  }
  void free(void* memory) override { std::free(memory); }
  int64_t used() const override { return 0; }
  int64_t peak() const override { return 0; }
  void upload(void* to, const void* from, size_t bytes) override { copy(to, from, bytes); }
  void download(void* to, const void* from, size_t bytes) override { copy(to, from, bytes); }
  void copy(void* to, const void* from, size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void copy_rows(std::span<const RowCopy> copies, std::span<const int32_t> rows) override {
    for (const RowCopy& c : copies)
      for (size_t r = 0; r < rows.size(); ++r)
        if (rows[r] >= 0)
          copy(static_cast<std::byte*>(c.to) + static_cast<size_t>(rows[r]) * c.bytes,
               static_cast<const std::byte*>(c.from) + r * c.stride, c.bytes);
  }
  void zero(void* to, size_t bytes) override {
    if (bytes > 0) std::memset(to, 0, bytes);
  }
  void synchronize() override {}
  void prepare_uploads(size_t) override {}
  bool uses_tf32() const override { return false; }
  void use_tf32() override { user_error("--precision tf32 is for GPUs"); }
  void compute(const Op& op, const Launch& launch) override { op.cpu(launch); }

  void sum_of_squares(ThreadPool& pool, int64_t n, const float* x, double* sum) override {
    std::vector<double> sums(static_cast<size_t>(divide_up(n, kGrain)));
    pool.parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
      sums[static_cast<size_t>(begin / kGrain)] = cpu::sum_of_squares(x + begin, end - begin);
    });
    *sum = std::accumulate(sums.begin(), sums.end(), 0.0);
  }
  void add_to(const float* x, double* sum) override { *sum += *x; }
  void decide(const UpdateRule& rule, const UpdateTotals* totals, Update* update) override {
    *update = nmt::decide(rule, *totals, *update);
  }
  void adam(ThreadPool& pool, const Update* update, int64_t n, float* g, float* m, float* v, float* p,
            float* average) override {
    pool.parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
      if (update->made)
        cpu::adam(update->adam, begin, end, g, m, v, p, average);
      else
        std::fill(g + begin, g + end, 0.f);
    });
  }
  std::unique_ptr<Recording> record(const std::function<void()>&) override { return nullptr; }
  uint64_t recordings_version() const override { return 0; }
  std::unique_ptr<Message> message(size_t) override { return std::make_unique<HostMessage>(); }
};

}  // namespace

std::shared_ptr<Backend> host_backend() {
  static const auto host = std::make_shared<Host>();
  return host;
}

FloatBuffer::FloatBuffer(std::shared_ptr<Backend> backend, size_t count, size_t room)
    : backend_(std::move(backend)), count_(count) {
  if (backend_->on_host()) {
    own_.resize(count);
    host_ = own_;
  } else {
    on_device_ = Buffer(backend_, std::max(count, room) * sizeof(float));
    backend_->zero(on_device_.data(), on_device_.bytes());
  }
}

FloatBuffer::FloatBuffer(std::shared_ptr<Backend> backend, std::span<float> borrowed, size_t room)
    : backend_(std::move(backend)), count_(borrowed.size()), host_(borrowed) {
  if (backend_->on_host()) return;
  on_device_ = Buffer(backend_, std::max(count_, room) * sizeof(float));
  backend_->zero(on_device_.data(), on_device_.bytes());
  upload();
}

std::span<float> FloatBuffer::host() const {
  if (host_.size() < count_) {
    own_.resize(count_);
    host_ = own_;
  }
  return host_;
}

void FloatBuffer::upload() {
  if (on_device_.data() != nullptr) backend_->upload(on_device_.data(), host().data(), count_ * sizeof(float));
}

void FloatBuffer::zero() {
  if (on_device_.data() != nullptr)
    backend_->zero(on_device_.data(), on_device_.bytes());
  else
    std::ranges::fill(host_, 0.f);
}

void FloatBuffer::download() {
  if (on_device_.data() != nullptr) backend_->download(host().data(), on_device_.data(), count_ * sizeof(float));
}

}  // namespace nmt
