#include "lockstep/cache/contiguous.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace ls = lockstep;
using ls::CacheShape;
using ls::Index;

namespace {

template <class C>
ls::View<const C, 3> rows(const std::vector<C>& memory, Index tokens, Index heads, Index dim) {
  return ls::View<const C, 3>::contiguous(memory.data(), {tokens, heads, dim});
}

std::vector<float> counted(Index n, float first = 1) {
  std::vector<float> numbers(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = first + static_cast<float>(i);
  return numbers;
}

// Keys and then values, [kv_heads, length, dim] each.
template <class S>
std::vector<S> exported(const ls::ContiguousCache<S>& cache) {
  const auto [heads, dim, v_dim] = cache.shape();
  std::vector<S> numbers(static_cast<std::size_t>(heads * cache.length() * (dim + v_dim)));
  cache.export_keys(ls::View<S, 3>::contiguous(numbers.data(), {heads, cache.length(), dim}));
  cache.export_values(
      ls::View<S, 3>::contiguous(numbers.data() + heads * cache.length() * dim, {heads, cache.length(), v_dim}));
  return numbers;
}

TEST(ContiguousCache, ExportsHeadByHead) {
  ls::ContiguousCache<float> cache({2, 3, 1}, 4);
  const auto keys = counted(4 * 2 * 3), values = counted(4 * 2, 100);
  cache.append(rows(keys, 4, 2, 3), rows(values, 4, 2, 1));
  std::vector<float> expected;
  for (std::size_t g = 0; g < 2; ++g)
    for (std::size_t t = 0; t < 4; ++t)
      for (std::size_t d = 0; d < 3; ++d) expected.push_back(keys[(t * 2 + g) * 3 + d]);
  for (std::size_t g = 0; g < 2; ++g)
    for (std::size_t t = 0; t < 4; ++t) expected.push_back(values[t * 2 + g]);
  EXPECT_EQ(exported(cache), expected);
}

TEST(ContiguousCache, ExportsIntoStridedMemoryAndTouchesNothingBeside) {
  ls::ContiguousCache<float> cache({2, 3, 2}, 4);
  cache.append(rows(counted(4 * 2 * 3), 4, 2, 3), rows(counted(4 * 2 * 2), 4, 2, 2));
  std::vector<float> out(2 * 4 * 5, -1);
  cache.export_keys(ls::View<float, 3>(out.data(), {2, 4, 3}, {20, 5, 1}));
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i] == -1, i % 5 >= 3) << i;
}

TEST(ContiguousCache, ImportReplacesEverything) {
  ls::ContiguousCache<float> first({2, 3, 5}, 300), second({2, 3, 5}, 290);
  first.append(rows(counted(280 * 6), 280, 2, 3), rows(counted(280 * 10, 1e5F), 280, 2, 5));
  second.append(rows(counted(290 * 6, -900), 290, 2, 3), rows(counted(290 * 10, -900), 290, 2, 5));
  const auto all = exported(first);
  second.import(ls::View<const float, 3>::contiguous(all.data(), {2, 280, 3}),
                ls::View<const float, 3>::contiguous(all.data() + 2 * 280 * 3, {2, 280, 5}));
  EXPECT_EQ(second.length(), 280);
  EXPECT_EQ(exported(second), all);
}

TEST(ContiguousCache, CopiesAreIndependent) {
  ls::ContiguousCache<float> cache({1, 2, 2}, 8);
  cache.append(rows(counted(6), 3, 1, 2), rows(counted(6, 50), 3, 1, 2));
  ls::ContiguousCache<float> copy = cache;
  const auto before = exported(cache);
  copy.truncate(1);
  copy.append(rows(counted(4, -7), 2, 1, 2), rows(counted(4, -7), 2, 1, 2));
  EXPECT_EQ(exported(cache), before);
  EXPECT_NE(exported(copy), before);
  copy = cache;
  EXPECT_EQ(exported(copy), before);
}

