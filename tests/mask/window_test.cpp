#include "lockstep/mask/causal.hpp"

#include <gtest/gtest.h>

namespace ls = lockstep;
using ls::Index;
using ls::KeyRange;
using ls::QueryRow;
using ls::Window;

namespace {

QueryRow at(Index place) { return {.row = place, .place = place}; }

TEST(Window, CountsTheKeysBeforeAndAfter) {
  const Window mask{.left = 2, .right = 1};
  EXPECT_EQ(mask.range(at(0), 9), (KeyRange{0, 2}));
  EXPECT_EQ(mask.range(at(5), 9), (KeyRange{3, 7}));
  EXPECT_EQ(mask.range(at(8), 9), (KeyRange{6, 9}));
  EXPECT_EQ(mask.range(at(10), 9), (KeyRange{8, 9}));
  EXPECT_TRUE(mask.range(at(11), 9).empty());
  EXPECT_EQ(mask.range(at(-1), 9), (KeyRange{0, 1}));
  EXPECT_TRUE(mask.range(at(-2), 9).empty());
  EXPECT_EQ((Window{0, 0}.range(at(5), 9)), (KeyRange{5, 6}));
}

TEST(Window, NeedsTheKeysAfter) {
  EXPECT_EQ((Window{.left = 2, .right = 3}.keys_needed(at(5))), 9);
  EXPECT_EQ((Window{.right = 0}.keys_needed(at(5))), 6);
  EXPECT_EQ((Window{.left = 2}.keys_needed(at(5))), ls::all_keys);
  EXPECT_EQ((Window{.left = 2, .right = ls::all_keys - 3}.keys_needed(at(5))), ls::all_keys);
}

TEST(Window, WithoutABoundIsNoBoundOnThatSide) {
  for (Index place = 0; place < 30; ++place) {
    EXPECT_EQ(Window{}.range(at(place), 20), ls::NoMask{}.range(at(place), 20));
    EXPECT_EQ(Window{.right = 0}.range(at(place), 20), ls::Causal{}.range(at(place), 20));
    EXPECT_EQ((Window{4, 0}.range(at(place), 20)), ls::SlidingWindow{5}.range(at(place), 20));
  }
}

TEST(Window, RefusesNegativeBounds) {
  EXPECT_TRUE((Window{0, 0}.check().ok()) && Window{}.check().ok());
  EXPECT_STREQ(
      (Window{-1, 4}.check().message()),
      "lockstep: mask: given bounds of -1 keys before and 4 after the query's own, allowed at least 0 each, or "
      "Window::unbounded");
  EXPECT_FALSE((Window{1, -1}.check().ok()));
}

}  // namespace
