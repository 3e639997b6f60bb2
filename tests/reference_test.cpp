// The reference against numbers that can be worked out by hand: it is what all other results are held to.
#include "reference.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace {

using reference::Index;
using reference::Values;

constexpr double infinity = std::numeric_limits<double>::infinity();

// Queries of zero weigh all keys alike, so the context is the mean of the places that a row sees.
reference::Result means_of_places(reference::Problem problem) {
  problem.head_dim = problem.v_head_dim = 1;
  Values v;
  for (Index key = 0; key < problem.kv_len; ++key)
    for (Index head = 0; head < problem.kv_heads; ++head) v.push_back(static_cast<double>(key + 100 * head));
  const Values zeros(static_cast<std::size_t>(problem.q_len * problem.heads + problem.kv_len * problem.kv_heads));
  return reference::attend(problem, zeros, zeros, v);
}

TEST(Reference, CausalRowsSeeTheirOwnPlaceAndAllBefore) {
  const auto result = means_of_places({.q_len = 2, .kv_len = 8, .visible = reference::causal(6)});
  EXPECT_EQ(result.context, (Values{3.0, 3.5}));
  EXPECT_DOUBLE_EQ(result.lse[0], std::log(7));
  EXPECT_DOUBLE_EQ(result.lse[1], std::log(8));
  EXPECT_DOUBLE_EQ(result.weights[6], 1.0 / 7);
  EXPECT_EQ(result.weights[7], 0);
}

TEST(Reference, RowsThatSeeNothingAreZero) {
  const auto result = means_of_places({.q_len = 3, .kv_len = 2, .visible = reference::causal(-2)});
  EXPECT_EQ(result.context, (Values{0, 0, 0}));
  EXPECT_EQ(result.lse, (Values{-infinity, -infinity, 0}));
}

TEST(Reference, HiddenKeysLeaveNoTrace) {
  const reference::Problem problem{.q_len = 1, .kv_len = 2, .visible = reference::causal(0)};
  EXPECT_EQ(reference::attend(problem, {1}, {1, NAN}, {5, infinity}).context, Values{5});
}

TEST(Reference, QueryHeadsShareKvHeadsInBlocks) {
  const auto result = means_of_places({.heads = 4, .kv_heads = 2, .q_len = 1, .kv_len = 1});
  EXPECT_EQ(result.context, (Values{0, 0, 100, 100}));
}

TEST(Reference, LargeLogitsDoNotOverflow) {
  const reference::Problem problem{.q_len = 1, .kv_len = 2};
  const auto result = reference::attend(problem, {151}, {1, 1}, {2, 4});
  EXPECT_EQ(result.context, Values{3});
  EXPECT_DOUBLE_EQ(result.lse[0], 151 + std::log(2));
}

TEST(Reference, TransformAndFactorSeeTheirPlaces) {
  reference::Problem problem{.q_len = 1, .kv_len = 2};
  problem.transform = [](double logit, Index, Index, Index key) { return logit + (key == 1 ? std::log(3) : 0); };
  problem.factor = [](Index, Index, Index key) { return key == 0 ? 0.0 : 2.0; };
  EXPECT_DOUBLE_EQ(reference::attend(problem, {0}, {0, 0}, {7, 4}).context[0], 6);
}

TEST(Reference, RotatesPairsOfBothStyles) {
  const auto half = reference::rotate({1, 0, 0, 0}, reference::Pairing::half_split, 1, 4, 4, 10000, {1});
  EXPECT_NEAR(half[0], 0.540302306, 1e-9);
  EXPECT_NEAR(half[2], 0.841470985, 1e-9);
  const auto interleaved = reference::rotate({0, 0, 1, 0, 9, 9}, reference::Pairing::interleaved, 1, 6, 4, 10000, {1});
  EXPECT_NEAR(interleaved[2], 0.999950000, 1e-9);
  EXPECT_NEAR(interleaved[3], 0.009999833, 1e-9);
  EXPECT_EQ(interleaved[4], 9);
  EXPECT_EQ(interleaved[5], 9);
}

TEST(Reference, LayerProjectsInAndOut) {
  reference::Layer layer{.hidden = 2};
  layer.query = layer.key = {0, 0};
  layer.value = {1, 10};
  layer.value_bias = {0.5};
  layer.output = {1, 2};
  layer.output_bias = {0, 1};
  const auto result = reference::forward(layer, {1, 1, 3, 1});
  EXPECT_EQ(result.values, (Values{11.5, 13.5}));
  EXPECT_EQ(result.y, (Values{11.5, 24, 12.5, 26}));
}

}  // namespace
