// Wrong masks of a forward: flags and offsets of other shapes, and rows that see keys which are not there yet.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "errors/refusal.hpp"
#include "lockstep/lockstep.hpp"

namespace ls = lockstep;
using errors::invalid;
using ls::Index;
using ls::View;

namespace {

template <class Mask>
struct Scene {
  using Layer = ls::Attention<float, 2, 2, Mask>;
  static Layer make() {
    static const std::vector<float> numbers(64, 0.1F);
    const auto matrix = View<const float, 2>::contiguous(numbers.data(), {4, 4});
    return Layer({.hidden = 4, .head_dim = 2}, {.query = matrix, .key = matrix, .value = matrix, .output = matrix});
  }
  Scene() : layer(make()) {
    for (Index b = 0; b < 2; ++b) caches.push_back(layer.make_cache(8));
  }
  auto x_view() const { return View<const float, 3>::contiguous(x.data(), {2, 3, 4}); }
  auto y_view() { return View<float, 3>::contiguous(y.data(), {2, 3, 4}); }

  // Refused with this message by check() and by forward(), with the caches or without, and nothing was written.
  void refuses(const Mask& mask, bool cached, const errors::Refusal& refusal) {
    const typename Layer::Options options{.mask = &mask};
    const auto before = y;
    const ls::Status status =
        cached ? layer.check(x_view(), caches, y_view(), options) : layer.check(x_view(), y_view(), options);
    EXPECT_TRUE(errors::is_refusal({status.code(), status.message()}, refusal));
    const auto raised = errors::outcome_of([&] {
      cached ? layer.forward(x_view(), caches, y_view(), options) : layer.forward(x_view(), y_view(), options);
    });
    EXPECT_EQ(raised.message, status.message());
    EXPECT_EQ(raised.code, status.code());
    EXPECT_EQ(y, before);
    EXPECT_EQ(caches[0].length() + caches[1].length(), 0);
  }
  void takes(const Mask& mask, bool cached) {
    const typename Layer::Options options{.mask = &mask};
    EXPECT_EQ(errors::outcome_of([&] {
                cached ? layer.forward(x_view(), caches, y_view(), options)
                       : layer.forward(x_view(), y_view(), options);
              }).message,
              "");
  }

