// One const layer in several threads at once, each with a cache of its own.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "lockstep/lockstep.hpp"

namespace ls = lockstep;
using ls::Index;
using ls::View;

namespace {

using Layer = ls::Attention<float, 6, 2, ls::Rope<ls::HalfSplit>>;
constexpr Index hidden = 24, tokens = 40;

const Layer& shared_layer() {
  static const Layer layer = [] {
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0, 0.2F);
    std::vector<float> numbers(static_cast<std::size_t>(48 * hidden));
    for (float& x : numbers) x = normal(random);
    const auto matrix = [&](Index out, Index in) {
      return View<const float, 2>::contiguous(numbers.data(), {out, in});
    };
    return Layer({.hidden = hidden, .head_dim = 8}, {.query = matrix(48, hidden),
                                                     .key = matrix(16, hidden),
                                                     .value = matrix(16, hidden),
                                                     .output = matrix(hidden, 48)});
  }();
  return layer;
}

using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Prefill of all tokens but four, then one at a time; then all of them again without a cache, which has the same bits.
std::vector<float> run(unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Rows x(tokens, hidden), y(tokens, hidden), full(tokens, hidden);
  for (Index i = 0; i < x.size(); ++i) x.data()[i] = normal(random);
  auto cache = shared_layer().make_cache(tokens);
  shared_layer().forward(x.topRows(tokens - 4), cache, y.topRows(tokens - 4));
  for (Index i = tokens - 4; i < tokens; ++i) shared_layer().forward(x.row(i), cache, y.row(i));
  shared_layer().forward(x, full);
  EXPECT_EQ(std::memcmp(y.data(), full.data(), static_cast<std::size_t>(y.size()) * sizeof(float)), 0);
  return {y.data(), y.data() + y.size()};
}

TEST(Layer, GivesTheSameBitsInFourThreadsAtOnce) {
  std::array<std::vector<float>, 4> alone, together;
  for (unsigned i = 0; i < 4; ++i) alone[i] = run(i);
  for (int round = 0; round < 5; ++round) {
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 4; ++i) threads.emplace_back([&together, i] { together[i] = run(i); });
    for (std::thread& t : threads) t.join();
    for (unsigned i = 0; i < 4; ++i)
      EXPECT_EQ(std::memcmp(together[i].data(), alone[i].data(), alone[i].size() * sizeof(float)), 0) << i;
  }
}

}  // namespace