TEST(ContiguousCache, AMovedFromCacheIsEmptyAndHoldsNothing) {
  ls::ContiguousCache<float> cache({1, 2, 2}, 8);
  cache.append(rows(counted(6), 3, 1, 2), rows(counted(6), 3, 1, 2));
  const auto before = exported(cache);
  ls::ContiguousCache<float> taken(std::move(cache));
  EXPECT_EQ(exported(taken), before);
  EXPECT_EQ(cache.length(), 0);
  EXPECT_EQ(cache.capacity(), 0);
  EXPECT_EQ(cache.bytes(), 0);
  EXPECT_EQ(cache.shape(), CacheShape{});
  EXPECT_FALSE(cache.check_append(1).ok());
  cache = std::move(taken);
  EXPECT_EQ(exported(cache), before);
  EXPECT_EQ(taken.bytes(), 0);
  auto& itself = cache;
  cache = std::move(itself);
  EXPECT_EQ(exported(cache), before);
}

TEST(ContiguousCache, RoundsItsMemoryUpToWholeBlocksButNotItsCapacity) {
  // Per place of a head: head_dim numbers and v_head_dim rounded up to 16, in blocks of 256 places.
  EXPECT_EQ((ls::ContiguousCache<float>({2, 8, 16}, 1).bytes()), 2 * 256 * (8 + 16) * 4);
  EXPECT_EQ((ls::ContiguousCache<float>({2, 8, 16}, 256).bytes()), 2 * 256 * (8 + 16) * 4);
  EXPECT_EQ((ls::ContiguousCache<float>({2, 8, 17}, 257).bytes()), 2 * 512 * (8 + 32) * 4);
  EXPECT_EQ((ls::ContiguousCache<double>({1, 8, 16}, 256).bytes()), 256 * (8 + 16) * 8);
  EXPECT_EQ((ls::ContiguousCache<Eigen::half>({1, 8, 16}, 256).bytes()), 256 * (8 + 16) * 2);
  EXPECT_EQ((ls::ContiguousCache<Eigen::bfloat16>({1, 7, 16}, 256).bytes()), 256 * (8 + 16) * 2);  // keys in pairs
  EXPECT_EQ((ls::ContiguousCache<float>({2, 8, 16}, 0).bytes()), 0);
  const ls::ContiguousCache<float> cache({2, 8, 16}, 100);
  EXPECT_EQ(cache.capacity(), 100);
  EXPECT_TRUE(cache.check_append(100).ok());
  EXPECT_FALSE(cache.check_append(101).ok());
}

TEST(ContiguousCache, HoldsOneCopyForEachKvHeadWhateverTheQueryHeads) {
  // What grouped-query attention is for: 14 query heads over 2 kv heads keep the bytes of 2.
  const Index shared = ls::ContiguousCache<float>({2, 64, 64}, 1024).bytes();
  EXPECT_EQ(shared * 7, (ls::ContiguousCache<float>({14, 64, 64}, 1024).bytes()));
  EXPECT_EQ(shared, 2 * 1024 * 2 * 64 * 4);
}

TEST(ContiguousCache, LiesOnCacheLines) {
  const ls::ContiguousCache<float> cache({3, 5, 7}, 600);
  for (Index g = 0; g < 3; ++g)
    for (Index b = 0; b < 3; ++b) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(cache.block(g, b).keys) % 64, 0U);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(cache.block(g, b).values) % 64, 0U);
    }
}

