#include "lockstep/cache/model_cache.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "lockstep/lockstep.hpp"

namespace ls = lockstep;
using ls::Index;

namespace {

using Float = ls::ContiguousCache<float>;
using Brain = ls::ContiguousCache<Eigen::bfloat16>;
using Mixed = ls::ModelCache<Float, Brain>;

template <class K>
void append(K& cache, Index tokens) {
  const auto [heads, dim, v_dim] = cache.shape();
  const std::vector<float> keys(static_cast<std::size_t>(tokens * heads * dim), 1.5F),
      values(static_cast<std::size_t>(tokens * heads * v_dim), 2.5F);
  cache.append(ls::View<const float, 3>::contiguous(keys.data(), {tokens, heads, dim}),
               ls::View<const float, 3>::contiguous(values.data(), {tokens, heads, v_dim}));
}

Mixed three_layers(Index capacity = 10, Index last_capacity = 10) {
  Mixed caches;
  caches.add(Float({1, 2, 2}, capacity));
  caches.add(Brain({2, 4, 4}, capacity));
  caches.add(Float({1, 8, 8}, last_capacity));
  return caches;
}

std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const std::logic_error& error) {
    return error.what();
  }
  return "";
}

TEST(ModelCache, HoldsLayersOfDifferentCaches) {
  Mixed caches = three_layers();
  EXPECT_EQ(caches.layers(), 3);
  EXPECT_EQ(caches.layer(0).shape().head_dim, 2);
  EXPECT_EQ(caches.layer<Brain>(1).shape().head_dim, 4);
  EXPECT_EQ(caches.layer<Float>(2).shape().head_dim, 8);
  EXPECT_EQ(caches.bytes(), caches.layer(0).bytes() + caches.layer<Brain>(1).bytes() + caches.layer(2).bytes());
  EXPECT_NE(refusal([&] { caches.layer<Brain>(0); }).find("layer"), std::string::npos);
  EXPECT_NE(refusal([&] { caches.layer(1); }).find("another type"), std::string::npos);
  EXPECT_EQ(refusal([&] { caches.layer(3); }), "lockstep: layer: given 3, allowed 0 to 2");
  EXPECT_EQ(refusal([&] { caches.layer(-1); }), "lockstep: layer: given -1, allowed 0 to 2");
}

TEST(ModelCache, HandsOnePositionToEveryLayer) {
  Mixed caches = three_layers();
  auto step = caches.begin(4);
  EXPECT_EQ(step.offset, 0);
  EXPECT_EQ(step.tokens, 4);
  append(caches.layer(0), 4);
  append(caches.layer<Brain>(1), 4);
  append(caches.layer(2), 4);
  EXPECT_EQ(step.offset, 0);
  step = caches.begin(1);
  EXPECT_EQ(step.offset, 4);
  EXPECT_EQ(caches.length(), 4);
}

// The first layer's ring has come round, and gives up a place with every token.
TEST(ModelCache, RollsRingsBackToAllThatTheyHeld) {
  ls::ModelCache<ls::RingCache<float>, Float> caches;
  caches.add(ls::RingCache<float>({1, 2, 2}, 20, 30));
  caches.add(Float({1, 2, 2}, 2000));
  auto& ring = caches.layer(0);
  for (int i = 0; i < 60; ++i) append(ring, 10);
  append(caches.layer<Float>(1), 600);
  const Index first = ring.first(), reach = 31;
  ASSERT_EQ(first, 600 - ring.held());
  const auto step = caches.begin(reach);
  append(ring, 31);
  EXPECT_EQ(ring.first(), first + reach);
  caches.rollback(step);
  EXPECT_EQ(ring.first(), first);
  EXPECT_EQ(caches.length(), 600);
  append(ring, 31);
  append(caches.layer<Float>(1), 31);
  caches.truncate(600);
  EXPECT_EQ(ring.first(), first + reach);
}

TEST(ModelCache, RefusesLayersThatTogetherWantMorePagesThanTheirPoolHas) {
  const ls::PagePool<float> pool({1, 2, 2}, 3), another({1, 2, 2}, 1);
  ls::ModelCache<Float, ls::PagedCache<float>> caches;
  caches.add(ls::PagedCache<float>(pool));
  caches.add(Float({1, 2, 2}, 2000));
  caches.add(ls::PagedCache<float>(pool));
  EXPECT_TRUE(caches.check_begin(256).ok());
  EXPECT_EQ(refusal([&] { caches.begin(257); }),
            "lockstep: pages: given appends to 2 caches that need 4 together, allowed 3: the pool has no more");
  caches.add(ls::PagedCache<float>(another, 1000));
  EXPECT_TRUE(caches.check_begin(256).ok());
  EXPECT_EQ(std::string(caches.check_begin(257).message()),
            "lockstep: pages: given an append that needs 2, allowed 1: the pool has no more");
  EXPECT_EQ(pool.free_pages() + another.free_pages(), 4);
}

