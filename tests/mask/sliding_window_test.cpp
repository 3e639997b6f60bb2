#include "lockstep/mask/causal.hpp"

#include <gtest/gtest.h>

#include "lockstep/mask/compose.hpp"

namespace ls = lockstep;
using ls::Index;
using ls::KeyRange;
using ls::QueryRow;
using ls::SlidingWindow;
using ls::Visibility;

namespace {

QueryRow at(Index place) { return {.row = place, .place = place}; }

TEST(SlidingWindow, CountsTheQuerysOwnKey) {
  for (Index place = 0; place < 10; ++place)
    EXPECT_EQ(SlidingWindow{1}.range(at(place), 20), (KeyRange{place, place + 1}));
  EXPECT_EQ(SlidingWindow{4}.range(at(9), 20), (KeyRange{6, 10}));
  EXPECT_EQ(SlidingWindow{4}.range(at(3), 20), (KeyRange{0, 4}));
  EXPECT_EQ(SlidingWindow{4}.range(at(4), 20), (KeyRange{1, 5}));
}

TEST(SlidingWindow, NamesNothingButTheWindowWithoutSinks) {
  const SlidingWindow mask{128};
  EXPECT_EQ(mask.range(at(100000), 100001), (KeyRange{100000 - 127, 100001}));
  EXPECT_EQ(mask.block(at(100000), {100000 - 127, 100001}), Visibility::all);
  EXPECT_EQ(mask.block(at(100000), {0, 256}), Visibility::none);
  EXPECT_TRUE(mask.range(at(1000), 800).empty()) << "the window lies beyond the keys";
  EXPECT_TRUE(mask.range(at(-1), 800).empty());
}

TEST(SlidingWindow, AsLongAsTheSequenceIsCausal) {
  for (const Index window : {50, 51, 1000000})
    for (Index place = 0; place < 50; ++place) {
      EXPECT_EQ(SlidingWindow{window}.range(at(place), 50), ls::Causal{}.range(at(place), 50));
      EXPECT_EQ(SlidingWindow{window}.block(at(place), {0, place + 1}), Visibility::all);
    }
}

TEST(SlidingWindow, OfTheLargestNumberDoesNotOverflow) {
  const SlidingWindow mask{.window = ls::all_keys, .sinks = ls::all_keys};
  EXPECT_TRUE(mask.check().ok());
  EXPECT_EQ(mask.range(at(7), 20), (KeyRange{0, 8}));
  EXPECT_TRUE(mask.range(at(-1000), 20).empty());
  EXPECT_EQ((SlidingWindow{1}.range(at(ls::all_keys - 1), ls::all_keys)), (KeyRange{ls::all_keys - 1, ls::all_keys}));
}

TEST(SlidingWindow, KeepsTheFirstKeysAsSinks) {
  const SlidingWindow mask{.window = 3, .sinks = 2};
  for (Index place = 0; place < 10; ++place)
    for (Index key = 0; key < 10; ++key)
      EXPECT_EQ(mask.visible(at(place), key), key <= place && (key < 2 || key > place - 3)) << place << ", " << key;
  EXPECT_EQ(mask.range(at(9), 10), (KeyRange{0, 10}));
}

TEST(SlidingWindow, WithSinksAsksKeyByKeyOnlyWhereABlockHoldsBoth) {
  const SlidingWindow mask{.window = 300, .sinks = 4};
  const QueryRow q = at(2000);  // sees [0, 4) and [1701, 2001)
  const auto said = [&](KeyRange keys) { return mask.block(q, mask.narrowed(q, keys)); };
  EXPECT_EQ(mask.narrowed(q, {0, 256}), (KeyRange{0, 4}));
  EXPECT_EQ(said({0, 256}), Visibility::all);
  EXPECT_TRUE(mask.narrowed(q, {256, 512}).empty());
  EXPECT_EQ(mask.block(q, {256, 512}), Visibility::none);
  EXPECT_EQ(mask.narrowed(q, {1536, 1792}), (KeyRange{1701, 1792}));
  EXPECT_EQ(said({1536, 1792}), Visibility::all);
  EXPECT_EQ(said({1792, 2001}), Visibility::all);
  const QueryRow early = at(400);  // sees [0, 4) and [101, 401)
  EXPECT_EQ(mask.narrowed(early, {0, 256}), (KeyRange{0, 256}));
  EXPECT_EQ(mask.block(early, {0, 256}), Visibility::some);
  EXPECT_EQ(mask.block(early, {256, 401}), Visibility::all);
  EXPECT_EQ(mask.block(at(303), {0, 256}), Visibility::all) << "the window touches the sinks";
}

TEST(SlidingWindow, RefusesNoKeysAndFewerSinksThanNone) {
  EXPECT_TRUE(SlidingWindow{1}.check().ok());
  EXPECT_STREQ(SlidingWindow{}.check().message(),
               "lockstep: mask: given a window of 0 keys, allowed at least 1: the query's own");
  EXPECT_FALSE(SlidingWindow{-1}.check().ok());
  EXPECT_STREQ((SlidingWindow{1, -2}.check().message()), "lockstep: mask: given -2 sinks, allowed at least 0");
}

TEST(SlidingWindow, IsRefusedInsideACompositionToo) {
  EXPECT_TRUE((SlidingWindow{1} & ls::Causal{}).check().ok());
  EXPECT_FALSE((ls::Causal{} & SlidingWindow{0}).check().ok());
  EXPECT_FALSE((ls::Causal{} | (SlidingWindow{-5} & ls::Causal{})).check().ok());
  EXPECT_FALSE(ls::detail::check_mask(ls::Causal{} & SlidingWindow{0}, 1, 1, 1, 1).ok());
}

}  // namespace
