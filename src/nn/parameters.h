#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/backend.h"
#include "graph/graph.h"

namespace nmt {

// All parameters of a model in one flat float32 buffer, gradients in a second of the same layout: one norm, one
// optimizer pass, one checkpoint write.
class Parameters {
 public:
  struct Entry {
    std::string name;
    Shape shape;
    int64_t offset;
  };

  // Appends a parameter; all are declared before allocate(). A name is declared once (std::logic_error).
  void declare(std::string name, const Shape& shape);
  // Takes memory, all zeros; gradients: for theirs too. room: see FloatBuffer.
  void allocate(bool gradients, const std::shared_ptr<Backend>& backend = host_backend(), size_t room = 0);
  // Takes somebody else's memory on the host for the values instead, size() floats that live as long as this object.
  void borrow(std::span<float> values, const std::shared_ptr<Backend>& backend = host_backend(), bool gradients = false,
              size_t room = 0);

  const std::vector<Entry>& entries() const { return entries_; }
  const Entry& entry(const std::string& name) const;  // std::logic_error where there is none
  int64_t size() const { return size_; }              // elements of all
  // On the host: on a device, see FloatBuffer, what was last brought from there or is to go there.
  std::span<float> values() { return values_.host(); }
  std::span<const float> values() const { return values_.host(); }
  std::span<float> gradients() { return gradients_.host(); }
  std::span<float> values(const Entry& e) { return values().subspan(static_cast<size_t>(e.offset), elements(e)); }
  std::span<const float> values(const Entry& e) const {
    return values().subspan(static_cast<size_t>(e.offset), elements(e));
  }
  std::span<float> gradients(const Entry& e) { return gradients().subspan(static_cast<size_t>(e.offset), elements(e)); }
  // Where ops read values and add gradients (none: null).
  FloatBuffer& value_buffer() { return values_; }
  const FloatBuffer& value_buffer() const { return values_; }
  FloatBuffer& gradient_buffer() { return gradients_; }

 private:
  static size_t elements(const Entry& e) { return static_cast<size_t>(e.shape.elements()); }

  std::vector<Entry> entries_;
  std::map<std::string, size_t> index_;
  int64_t size_ = 0;
  FloatBuffer values_, gradients_;
};

// The parameters as leaves of one graph.
class Leaves {
 public:
  Leaves(Graph& graph, Parameters& parameters, bool train) : graph_(graph), parameters_(parameters), train_(train) {}

  Graph& graph() { return graph_; }

  Expr operator[](const std::string& name) { return joined({name}); }
  // Matrices [n_i, k] declared one after another, as one [sum of n_i, k].
  Expr joined(std::initializer_list<std::string> names);

  // x, or in training dropout(x) at a site that goes by this name (masks can be looked up by it).
  Expr dropout(Expr x, double rate, const std::string& name);
  // Notes that the next site drawn from the graph goes by this name; returns the rate to use (0 outside training).
  float dropout_rate(double rate, const std::string& name);

  struct Site {
    std::string name;
    uint32_t number;
    float rate;
  };
  const std::vector<Site>& sites() const { return sites_; }

  // x, which can be asked for by this name when the graph has been built.
  Expr named(std::string name, Expr x);
  Expr find(const std::string& name) const;  // empty where there is none

 private:
  Graph& graph_;
  Parameters& parameters_;
  bool train_;
  std::map<std::pair<int64_t, size_t>, Expr> leaves_;  // by offset of the first and number of matrices
  std::vector<Site> sites_;
  std::vector<std::pair<std::string, Expr>> named_;
};

}  // namespace nmt