TEST(ModelCache, RefusesLayersThatAreNotAtOnePosition) {
  Mixed caches = three_layers();
  append(caches.layer(0), 4);
  EXPECT_FALSE(caches.check_begin(1).ok());
  EXPECT_EQ(refusal([&] { caches.begin(1); }), caches.check_begin(1).message());
  EXPECT_NE(std::string(caches.check_begin(1).message()).find("lengths 4 and 0"), std::string::npos);

  Float ahead({1, 2, 2}, 10);
  append(ahead, 1);
  Mixed fresh;
  fresh.add(Float({1, 2, 2}, 10));
  EXPECT_EQ(refusal([&] { fresh.add(ahead); }), "lockstep: cache: given length 1, allowed the other layers' 0");
  EXPECT_EQ(fresh.layers(), 1);
}

TEST(ModelCache, RefusesAStepThatAnyLayerHasNoRoomFor) {
  Mixed caches = three_layers(10, 6);
  EXPECT_TRUE(caches.check_begin(6).ok());
  EXPECT_EQ(caches.check_begin(7).code(), ls::StatusCode::length_error);
  EXPECT_THROW(caches.begin(7), std::length_error);
  EXPECT_THROW(caches.begin(-1), std::length_error);
}

TEST(ModelCache, RollsBackAForwardThatFailedBetweenLayers) {
  Mixed caches = three_layers();
  append(caches.layer(0), 3);
  append(caches.layer<Brain>(1), 3);
  append(caches.layer(2), 3);
  const auto step = caches.begin(2);
  append(caches.layer(0), 2);
  append(caches.layer<Brain>(1), 2);
  EXPECT_FALSE(caches.check_begin(1).ok());
  caches.rollback(step);
  EXPECT_TRUE(caches.check_begin(2).ok());
  EXPECT_EQ(caches.length(), 3);
  EXPECT_EQ(caches.layer<Brain>(1).length(), 3);
  EXPECT_EQ(caches.layer(2).length(), 3);
}

TEST(ModelCache, TruncatesAllLayersOrNone) {
  Mixed caches = three_layers();
  append(caches.layer(0), 5);
  append(caches.layer<Brain>(1), 5);
  append(caches.layer(2), 2);
  EXPECT_THROW(caches.truncate(3), std::invalid_argument);
  EXPECT_THROW(caches.truncate(-1), std::invalid_argument);
  EXPECT_EQ(caches.layer(0).length(), 5);
  EXPECT_EQ(caches.layer<Brain>(1).length(), 5);
  caches.truncate(2);
  EXPECT_TRUE(caches.check_begin(1).ok());
  EXPECT_EQ(caches.length(), 2);
  append(caches.layer(0), 1);
  caches.clear();
  EXPECT_EQ(caches.length(), 0);
  EXPECT_EQ(caches.layer(0).length(), 0);
}

TEST(ModelCache, WithoutLayersStandsAtTheStart) {
  Mixed caches;
  EXPECT_EQ(caches.layers(), 0);
  EXPECT_EQ(caches.length(), 0);
  EXPECT_EQ(caches.bytes(), 0);
  EXPECT_TRUE(caches.check_begin(100).ok());
  EXPECT_THROW(caches.layer(0), std::invalid_argument);
}

TEST(ModelCache, DrivesLayersOfDifferentPolicies) {
  std::vector<float> numbers(8 * 8);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = 0.01F * static_cast<float>(i % 17) - 0.05F;
  const auto square = [&](Index out, Index in) {
    return ls::View<const float, 2>::contiguous(numbers.data(), {out, in});
  };
  const ls::LayerWeights<float> weights{
      .query = square(8, 8), .key = square(4, 8), .value = square(4, 8), .output = square(8, 8)};
  const ls::Attention<float, 4, 2, ls::Rope<ls::HalfSplit>> first{{.hidden = 8, .head_dim = 2}, weights};
  const ls::Attention<float, 4, 2, ls::ContiguousCache<Eigen::bfloat16>> second{{.hidden = 8, .head_dim = 2}, weights};
  Mixed caches;
  caches.add(first.make_cache(8));
  caches.add(second.make_cache(8));
  Eigen::Matrix<float, 3, 8, Eigen::RowMajor> x = Eigen::Map<const Eigen::Matrix<float, 3, 8, Eigen::RowMajor>>(
                                                  numbers.data()),
                                              y, z;
  for (int round = 0; round < 2; ++round) {
    const auto step = caches.begin(3);
    first.forward(x, caches.layer(0), y, {.offset = step.offset});
    second.forward(y, caches.layer<Brain>(1), z, {.offset = step.offset});
  }
  EXPECT_EQ(caches.length(), 6);
  EXPECT_EQ(caches.layer<Brain>(1).length(), 6);
  const auto step = caches.begin(1);
  append(caches.layer<Brain>(1), 1);  // a layer that is a step ahead is refused
  EXPECT_THROW(second.forward(y, caches.layer<Brain>(1), z, {.offset = step.offset}), std::invalid_argument);
}

}  // namespace
