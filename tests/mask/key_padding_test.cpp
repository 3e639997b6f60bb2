#include "lockstep/mask/array.hpp"

#include <gtest/gtest.h>

#include <string>

namespace ls = lockstep;
using ls::Index;
using ls::Visibility;

namespace {

TEST(KeyPadding, ReadsFlagsThroughStrides) {
  // Transposed flags: [kv_len][batch] in memory.
  const bool memory[4][2] = {{true, false}, {true, true}, {false, true}, {true, true}};
  const ls::KeyPadding mask(ls::View<const bool, 2>(&memory[0][0], {2, 4}, {1, 2}));
  for (Index key = 0; key < 4; ++key)
    for (Index s = 0; s < 2; ++s) EXPECT_EQ(mask.visible({.sequence = s}, key), memory[key][s]);
  EXPECT_EQ(mask.block({.sequence = 0}, {2, 3}), Visibility::none);
  EXPECT_EQ(mask.block({.sequence = 0}, {0, 2}), Visibility::all);
  EXPECT_EQ(mask.block({.sequence = 1}, {0, 4}), Visibility::some);
}

TEST(KeyPadding, TakesMoreFlagsThanKeysButNotFewer) {
  const bool memory[2][8] = {};
  const ls::KeyPadding mask(ls::View<const bool, 2>::contiguous(&memory[0][0], {2, 8}));
  EXPECT_TRUE(mask.check(2, 1, 8).ok());
  EXPECT_TRUE(mask.check(1, 1, 3).ok());
  EXPECT_STREQ(mask.check(2, 1, 9).message(), "lockstep: mask: given key flags [2, 8], allowed at least [2, 9]");
  EXPECT_STREQ(mask.check(3, 1, 8).message(), "lockstep: mask: given key flags [2, 8], allowed at least [3, 8]");
}

TEST(KeyPadding, RefusesToAnswerWithoutFlags) {
  EXPECT_FALSE(ls::KeyPadding{}.check(1, 1, 1).ok());
  EXPECT_TRUE(ls::KeyPadding{}.check(0, 0, 0).ok());
  const ls::KeyPadding null(ls::View<const bool, 2>::contiguous(nullptr, {1, 4}));
  EXPECT_NE(std::string(null.check(1, 1, 4).message()).find("null"), std::string::npos);
}

}  // namespace
