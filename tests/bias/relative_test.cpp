#include "lockstep/bias/distance.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <vector>

namespace ls = lockstep;
using ls::Index;

namespace {

// _relative_position_bucket of T5 in long double, apart from edges that are whole numbers.
Index t5_bucket(const ls::RelativeBuckets& b, Index distance) {
  Index count = b.num_buckets, side = 0, away = distance < 0 ? -distance : distance;
  if (b.bidirectional) {
    count /= 2;
    side = distance > 0 ? count : 0;
  } else if (distance > 0) {
    away = 0;
  }
  const Index exact = count / 2;
  if (away < exact) return side + away;
  const long double ratio = std::log(static_cast<long double>(away) / static_cast<long double>(exact)) /
                            std::log(static_cast<long double>(b.max_distance) / static_cast<long double>(exact));
  const Index later = exact + static_cast<Index>(ratio * static_cast<long double>(count - exact) + 1e-15L);
  return side + (later < count - 1 ? later : count - 1);
}

TEST(RelativeBuckets, AreThoseOfT5) {
  for (const ls::RelativeBuckets& buckets : {ls::RelativeBuckets{},
                                             {.bidirectional = true},
                                             {32, 1000, true},
                                             {20, 100, false},
                                             {7, 50, false},
                                             {4, 3, true}})
    for (Index distance = -2000; distance <= 2000; ++distance)
      ASSERT_EQ(buckets.bucket(distance), t5_bucket(buckets, distance))
          << buckets.num_buckets << " buckets up to " << buckets.max_distance << ", distance " << distance;
}

TEST(RelativeBuckets, HoldOneDistanceEachAtFirstThenMore) {
  const ls::RelativeBuckets encoder{.bidirectional = true}, decoder{};
  EXPECT_EQ(encoder.bucket(0), 0);
  EXPECT_EQ(encoder.bucket(-7), 7);
  EXPECT_EQ(encoder.bucket(7), 23);
  // Edges at 8 2^(k/2): 16, 32 and 64 are whole, and belong to the farther bucket.
  EXPECT_EQ(encoder.bucket(-8), 8);
  EXPECT_EQ(encoder.bucket(-11), 8);
  EXPECT_EQ(encoder.bucket(-12), 9);
  EXPECT_EQ(encoder.bucket(-15), 9);
  EXPECT_EQ(encoder.bucket(-16), 10);
  EXPECT_EQ(encoder.bucket(-63), 13);
  EXPECT_EQ(encoder.bucket(-64), 14);
  EXPECT_EQ(encoder.bucket(-91), 15);
  EXPECT_EQ(encoder.bucket(-100000), 15);
  EXPECT_EQ(encoder.bucket(100000), 31);
  EXPECT_EQ(decoder.bucket(5), 0);
  EXPECT_EQ(decoder.bucket(-15), 15);
  EXPECT_EQ(decoder.bucket(-128), 31);
}

TEST(RelativeBias, AddsTheLearnedNumberOfTheBucket) {
  std::vector<float> table(32 * 2);
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i);
  const ls::RelativeBias<float> bias(ls::RelativeBuckets{.bidirectional = true},
                                     ls::View<const float, 2>::contiguous(table.data(), {32, 2}));
  for (const Index distance : {-500, -129, -128, -127, -40, -3, 0, 1, 8, 127, 128, 129, 500})
    for (const Index head : {0, 1})
      EXPECT_EQ(bias.apply(0.5F, {.head = head, .place = 600}, 600 + distance),
                0.5F + static_cast<float>(ls::RelativeBuckets{.bidirectional = true}.bucket(distance) * 2 + head));
}

TEST(RelativeBias, TakesAPlainTableWhoseEndsReachOn) {
  const std::vector<double> table{1, 2, 3, 10, 20, 30};
  const ls::RelativeBias<double> bias(ls::View<const double, 2>::contiguous(table.data(), {2, 3}), -2);
  const auto of = [&](Index head, Index distance) {
    return bias.apply(0.0, {.head = head, .place = 50}, 50 + distance);
  };
  EXPECT_EQ(of(0, -50), 1);
  EXPECT_EQ(of(0, -2), 1);
  EXPECT_EQ(of(0, -1), 2);
  EXPECT_EQ(of(0, 0), 3);
  EXPECT_EQ(of(1, 7), 30);
}

TEST(RelativeBias, RefusesBucketsAndTablesThatDoNotFit) {
  EXPECT_FALSE((ls::RelativeBuckets{1, 128, false}.check().ok()));
  EXPECT_FALSE((ls::RelativeBuckets{31, 128, true}.check().ok()));
  EXPECT_FALSE((ls::RelativeBuckets{32, 8, true}.check().ok()));
  EXPECT_TRUE((ls::RelativeBuckets{32, 9, true}.check().ok()));
  const std::vector<float> table(31 * 4);
  const auto view = ls::View<const float, 2>::contiguous(table.data(), {31, 4});
  EXPECT_THROW((ls::RelativeBias<float>(ls::RelativeBuckets{}, view)), std::invalid_argument);
  const ls::RelativeBias<float> plain(view, 0);
  EXPECT_TRUE(plain.check(31).ok());
  EXPECT_FALSE(plain.check(4).ok());
  EXPECT_FALSE(ls::RelativeBias<float>{}.check(1).ok());
  EXPECT_THROW((ls::RelativeBias<float>(ls::View<const float, 2>::contiguous(table.data(), {31, 0}), 0)),
               std::invalid_argument);
  constexpr ls::Index limit = ls::Index{1} << 31;
  EXPECT_THROW((ls::RelativeBias<float>(view, limit + 1)), std::invalid_argument);
  EXPECT_THROW((ls::RelativeBias<float>(view, -limit - 1)), std::invalid_argument);
}

}  // namespace
