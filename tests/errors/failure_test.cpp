// What fails in the middle of a forward leaves every cache as it was.
#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>
#include <vector>

#include "lockstep/lockstep.hpp"

namespace ls = lockstep;
using ls::Index;
using ls::View;

namespace {

// A cache of a user's that fails when it is told to.
class Failing : public ls::ContiguousCache<float> {
 public:
  using ls::ContiguousCache<float>::ContiguousCache;
  void append(View<const float, 3> keys, View<const float, 3> values) {
    if (appends_left == 0) throw std::runtime_error("the disk is full");
    --appends_left;
    ls::ContiguousCache<float>::append(keys, values);
  }
  int appends_left = 1000;
};

using Layer = ls::Attention<float, 2, 1, Failing>;

class ForwardThatFails : public testing::Test {
 protected:
  ForwardThatFails() {
    const auto matrix = [this](Index rows, Index columns) {
      return View<const float, 2>::contiguous(numbers.data(), {rows, columns});
    };
    layer.emplace(ls::LayerShape{.hidden = 4, .head_dim = 2},
                  ls::LayerWeights<float>{
                      .query = matrix(4, 4), .key = matrix(2, 4), .value = matrix(2, 4), .output = matrix(4, 4)});
    for (int b = 0; b < 3; ++b) caches.push_back(layer->make_cache(1000));
  }
  View<const float, 3> x(Index batch, Index q_len) const {
    return View<const float, 3>::contiguous(in.data(), {batch, q_len, 4});
  }
  View<float, 3> y(Index batch, Index q_len) { return View<float, 3>::contiguous(out.data(), {batch, q_len, 4}); }

  std::vector<float> numbers = std::vector<float>(16, 0.5F), in = std::vector<float>(9000, 0.25F),
                     out = std::vector<float>(9000);
  std::optional<Layer> layer;
  std::vector<Failing> caches;
};

TEST_F(ForwardThatFails, InOneSequenceOfABatchLeavesAllAsTheyWere) {
  layer->forward(x(3, 5), caches, y(3, 5));
  caches[1].appends_left = 0;
  EXPECT_THROW(layer->forward(x(3, 2), caches, y(3, 2)), std::runtime_error);
  for (const Failing& cache : caches) EXPECT_EQ(cache.length(), 5);
}

TEST_F(ForwardThatFails, InALaterChunkTakesBackTheEarlierOnes) {
  caches[0].appends_left = 1;
  EXPECT_THROW(layer->forward(x(1, 600), caches[0], y(1, 600)), std::runtime_error);
  EXPECT_EQ(caches[0].length(), 0);
}

TEST_F(ForwardThatFails, CanBeRepeatedWithTheSameBits) {
  auto& cache = caches[0];
  layer->forward(x(1, 7), cache, y(1, 7));
  const std::vector<float> expected(out);
  cache.truncate(3);
  cache.appends_left = 0;
  EXPECT_THROW(layer->forward(x(1, 4), cache, y(1, 4)), std::runtime_error);
  cache.appends_left = 1;
  layer->forward(x(1, 4), cache, y(1, 4));
  EXPECT_EQ(cache.length(), 7);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(out[12 + i], expected[24 + i]);
}

}  // namespace
