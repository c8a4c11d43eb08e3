#pragma once

#include <span>

#include "graph/graph.h"

namespace nmt {

// The patterns that models are full of and the ops that compute them in one go; src/tests/ops/fusion_test.cpp holds one
// test for each: fused equals composed, forward and backward.
//   - add(linear(x, w), bias): linear with bias
//   - relu(linear): linear with ReLU
//   - add(g, linear): linear that adds to g (gradients of residual connections)
//   - relu_gradient(y, linear): linear whose product becomes the gradient
//   - layer_norm(add(x, dropout(y))): layer_norm with residual and dropout
//   - merge_heads(dropout(softmax(mask(scale(q k^T)))) v): attention
//   - cross_entropy(linear(x, w)): project_cross_entropy
std::span<const FusionRule> fusion_rules();

}  // namespace nmt
