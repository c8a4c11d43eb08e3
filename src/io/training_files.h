#pragma once

#include <cstdint>
#include <string>
#include <system_error>
#include <vector>

namespace nmt {

// The files of a training, beside its model PREFIX.safetensors. Numbered models are PREFIX.KINDnumber.safetensors.
class TrainingFiles {
 public:
  static inline const std::string kUpdate = "iter", kEpoch = "epoch";  // the kinds

  struct Numbered {
    int64_t number;
    std::string path;
  };

  // Throws UserError for a model whose name does not end in .safetensors, or has nothing before it.
  explicit TrainingFiles(const std::string& model);

  // Throws UserError for a model that another training, with these metrics, would take for one of its own.
  void refuse_numbered(const std::vector<std::string>& metrics) const;
  // Throws UserError for what an option names as a file of this training: its model, state, lock, a numbered model or
  // one that is best by a metric.
  void refuse_own(const std::string& option, const std::string& path) const;

  std::string state() const { return prefix_ + ".state"; }  // what a run goes on from
  std::string lock() const { return prefix_ + ".lock"; }    // which a run holds
  std::string best(const std::string& metric) const;
  std::string numbered(const std::string& kind, int64_t number) const;

  // The models of one kind that there are, by rising number. Throws UserError where the folder cannot be read.
  std::vector<Numbered> find(const std::string& kind) const;
  std::vector<Numbered> find_all() const;  // of both kinds
  std::vector<std::string> find_best(const std::vector<std::string>& metrics) const;
  // The last `count`, by rising number. kind may be empty where only one kind exists. Throws UserError.
  std::vector<std::string> last(const std::string& kind, int count) const;

  // Removes all models of a kind but the `keep` (at least 1) of highest number. If none of those that stay is a
  // whole file (a disk lost their data), the newest whole one stays as well.
  void remove_old(const std::string& kind, int keep) const;
  // Removes the models of higher numbers than these and, for no updates, the best by these metrics; returns what it
  // removed. Throws Error where it cannot.
  std::vector<std::string> remove_later(int64_t updates, int64_t epochs, const std::vector<std::string>& metrics) const;
  // Removes what runs that were killed left half written: files of AtomicFile's ending .tmp.PID or .tmp.PID.N,
  // where PID is no process, or this one.
  void remove_leftovers() const;

 private:
  template <class Visit>
  std::error_code for_each_file(Visit visit) const;

  std::string prefix_;  // with the folder
};

}  // namespace nmt