TEST(ContiguousCache, AnAppendThatDoesNotFitChangesNothing) {
  ls::ContiguousCache<float> cache({1, 2, 3}, 5);
  cache.append(rows(counted(4 * 2), 4, 1, 2), rows(counted(4 * 3), 4, 1, 3));
  const auto before = exported(cache);
  const ls::ContiguousCache<float> whole = cache;
  const auto same_memory = [&] {
    const auto now = cache.block(0, 0), then = whole.block(0, 0);
    return std::memcmp(now.keys, then.keys, 256 * 2 * sizeof(float)) == 0 &&
           std::memcmp(now.values, then.values, 256 * 16 * sizeof(float)) == 0;
  };
  const auto keys = counted(64, -9), values = counted(64, -9);
  EXPECT_THROW(cache.append(rows(keys, 2, 1, 2), rows(values, 2, 1, 3)), std::length_error);
  EXPECT_THROW(cache.append(rows(keys, 1, 1, 2), rows(values, 1, 1, 4)), std::invalid_argument);
  EXPECT_THROW(cache.append(rows(keys, 1, 1, 3), rows(values, 1, 1, 3)), std::invalid_argument);
  EXPECT_THROW(cache.append(rows(keys, 1, 1, 2), rows(values, 2, 1, 3)), std::invalid_argument);
  EXPECT_EQ(cache.length(), 4);
  EXPECT_EQ(exported(cache), before);
  EXPECT_TRUE(same_memory());
}

TEST(ContiguousCache, TruncateAndClearKeepWhatIsBefore) {
  ls::ContiguousCache<float> cache({1, 1, 1}, 5);
  const auto numbers = counted(5);
  cache.append(rows(numbers, 5, 1, 1), rows(numbers, 5, 1, 1));
  cache.truncate(5);
  EXPECT_EQ(cache.length(), 5);
  EXPECT_THROW(cache.truncate(6), std::length_error);
  EXPECT_THROW(cache.truncate(-1), std::length_error);
  EXPECT_EQ(cache.length(), 5);
  cache.truncate(2);
  EXPECT_EQ(exported(cache), (std::vector<float>{1, 2, 1, 2}));
  cache.clear();
  EXPECT_EQ(cache.length(), 0);
  EXPECT_EQ(cache.capacity(), 5);
  cache.append(rows(numbers, 5, 1, 1), rows(numbers, 5, 1, 1));
  EXPECT_EQ(cache.length(), 5);
}

template <class S>
S stored(float x) {
  ls::ContiguousCache<S> cache({1, 1, 1}, 1);
  const std::vector<float> one{x};
  cache.append(rows(one, 1, 1, 1), rows(one, 1, 1, 1));
  const auto both = exported(cache);
  EXPECT_EQ(std::memcmp(&both[0], &both[1], sizeof(S)), 0);
  return both[0];
}
template <class S>
int bits(float x) {
  return std::bit_cast<std::uint16_t>(stored<S>(x));
}

TEST(ContiguousCache, RoundsToHalfToNearestEven) {
  EXPECT_EQ(bits<Eigen::half>(1.0F), 0x3c00);
  EXPECT_EQ(bits<Eigen::half>(1 + 0x1p-11F), 0x3c00);             // half-way, to even below
  EXPECT_EQ(bits<Eigen::half>(1 + 0x3p-11F), 0x3c02);             // half-way, to even above
  EXPECT_EQ(bits<Eigen::half>(1 + 0x1p-11F + 0x1p-23F), 0x3c01);  // just above half-way
  EXPECT_EQ(bits<Eigen::half>(0x1p-24F), 0x0001);                 // the smallest denormal
  EXPECT_EQ(bits<Eigen::half>(0x1p-25F), 0x0000);                 // half of it, to even
  EXPECT_EQ(bits<Eigen::half>(0x3p-25F), 0x0002);
  EXPECT_EQ(bits<Eigen::half>(-0x1.ff8p-15F), 0x83ff);  // the largest denormal
  EXPECT_EQ(bits<Eigen::half>(-0x1.ffcp-15F), 0x8400);  // half-way to the smallest normal number, to even
  EXPECT_EQ(bits<Eigen::half>(65519.0F), 0x7bff);
  EXPECT_EQ(bits<Eigen::half>(65520.0F), 0x7c00);  // overflow
  EXPECT_EQ(bits<Eigen::half>(-1e30F), 0xfc00);
  EXPECT_EQ(bits<Eigen::half>(-0.0F), 0x8000);
  EXPECT_EQ(bits<Eigen::half>(std::numeric_limits<float>::infinity()), 0x7c00);
  EXPECT_EQ(bits<Eigen::half>(-std::numeric_limits<float>::quiet_NaN()), 0x7e00);
}

