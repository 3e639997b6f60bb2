// Codes and scales by the contract's rule 9, and what goes in and out of caches that store them.
#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>

#include "cache/tokens.hpp"
#include "lockstep/cache/contiguous.hpp"
#include "lockstep/cache/ring.hpp"

namespace {

using namespace cache_test;
using Cache = ls::ContiguousCache<std::int8_t>;

// One token of one head whose keys are `numbers`, and a cache that stores it.
struct Stored {
  std::vector<int> codes;
  float scale;
};
Stored stored(const std::vector<float>& numbers) {
  const Index dim = static_cast<Index>(numbers.size());
  Cache cache({1, dim, dim}, 1);
  const auto rows = ls::View<const float, 3>::contiguous(numbers.data(), {1, 1, dim});
  cache.append(rows, rows);
  const auto block = cache.block(0, 0);
  Stored result{{}, block.key_scales[0]};
  EXPECT_EQ(std::bit_cast<std::uint32_t>(block.value_scales[0]), std::bit_cast<std::uint32_t>(result.scale));
  for (Index d = 0; d < dim; ++d) {
    result.codes.push_back(block.keys[ls::BlockLayout<std::int8_t>::key(0, d, dim)]);
    EXPECT_EQ(result.codes.back(), block.values[ls::BlockLayout<std::int8_t>::value(0, d)]);
  }
  return result;
}

TEST(Int8Cache, CodesAreTheNearestMultiplesOfTheScale) {
  const Stored s = stored({127, -127, 0.5F, 1.5F, -2.5F, 63.51F, -0.0F, 126.49F});
  EXPECT_EQ(s.scale, 1);
  EXPECT_EQ(s.codes, (std::vector<int>{127, -127, 0, 2, -2, 64, 0, 126}));  // ties to even
  const Stored third = stored({1.0F / 3, -1.0F / 3, 1.0F / 6});
  EXPECT_EQ(third.scale, (1.0F / 3) / 127);
  EXPECT_EQ(third.codes, (std::vector<int>{127, -127, 64}));  // 63.5
}

TEST(Int8Cache, ZeroHasNoScale) {
  const Stored s = stored({0, -0.0F, 0});
  EXPECT_EQ(std::bit_cast<std::uint32_t>(s.scale), 0U);
  EXPECT_EQ(s.codes, (std::vector<int>{0, 0, 0}));
}

TEST(Int8Cache, TakesTheEndsOfTheRange) {
  const float largest = std::numeric_limits<float>::max(), denormal = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(stored({largest, -largest}).codes, (std::vector<int>{127, -127}));
  // Scales below the normal range: too few bits for codes of 127, but no code beyond it.
  EXPECT_EQ(stored({denormal}).codes, (std::vector<int>{0}));
  EXPECT_EQ(stored({190 * denormal, -190 * denormal}).codes, (std::vector<int>{127, -127}));
  EXPECT_EQ(stored({12700 * denormal, -200 * denormal}).codes, (std::vector<int>{127, -2}));
}

TEST(Int8Cache, ErrsByHalfAScaleAtMost) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<float> numbers(37);
    for (float& x : numbers) x = normal(random) * std::ldexp(1.0F, trial % 80 - 40);
    const Stored s = stored(numbers);
    int most = 0;
    for (std::size_t d = 0; d < numbers.size(); ++d) {
      most = std::max(most, std::abs(s.codes[d]));
      const double error = std::abs(static_cast<double>(numbers[d]) - static_cast<double>(s.scale) * s.codes[d]);
      ASSERT_LE(error, static_cast<double>(s.scale) * (0.5 + 0x1p-16));
    }
    EXPECT_EQ(most, 127);
  }
}

TEST(Int8Cache, KeysAndValuesAndHeadsHaveScalesOfTheirOwn) {
  Cache cache({2, 2, 1}, 3);
  const std::vector<float> keys{127, 1, 254, 1}, values{1270, 12700};
  for (int t = 0; t < 3; ++t)
    cache.append(ls::View<const float, 3>::contiguous(keys.data(), {1, 2, 2}),
                 ls::View<const float, 3>::contiguous(values.data(), {1, 2, 1}));
  for (Index t = 0; t < 3; ++t) {
    EXPECT_EQ(cache.block(0, 0).key_scales[t], 1);
    EXPECT_EQ(cache.block(1, 0).key_scales[t], 2);
    EXPECT_EQ(cache.block(0, 0).value_scales[t], 10);
    EXPECT_EQ(cache.block(1, 0).value_scales[t], 100);
  }
}

