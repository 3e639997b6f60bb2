// Dropping the oldest tokens: what stays is rotated on to its new place.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include <lockstep/cache/contiguous.hpp>
#include <lockstep/cache/paged.hpp>
#include <lockstep/cache/ring.hpp>
#include <lockstep/plain.hpp>
#include <lockstep/position/rope.hpp>

namespace {

namespace ls = lockstep;
using ls::Index;

constexpr ls::CacheShape shape{2, 8, 5};
constexpr Index length = 530, rotary_dim = 4;

std::vector<float> numbers(Index n, unsigned seed) {
  std::vector<float> all(static_cast<std::size_t>(n));
  for (float& x : all) {
    seed = seed * 1664525u + 1013904223u;
    x = static_cast<float>(static_cast<int>(seed >> 8) % 2001 - 1000) / 500.0f;
  }
  return all;
}

/// Keys of tokens [first, first + n), as if they had been at places `at`, at + 1, ...: rotated there.
std::vector<float> keys_at(const ls::Rope<ls::HalfSplit, float>& rope, Index first, Index n, Index at) {
  const Index width = shape.kv_heads * shape.head_dim;
  const std::vector<float> plain = numbers(length * width, 1);
  std::vector<float> keys(plain.begin() + first * width, plain.begin() + (first + n) * width);
  for (Index t = 0; t < n; ++t)
    for (Index g = 0; g < shape.kv_heads; ++g) rope.rotate(keys.data() + t * width + g * shape.head_dim, at + t);
  return keys;
}
template <class Cache>
void append(Cache& cache, const std::vector<float>& keys, const std::vector<float>& values) {
  const Index n = static_cast<Index>(keys.size()) / (shape.kv_heads * shape.head_dim);
  cache.append(ls::View<const float, 3>::contiguous(keys.data(), {n, shape.kv_heads, shape.head_dim}),
               ls::View<const float, 3>::contiguous(values.data(), {n, shape.kv_heads, shape.v_head_dim}));
}
template <class Cache>
std::pair<std::vector<double>, std::vector<double>> content(const Cache& cache) {
  using V = typename Cache::Value;
  std::vector<V> keys(static_cast<std::size_t>(cache.length() * shape.kv_heads * shape.head_dim)),
      values(static_cast<std::size_t>(cache.length() * shape.kv_heads * shape.v_head_dim));
  const auto order = ls::Order::token_head_dim;
  cache.export_keys(ls::View<V, 3>::contiguous(keys.data(), {cache.length(), shape.kv_heads, shape.head_dim}), order);
  cache.export_values(ls::View<V, 3>::contiguous(values.data(), {cache.length(), shape.kv_heads, shape.v_head_dim}),
                      order);
  std::pair<std::vector<double>, std::vector<double>> all;
  for (const V x : keys) all.first.push_back(static_cast<double>(x));
  for (const V x : values) all.second.push_back(static_cast<double>(x));
  return all;
}

template <class Cache>
Cache make();
template <>
ls::ContiguousCache<float> make() {
  return ls::ContiguousCache<float>(shape, length);
}
template <>
ls::ContiguousCache<Eigen::bfloat16> make() {
  return ls::ContiguousCache<Eigen::bfloat16>(shape, length);
}
template <>
ls::ContiguousCache<std::int8_t> make() {
  return ls::ContiguousCache<std::int8_t>(shape, length);
}
template <>
ls::PagedCache<float> make() {
  return ls::PagedCache<float>(ls::PagePool<float>(shape, 12));
}

template <class Cache>
class DropOldest : public ::testing::Test {
 protected:
  // Largest difference of a key: numbers up to 2, rotated pairs up to 2.83, then rounded twice to storage.
  static double bound() {
    using S = typename Cache::Storage;
    if constexpr (std::same_as<S, float>) return 2e-6;
    if constexpr (std::same_as<S, Eigen::bfloat16>) return 3e-2;
    return 2.83 / 127;
  }
};
using Caches = ::testing::Types<ls::ContiguousCache<float>, ls::ContiguousCache<Eigen::bfloat16>,
                                ls::ContiguousCache<std::int8_t>, ls::PagedCache<float>>;
TYPED_TEST_SUITE(DropOldest, Caches);

// ggml-org/llama.cpp#4889, #5653, #9743: shifts that rotated the whole head where a part is rotary, or failed on
// quantised keys.
TYPED_TEST(DropOldest, KeysAreThoseOfTheirNewPlaces) {
  const ls::RopeTable<float> table({.rotary_dim = rotary_dim, .base = 10000, .positions = 1024});
  const ls::Rope<ls::HalfSplit, float> rope(table);
  const std::vector<float> values = numbers(length * shape.kv_heads * shape.v_head_dim, 2);
  for (const auto& [tokens, keep] :
       {std::pair<Index, Index>{1, 0}, {255, 0}, {256, 4}, {257, 4}, {100, 260}, {length, 0}, {0, 7}}) {
    SCOPED_TRACE(std::to_string(tokens) + " dropped, " + std::to_string(keep) + " kept");
    auto cache = make<TypeParam>();
    append(cache, keys_at(rope, 0, length, 0), values);
    const auto before = content(cache);
    auto fork = cache;
    cache.drop_oldest(tokens, rope, keep);
    ASSERT_EQ(cache.length(), length - tokens);
    const auto after = content(cache);
    const std::vector<float> expected = keys_at(rope, keep + tokens, length - keep - tokens, keep);
    const Index width = shape.kv_heads * shape.head_dim, v_width = shape.kv_heads * shape.v_head_dim;
    double largest = 0;
    for (Index i = 0; i < cache.length() * width; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (i < keep * width) {
        EXPECT_EQ(after.first[at], before.first[at]);
        continue;
      }
      largest = std::max(largest, std::abs(after.first[at] -
                                           static_cast<double>(expected[at - static_cast<std::size_t>(keep * width)])));
      if (i % shape.head_dim >= rotary_dim && !std::same_as<typename TypeParam::Storage, std::int8_t>) {
        EXPECT_EQ(after.first[at], before.first[at + static_cast<std::size_t>(tokens * width)]);
      }
    }
    EXPECT_LE(largest, this->bound());
    for (Index i = keep * v_width; i < cache.length() * v_width; ++i)
      EXPECT_EQ(after.second[static_cast<std::size_t>(i)],
                before.second[static_cast<std::size_t>(i + tokens * v_width)]);
    EXPECT_EQ(content(fork), before) << "a copy keeps what it had";
  }
}

TEST(DropOldestErrors, NothingChanges) {
  const ls::Rope<ls::HalfSplit, float> rope(ls::RopeTable<float>({.rotary_dim = 4, .positions = 1024}));
  auto cache = make<ls::ContiguousCache<float>>();
  append(cache, keys_at(rope, 0, 20, 0), numbers(20 * shape.kv_heads * shape.v_head_dim, 2));
  const auto before = content(cache);
  EXPECT_THROW(cache.drop_oldest(21, rope), std::exception);
  EXPECT_THROW(cache.drop_oldest(-1, rope), std::exception);
  EXPECT_THROW(cache.drop_oldest(18, rope, 3), std::exception);
  EXPECT_THROW(cache.drop_oldest(1, rope, -1), std::exception);
  EXPECT_EQ(content(cache), before);
  // Plain moving where nothing was rotated.
  cache.drop_oldest(5, ls::NoPosition{});
  EXPECT_EQ(cache.length(), 15);
}

}  // namespace