  Layer layer;
  std::vector<typename Layer::Cache> caches;
  alignas(Index) std::array<float, 24> x{}, y{};
};

const std::array<bool, 64> flags{};
ls::KeyPadding padding(Index batch, Index keys) {
  return ls::KeyPadding(View<const bool, 2>::contiguous(flags.data(), {batch, keys}));
}

TEST(MaskErrors, FlagsMustCoverSequencesAndKeys) {
  using Mask = ls::And<ls::Causal, ls::KeyPadding>;
  for (const bool cached : {true, false}) {
    Scene<Mask> scene;
    scene.refuses({{}, padding(1, 3)}, cached, {invalid, "mask", "[1, 3]", "[2, 3]"});
    scene.refuses({{}, padding(2, 2)}, cached, {invalid, "mask", "[2, 2]", "[2, 3]"});
    scene.refuses({}, cached, {invalid, "mask", "[0, 0]", "[2, 3]"});
    scene.refuses({{}, ls::KeyPadding(View<const bool, 2>::contiguous(nullptr, {2, 3}))}, cached,
                  {invalid, "mask", "null", "[2, 3]"});
    scene.takes({{}, padding(2, 5)}, cached);
  }
}

TEST(MaskErrors, WhatAMaskBorrowsIsNotWrittenOver) {
  Scene<ls::And<ls::Causal, ls::KeyPadding>> flagged;
  const auto* in_y = reinterpret_cast<const bool*>(flagged.y.data() + 3);
  flagged.refuses({{}, ls::KeyPadding(View<const bool, 2>::contiguous(in_y, {2, 3}))}, true,
                  {invalid, "y", "overlaps mask", "its own"});
  Scene<ls::OffsetCausal> placed;
  const std::span<const Index> offsets(reinterpret_cast<const Index*>(placed.y.data()), 2);
  placed.refuses(ls::OffsetCausal(offsets), false, {invalid, "y", "overlaps mask", "its own"});
}

TEST(MaskErrors, TheLayersOwnMaskIsCheckedToo) {
  Scene<ls::And<ls::Causal, ls::KeyPadding>> scene;
  EXPECT_FALSE(scene.layer.check(scene.x_view(), scene.y_view()).ok());
  EXPECT_THROW(scene.layer.forward(scene.x_view(), scene.y_view()), std::invalid_argument);
}

TEST(MaskErrors, OffsetsMustCoverTheSequences) {
  const std::array<Index, 1> offsets{0};
  for (const bool cached : {true, false}) {
    Scene<ls::OffsetCausal> scene;
    scene.refuses(ls::OffsetCausal(std::span<const Index>(offsets)), cached,
                  {invalid, "mask", "1 offsets", "each of 2"});
    for (const Index far : {std::numeric_limits<Index>::max(), std::numeric_limits<Index>::min()}) {
      scene.refuses(ls::OffsetCausal(far), cached, {invalid, "mask", std::to_string(far), "2^62"});
      const std::array<Index, 2> each{0, far};
      scene.refuses(ls::OffsetCausal(std::span<const Index>(each)), cached,
                    {invalid, "mask", std::to_string(far), "2^62"});
    }
    scene.takes(ls::OffsetCausal(Index{-7}), cached);
  }
}

TEST(MaskErrors, AChunkMayNotEndBeforeAKeyThatItsRowsSee) {
  Scene<ls::OffsetCausal> ahead;
  ahead.refuses(ls::OffsetCausal(Index{1}), true, {invalid, "mask", "key 3", "row 2"});
  ahead.takes(ls::OffsetCausal(Index{1}), false);
  Scene<ls::NoMask> none;
  none.refuses({}, true, {invalid, "mask", "key 3", "without a cache"});
  none.takes({}, false);
}

TEST(MaskErrors, AWindowOfNoKeysIsRefusedByTheConstructor) {
  const std::vector<float> numbers(16, 0.1F);
  const auto matrix = View<const float, 2>::contiguous(numbers.data(), {4, 4});
  const ls::LayerWeights<float> weights{.query = matrix, .key = matrix, .value = matrix, .output = matrix};
  const ls::LayerShape shape{.hidden = 4, .head_dim = 2};
  const auto refusal = [&]<class Mask>(const Mask& mask) {
    return errors::outcome_of([&] { ls::Attention<float, 2, 2, Mask> layer(shape, weights, mask); });
  };
  EXPECT_TRUE(errors::is_refusal(refusal(ls::SlidingWindow{0}), {invalid, "mask", "0 keys", "at least 1"}));
  EXPECT_TRUE(errors::is_refusal(refusal(ls::SlidingWindow{4, -1}), {invalid, "mask", "-1 sinks", "at least 0"}));
  EXPECT_TRUE(
      errors::is_refusal(refusal(ls::Causal{} & ls::SlidingWindow{-3}), {invalid, "mask", "-3 keys", "at least 1"}));
  EXPECT_TRUE(errors::is_refusal(refusal(ls::PrefixLm(Index{-1})), {invalid, "mask", "-1 keys", "at least 0"}));
  EXPECT_EQ(refusal(ls::SlidingWindow{1}).message, "");
}

TEST(MaskErrors, ACallsOwnWindowIsRefusedBeforeAnythingIsWritten) {
  using Mask = ls::And<ls::Causal, ls::Window>;
  for (const bool cached : {true, false}) {
    Scene<Mask> scene;
    scene.refuses({{}, {-1, 0}}, cached, {invalid, "mask", "-1 keys before", "at least 0"});
    scene.takes({{}, {2, 0}}, cached);
  }
  const std::array<float, 4> q{};
  std::array<float, 4> context{7, 7, 7, 7};
  ls::ContiguousCache<float> cache({1, 2, 2}, 4);
  cache.append(View<const float, 3>::contiguous(q.data(), {2, 1, 2}),
               View<const float, 3>::contiguous(q.data(), {2, 1, 2}));
  const auto query = View<const float, 3>::contiguous(q.data(), {1, 2, 2});
  const auto out = View<float, 3>::contiguous(context.data(), {1, 2, 2});
  const auto raised = errors::outcome_of([&] { ls::attend<ls::SlidingWindow>(query, cache, out); });
  EXPECT_TRUE(errors::is_refusal(raised, {invalid, "mask", "0 keys", "at least 1"}));
  EXPECT_STREQ(ls::check_attend<ls::SlidingWindow>(query, cache, out).message(), raised.message.c_str());
  EXPECT_EQ(context, (std::array<float, 4>{7, 7, 7, 7}));
}

TEST(MaskErrors, ArraysMustBroadcastToTheCallsHeadsAndRows) {
  const auto mask = [](std::array<Index, 4> extents) {
    return ls::BooleanMask(View<const bool, 4>::contiguous(flags.data(), extents));
  };
  for (const bool cached : {true, false}) {
    Scene<ls::BooleanMask> scene;
    scene.refuses(mask({2, 3, 3, 2}), cached, {invalid, "mask", "[2, 3, 3, 2]", "[2, 2, 3]"});
    scene.refuses(mask({3, 1, 1, 3}), cached, {invalid, "mask", "[3, 1, 1, 3]", "[2, 2, 3]"});
    scene.refuses(mask({1, 1, 2, 3}), cached, {invalid, "mask", "[1, 1, 2, 3]", "[2, 2, 3]"});
    scene.refuses({}, cached, {invalid, "mask", "[0, 0, 0, 0]", "[2, 2, 3]"});
    scene.takes(mask({2, 1, 3, 3}), cached);
  }
}

TEST(MaskErrors, AnArrayThatShowsLaterKeysIsRefusedWithACache) {
  std::array<bool, 2 * 3 * 5> shown{};
  shown[3 * 5 + 4] = true;  // the second head's first row sees key 4
  const ls::BooleanMask mask(View<const bool, 4>::contiguous(shown.data(), {1, 2, 3, 5}));
  Scene<ls::BooleanMask> scene;
  scene.refuses(mask, true, {invalid, "mask", "key 3", "row 0"});
  scene.takes(mask, false);
}

TEST(MaskErrors, PaddingAloneSeesLaterKeys) {
  Scene<ls::KeyPadding> scene;
  scene.refuses(padding(2, 3), true, {invalid, "mask", "key 3", "without a cache"});
  scene.takes(padding(2, 3), false);
}

}  // namespace