TEST(Int8Cache, RefusesWhatHasNoCodeAndChangesNothing) {
  Cache cache({2, 3, 17}, 300);
  append(cache, counted(0, 250));
  for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()})
    for (const bool in_keys : {true, false}) {
      Rows<float> keys(counted(9, 10), 2, 3, 0), values(counted(9, 10), 2, 17, 1);
      (in_keys ? keys : values).numbers.back() = bad;
      EXPECT_THROW(cache.append(keys.view, values.view), std::invalid_argument);
      EXPECT_THROW(cache.write(245, keys.view, values.view), std::invalid_argument);
      EXPECT_THROW(cache.write_circular(245, keys.view, values.view), std::invalid_argument);
      EXPECT_THROW(cache.import(keys.view, values.view, ls::Order::token_head_dim), std::invalid_argument);
      EXPECT_TRUE(holds(cache, counted(0, 250)));
    }
}

TEST(Int8Cache, CodesDoNotDependOnTheCallersRoundingOrFlushing) {
  const float denormal = std::numeric_limits<float>::denorm_min();
  const std::vector<float> ties{127, 0.5F, 1.5F, -2.5F, 3.49F},
      tiny{12700 * denormal, -200 * denormal, 5000 * denormal};
  const Stored expected = stored(ties), small = stored(tiny);
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    ASSERT_EQ(std::fesetround(mode), 0);
#if defined(__SSE__)
    _mm_setcsr(_mm_getcsr() | 0x8040);  // flush results and operands to zero
#endif
    const Stored again = stored(ties), small_again = stored(tiny);
#if defined(__SSE__)
    _mm_setcsr(_mm_getcsr() & ~0x8040u);
#endif
    ASSERT_EQ(std::fesetround(FE_TONEAREST), 0);
    EXPECT_EQ(again.codes, expected.codes);
    EXPECT_EQ(small_again.codes, small.codes);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(small_again.scale), std::bit_cast<std::uint32_t>(small.scale));
  }
}

TEST(Int8Cache, TakesAboutAQuarterOfTheBytes) {
  // A code for each number of a key, values in whole lines of 16, a scale for each key and value.
  EXPECT_EQ((Cache({2, 64, 64}, 1024).bytes()), 2 * 1024 * (64 + 64 + 8));
  EXPECT_EQ((Cache({1, 5, 17}, 1).bytes()), 256 * (5 + 32 + 8));
}

TEST(Int8Cache, ExportsAndImportsFloat) {
  const CacheShape shape{2, 5, 18};
  Cache cache(shape, 400), second(shape, 400);
  append(cache, counted(0, 300));
  std::vector<float> keys(2 * 300 * 5), values(2 * 300 * 18);
  const auto k = ls::View<float, 3>::contiguous(keys.data(), {2, 300, 5});
  const auto v = ls::View<float, 3>::contiguous(values.data(), {2, 300, 18});
  cache.export_keys(k);
  cache.export_values(v);
  for (const Index t : {0, 1, 255, 256, 299})
    for (Index g = 0; g < 2; ++g) {
      const auto block = cache.block(g, t / 256);
      for (Index d = 0; d < 5; ++d) {
        const float code = block.keys[ls::BlockLayout<std::int8_t>::key(t % 256, d, 5)];
        EXPECT_EQ(k(g, t, d), code * block.key_scales[t % 256]);
        EXPECT_NEAR(k(g, t, d), number(static_cast<int>(t), g, d, 0), block.key_scales[t % 256] * 0.51);
      }
      for (Index d = 0; d < 18; ++d)
        EXPECT_NEAR(v(g, t, d), number(static_cast<int>(t), g, d, 1), block.value_scales[t % 256] * 0.51);
    }
  // What is made of codes has the same codes.
  append(second, counted(50, 20));
  second.import(k, v);
  ASSERT_EQ(second.length(), 300);
  for (Index g = 0; g < 2; ++g)
    for (Index t = 0; t < 256; ++t)
      for (Index d = 0; d < 5; ++d)
        ASSERT_EQ(second.block(g, 0).keys[ls::BlockLayout<std::int8_t>::key(t, d, 5)],
                  cache.block(g, 0).keys[ls::BlockLayout<std::int8_t>::key(t, d, 5)]);
}

}  // namespace
