#include "llama2c/sampler.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "temporary_file.hpp"

namespace {

using examples_test::contains;
using examples_test::refusal;
using llama2c::Sampler;
using llama2c::Xorshift;

const std::vector<float> three_logits{std::log(3.0F), std::log(1.0F), std::log(2.0F)};  // weights 1/2, 1/6, 1/3

std::array<int, 3> counts(Sampler sampler, int draws) {
  std::array<int, 3> count{};
  for (int i = 0; i < draws; ++i) ++count[static_cast<std::size_t>(sampler(three_logits))];
  return count;
}

TEST(Xorshift, GivesThePublishedSequence) {
  Xorshift random(42);
  for (const std::uint32_t expected : {1456360119U, 3359763283U, 3393612768U, 4054632243U})
    EXPECT_EQ(random.next(), expected);
}

TEST(Xorshift, StaysBelowOne) {
  Xorshift random(1);
  for (int i = 0; i < 100000; ++i) {
    const float unit = random.next_unit();
    ASSERT_GE(unit, 0.0F);
    ASSERT_LT(unit, 1.0F);
  }
}

TEST(Sampler, TemperatureZeroTakesTheFirstOfTheLargest) {
  Sampler sampler(0, 0.9F, 1);
  EXPECT_EQ(sampler(std::vector<float>{-3, 5, 2, 5}), 1);
  EXPECT_EQ(sampler(std::vector<float>{-3, -5, -7}), 0);
  EXPECT_EQ(sampler(std::vector<float>{1}), 0);
}

TEST(Sampler, SameSeedDrawsTheSame) {
  Sampler first(1, 0.9F, 7);
  Sampler second(1, 0.9F, 7);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(first(three_logits), second(three_logits));
}

TEST(Sampler, DrawsByWeight) {
  const std::array<int, 3> count = counts(Sampler(1, 1, 3), 60000);
  // Six standard deviations of a binomial count are at most 6 sqrt(60000 / 4) = 735.
  EXPECT_NEAR(count[0], 30000, 735);
  EXPECT_NEAR(count[1], 10000, 735);
  EXPECT_NEAR(count[2], 20000, 735);
}

TEST(Sampler, TopPLeavesOutTheTail) {
  const std::array<int, 3> two = counts(Sampler(1, 0.6F, 3), 50000);
  EXPECT_EQ(two[1], 0);
  EXPECT_NEAR(two[0], 30000, 735);
  EXPECT_NEAR(two[2], 20000, 735);
  const std::array<int, 3> one = counts(Sampler(1, 0.4F, 3), 1000);
  EXPECT_EQ(one[0], 1000);
}

TEST(Sampler, TopPOfZeroAndOneDrawFromAll) {
  EXPECT_GT(counts(Sampler(1, 0, 3), 1000)[1], 0);
  EXPECT_GT(counts(Sampler(1, 1, 3), 1000)[1], 0);
}

TEST(Sampler, ColderIsSharper) {
  EXPECT_GT(counts(Sampler(0.5F, 1, 3), 10000)[0], counts(Sampler(1, 1, 3), 10000)[0]);
  EXPECT_LT(counts(Sampler(100, 1, 3), 10000)[0], counts(Sampler(1, 1, 3), 10000)[0]);
}

TEST(Sampler, NoTemperatureOverflows) {
  Sampler sampler(std::numeric_limits<float>::denorm_min(), 0.9F, 3);
  const float largest = std::numeric_limits<float>::max();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(sampler(std::vector<float>{-largest, largest, 0}), 1);
}

TEST(Sampler, RefusesBadSettings) {
  const auto make = [](float temperature, float top_p, std::uint64_t seed) {
    return refusal([=] { Sampler sampler(temperature, top_p, seed); });
  };
  EXPECT_EQ(make(0, 0, 1), "");
  for (const float temperature : {-1.0F, std::nanf(""), INFINITY})
    EXPECT_TRUE(contains(make(temperature, 0.9F, 1), "temperature: found"));
  for (const float top_p : {-0.1F, 1.1F, std::nanf("")}) EXPECT_TRUE(contains(make(1, top_p, 1), "top_p: found"));
  EXPECT_TRUE(contains(make(1, 0.9F, 0), "seed: found 0"));
}

TEST(Sampler, RefusesLogitsThatAreNoNumbers) {
  for (const float temperature : {0.0F, 1.0F}) {
    Sampler sampler(temperature, 0.9F, 1);
    for (const float bad : {std::nanf(""), INFINITY, -INFINITY})
      EXPECT_TRUE(contains(refusal([&] { sampler(std::vector<float>{0, bad}); }), "token 1"));
    EXPECT_TRUE(contains(refusal([&] { sampler(std::vector<float>{}); }), "found none"));
  }
}

}  // namespace
