#include "lockstep/cache/layout.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace ls = lockstep;
using ls::Index;

namespace {

template <class S>
class BlockLayout : public testing::Test {};
using Storages = testing::Types<float, double, Eigen::half, Eigen::bfloat16>;
TYPED_TEST_SUITE(BlockLayout, Storages);

TYPED_TEST(BlockLayout, GivesEveryNumberAPlaceOfItsOwn) {
  using Layout = ls::BlockLayout<TypeParam>;
  for (const Index dim : {1, 2, 3, 15, 16, 17, 80}) {
    std::vector<int> keys(static_cast<std::size_t>(Layout::key_block(dim))),
        values(static_cast<std::size_t>(Layout::value_block(dim)));
    for (Index place = 0; place < ls::block_keys; ++place)
      for (Index d = 0; d < dim; ++d) {
        ++keys.at(static_cast<std::size_t>(Layout::key(place, d, dim)));
        ++values.at(static_cast<std::size_t>(Layout::value(place, d)));
      }
    for (const int times : keys) EXPECT_LE(times, 1);
    for (const int times : values) EXPECT_LE(times, 1);
  }
}

TYPED_TEST(BlockLayout, BringsTheSixteenPlacesOfATileInOneCacheLineOfFloats) {
  using Layout = ls::BlockLayout<TypeParam>;
  for (Index lane = 0; lane < ls::lanes; ++lane) {
    EXPECT_EQ(Layout::key(32 + lane, 6, 64), Layout::key(32, 6, 64) + lane * Layout::pair);
    EXPECT_EQ(Layout::value(32, 48 + lane), Layout::value(32, 48) + lane * Layout::pair);
  }
}

TEST(BlockLayout, IsTheDocumentedFormula) {
  using Wide = ls::BlockLayout<float>;
  using Paired = ls::BlockLayout<Eigen::half>;
  for (const Index dim : {1, 5, 64})
    for (Index place = 0; place < 256; place += 7)
      for (Index d = 0; d < dim; ++d) {
        EXPECT_EQ(Wide::key(place, d, dim), (place / 16) * dim * 16 + d * 16 + place % 16);
        EXPECT_EQ(Wide::value(place, d), (d / 16) * 4096 + place * 16 + d % 16);
        EXPECT_EQ(Paired::key(place, d, dim),
                  (place / 16) * ((dim + 1) / 2) * 32 + (d / 2) * 32 + (place % 16) * 2 + d % 2);
        EXPECT_EQ(Paired::value(place, d), (d / 16) * 4096 + (place / 2) * 32 + (d % 16) * 2 + place % 2);
      }
}

}  // namespace
