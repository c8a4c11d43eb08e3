#include "train/replicas.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <mutex>

#include "backend/cpu/gemm.h"
#include "base/error.h"
#include "base/math.h"
#include "config/computing.h"
#include "ops/fusion.h"
#include "train/pair_input.h"

namespace nmt {
namespace {

constexpr int64_t kShareAlign = 64;  // floats: shares begin where vectors may

}  // namespace

Replicas::Replicas(const TrainOptions& options, Model& model) : options_(options), model_(model) {
  const auto backends = backends_of(options.devices);
  if (!backends.front()->on_host()) model.transformer.config().validate_for_devices();
  const DType compute = compute_type(options.precision, backends, cpu::multiplies_bf16());
  const size_t n = backends.size();
  share_ = round_up(divide_up(model.parameters.size(), static_cast<int64_t>(n)), kShareAlign);
  const auto room = n == 1 ? 0 : static_cast<size_t>(share_) * n;
  auto communicators = n == 1 ? std::vector<std::unique_ptr<cuda::Communicator>>(1) : connect(backends);
  for (size_t i = 0; i < n; ++i) {
    const int threads = i == 0 ? threads_or_all(options.threads) : 1;
    auto replica = std::make_unique<Replica>(threads, compute, backends[i]);
    replica->others = std::move(communicators[i]);
    if (n > 1) replica->worker = std::make_unique<Worker>();
    if (i == 0) {
      model.parameters.allocate(true, backends[i], room);
      replica->parameters = &model.parameters;
    } else {
      replica->own = std::make_unique<Parameters>();
      model.transformer.declare(*replica->own);
      replica->own->borrow(model.parameters.values(), backends[i], true, room);
      replica->parameters = replica->own.get();
    }
    replica->runtime.seed = options.seed;
    replicas_.push_back(std::move(replica));
  }
}

std::string Replicas::names() const {
  std::vector<std::shared_ptr<Backend>> backends;
  for (const auto& replica : replicas_) backends.push_back(replica->runtime.backend());
  return names_of(backends);
}

DType Replicas::sent() const { return options_.exchange_precision == "bf16" ? DType::kBF16 : DType::kF32; }

int64_t Replicas::begin_of(size_t rank) const {
  return std::min(static_cast<int64_t>(rank) * share_, model_.parameters.size());
}

// Each on a thread of its own, as they wait for one another. Where one fails the others are told, and the first failure
// is thrown.
void Replicas::each(const std::function<void(Replica&, size_t)>& work) {
  if (replicas_.size() == 1) return work(*replicas_.front(), 0);
  std::mutex mutex;
  std::exception_ptr failure;
  const auto or_abort = [&](Replica& replica, const auto& attempt) {
    try {
      attempt();
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (failure) return;
      failure = std::current_exception();
      try {
        replica.others->abort();
      } catch (...) {  // that one comes first
      }
    }
  };
  for (size_t rank = 0; rank < replicas_.size(); ++rank) {
    Replica& replica = *replicas_[rank];
    or_abort(replica, [&] { replica.worker->begin([&, rank] { or_abort(replica, [&] { work(replica, rank); }); }); });
  }
  // For all, whatever fails: they use what is here.
  for (const auto& replica : replicas_) or_abort(*replica, [&] { replica->worker->wait(); });
  if (failure) std::rethrow_exception(failure);
}

void Replicas::start(Moments& moments, const Update& last) {
  advise_on_memory(kAdvice, [&] {
    for (size_t rank = 0; rank < replicas_.size(); ++rank)
      replicas_[rank]->optimizer = std::make_unique<Optimizer>(replicas_[rank]->runtime.backend(), moments,
                                                               begin_of(rank), begin_of(rank + 1), last);
  });
  upload_values();
}

// With its gradients.
Expr Replicas::loss(Replica& replica, Graph& graph, const PairInput& input, const float* weight) const {
  Leaves leaves(graph, *replica.parameters, true);
  const Expr loss = model_.transformer.loss(leaves, input, weight, options_.label_smoothing);
  graph.backward(loss);
  return loss;
}

void Replicas::reserve(const Batch& largest_part) {
  each([&](Replica& replica, size_t) {
    const Batch& b = largest_part;
    const PairInput input = pair_input(b);
    const float weight = 1;
    Graph graph(replica.runtime, fusion_rules());
    graph.reserve({loss(replica, graph, input, &weight)});
    if (replica.others != nullptr) replica.others->reserve(share_, sent());
  });
  if (on_host()) return;
  const PhaseScope phase(first().profile, "start");
  Batch small;  // a pair for each
  for (size_t rank = 0; rank < replicas_.size(); ++rank) {
    small.source.push_back(model_.transformer.config().source_eos);
    small.target.push_back(model_.transformer.config().eos);
    small.close_pair(static_cast<int64_t>(rank));
  }
  accumulate({small}, small.sentences(), 0);
  UpdateRule skip;
  skip.loss_scale = 0;  // what is divided by it is no number: the update is skipped
  update(skip);
  outcome();
}

double Replicas::flops(const Batch& b) {
  Replica& replica = *replicas_.front();
  const PairInput input = pair_input(b);
  const float weight = 1;
  Graph graph(replica.runtime, fusion_rules());
  return graph.flops({loss(replica, graph, input, &weight)});
}

int64_t Replicas::used() const { return replicas_.front()->runtime.backend()->used(); }
int64_t Replicas::peak() const { return replicas_.front()->runtime.backend()->peak(); }

void Replicas::accumulate(const std::vector<Batch>& batches, int64_t tokens, int64_t step, double loss_scale) {
  const float weight = static_cast<float>(loss_scale) / static_cast<float>(tokens);
  const auto n = static_cast<int64_t>(replicas_.size());
  each([&](Replica& replica, size_t rank) {
    replica.optimizer->begin_update();
    for (size_t i = 0; i < batches.size(); ++i) {
      const auto place = static_cast<int64_t>(rank);
      const Batch part = n == 1 ? Batch() : batches[i].part(place, n);
      const Batch& b = n == 1 ? batches[i] : part;
      if (b.sentences() == 0) continue;
      Runtime& runtime = replica.runtime;
      runtime.step = static_cast<uint32_t>((step + static_cast<int64_t>(i)) * n + place);
      runtime.profile.enter("forward");  // of what is timed op by op the runtime says where it turns
      const PairInput input = pair_input(b);
      Graph graph(runtime, fusion_rules());
      const Expr mean = loss(replica, graph, input, &weight);
      graph.run({mean});
      replica.optimizer->add_loss(static_cast<const float*>(graph.place(mean)));
    }
  });
  // Not before all have begun all of that: one that takes memory may wait for devices that wait for what it sends.
  each([&](Replica& replica, size_t) {
    float* gradients = replica.parameters->gradient_buffer().data();
    if (replica.others != nullptr) replica.others->reduce_scatter(gradients, share_, sent());
    replica.optimizer->take_squares(replica.runtime.pool(), gradients);
    if (replica.others != nullptr)
      replica.others->all_reduce(&replica.optimizer->totals()->squares, sizeof(UpdateTotals) / sizeof(double));
  });
}

void Replicas::update(const UpdateRule& rule) {
  each([&](Replica& replica, size_t) {
    replica.optimizer->update(replica.runtime.pool(), rule, *replica.parameters);
    if (replica.others != nullptr) {
      replica.others->all_gather(replica.parameters->value_buffer().data(), share_);
      replica.parameters->gradient_buffer().zero();
    }
    replica.runtime.parameters_changed();
  });
}

// All decide the same.
Update Replicas::outcome() {
  Update update;
  each([&](Replica& replica, size_t rank) {
    const Update its = replica.optimizer->outcome();
    if (rank == 0) update = its;
  });
  return update;
}

double Replicas::gradient_norm(int64_t begin, int64_t n) {
  synchronize();
  double squares = 0;
  for (size_t rank = 0; rank < replicas_.size(); ++rank) {
    const int64_t from = std::max(begin, begin_of(rank)), to = std::min(begin + n, begin_of(rank + 1));
    if (from >= to) continue;
    Replica& replica = *replicas_[rank];
    const double part = norm(replica.runtime, to - from, replica.parameters->gradient_buffer().data() + from);
    squares += part * part;
  }
  return std::sqrt(squares);
}

// Where one waits for all of them, a device that fails is noticed, and lets the others go on.
void Replicas::synchronize() {
  each([](Replica& replica, size_t) { replica.runtime.backend()->synchronize(); });
}

void Replicas::upload_values() {
  synchronize();
  for (const auto& replica : replicas_) {
    replica->parameters->value_buffer().upload();
    replica->runtime.parameters_changed();
  }
}

void Replicas::download() {
  synchronize();
  model_.parameters.value_buffer().download();
  for (const auto& replica : replicas_) replica->optimizer->download();
}

}  // namespace nmt