TEST(ContiguousCache, RoundsToBfloat16ToNearestEven) {
  EXPECT_EQ(bits<Eigen::bfloat16>(1.0F), 0x3f80);
  EXPECT_EQ(bits<Eigen::bfloat16>(1 + 0x1p-8F), 0x3f80);
  EXPECT_EQ(bits<Eigen::bfloat16>(1 + 0x3p-8F), 0x3f82);
  EXPECT_EQ(bits<Eigen::bfloat16>(0x1p-133F), 0x0001);
  EXPECT_EQ(bits<Eigen::bfloat16>(0x1p-134F), 0x0000);
  EXPECT_EQ(bits<Eigen::bfloat16>(0x3p-134F), 0x0002);
  EXPECT_EQ(bits<Eigen::bfloat16>(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(bits<Eigen::bfloat16>(-std::numeric_limits<float>::infinity()), 0xff80);
  EXPECT_EQ(bits<Eigen::bfloat16>(-std::numeric_limits<float>::quiet_NaN()), 0x7fc0);
}

TEST(ContiguousCache, KeepsTheBitsOfItsOwnComputeType) {
  for (const float x : {-0.0F, std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::infinity(), 0.1F})
    EXPECT_EQ(std::bit_cast<std::uint32_t>(stored<float>(x)), std::bit_cast<std::uint32_t>(x));
}

TEST(ContiguousCache, RefusesSizesThatNoMemoryHolds) {
  using Cache = ls::ContiguousCache<float>;
  const Index big = Index{1} << 31;
  const auto refuses = [](CacheShape shape, Index capacity) {
    try {
      const Cache cache(shape, capacity);
      ADD_FAILURE() << "made a cache of " << cache.bytes() << " bytes";
    } catch (const std::logic_error& error) {
      EXPECT_NE(std::string(error.what()).find("lockstep: "), std::string::npos) << error.what();
    }
  };
  refuses({0, 1, 1}, 1);
  refuses({1, 0, 1}, 1);
  refuses({1, 1, 0}, 1);
  refuses({-1, 1, 1}, 1);
  refuses({1, -8, 1}, 1);
  refuses({1, 1, 1}, -1);
  refuses({1, 1, 1}, std::numeric_limits<Index>::max());
  refuses({1, 1, 1}, std::numeric_limits<Index>::min());
  refuses({big, big, 1}, 1);
  refuses({big, 1, big}, 1);
  refuses({1, big, big}, big);
  refuses({1, big - 1, big - 1}, big - 1);
  refuses({big - 1, big - 1, big - 1}, big - 1);
  refuses({1, 1, 1}, Index{1} << 60);
  refuses({std::numeric_limits<Index>::max(), 1, 1}, 1);
  refuses({1, std::numeric_limits<Index>::max(), 1}, 1);
  refuses({1, 1, std::numeric_limits<Index>::max()}, 1);
}

TEST(ContiguousCache, TakesNoTokensAndRoomForNone) {
  ls::ContiguousCache<float> cache({2, 3, 4}, 0);
  cache.append(ls::View<const float, 3>(nullptr, {0, 2, 3}, {6, 3, 1}),
               ls::View<const float, 3>(nullptr, {0, 2, 4}, {8, 4, 1}));
  EXPECT_EQ(cache.length(), 0);
  EXPECT_FALSE(cache.check_append(1).ok());
}

TEST(ContiguousCache, RefusesToImportLessThanNothing) {
  ls::ContiguousCache<float> cache({1, 1, 1}, 4);
  const std::vector<float> numbers(4);
  const auto backwards = ls::View<const float, 3>(numbers.data(), {1, -1, 1}, {1, 1, 1});
  EXPECT_THROW(cache.import(backwards, backwards), std::invalid_argument);
  EXPECT_EQ(cache.length(), 0);
}

}  // namespace
