// Saved caches come back bit for bit, in whatever kind of cache, and damage is always found.
#include "lockstep/cache/save.hpp"

#include <cstring>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>

#include "cache/tokens.hpp"
#include "lockstep/cache/contiguous.hpp"
#include "lockstep/cache/paged.hpp"
#include "lockstep/cache/ring.hpp"

namespace {

using namespace cache_test;

constexpr CacheShape shape{2, 5, 17};

template <class Cache>
std::string saved(const Cache& cache) {
  std::ostringstream out;
  ls::save_cache(cache, out);
  return out.str();
}
template <class Cache>
void restore(Cache& cache, const std::string& bytes) {
  std::istringstream in(bytes);
  ls::restore_cache(cache, in);
}

template <class S>
class SaveCache : public testing::Test {};
using Storages = testing::Types<float, double, Eigen::half, Eigen::bfloat16, std::int8_t>;
TYPED_TEST_SUITE(SaveCache, Storages);

TYPED_TEST(SaveCache, ComesBackInEveryKindOfCache) {
  using S = TypeParam;
  const ls::PagePool<S> pool(shape, 6);
  for (const Index length : {0, 1, 255, 256, 257, 700}) {
    const Ids ids = counted(3, length);
    ls::ContiguousCache<S> contiguous(shape, 900), growing(shape, 900, {.initial = 0});
    ls::RingCache<S> ring(shape, 800);
    ls::PagedCache<S> paged(pool);
    append_all(contiguous, ids);
    if (length > 0) contiguous.set_table(0x123456789abcdef0u);
    const std::string bytes = saved(contiguous);
    append_all(ring, counted(50, 100));  // replaced
    append_all(paged, counted(50, 100));
    const auto comes_back = [&](auto& cache) {
      restore(cache, bytes);
      EXPECT_TRUE(holds(cache, ids));
      EXPECT_EQ(cache.table(), contiguous.table());
      EXPECT_EQ(saved(cache), bytes);
      append_all(cache, counted(5000, 3));
      Ids more = ids;
      more.insert(more.end(), {5000, 5001, 5002});
      EXPECT_TRUE(holds(cache, more));
    };
    comes_back(growing);
    comes_back(ring);
    comes_back(paged);
    comes_back(contiguous);
  }
}

TYPED_TEST(SaveCache, OfARingHoldsWhatTheRingHeld) {
  using S = TypeParam;
  const ls::PagePool<S> pool(shape, 12);
  const Ids ids = counted(0, 2000);
  ls::RingCache<S> ring(shape, 300, 100, 4);
  append_all(ring, ids);
  ASSERT_EQ(ring.missing_after(0), (ls::KeyRange{256, 1333}));
  const std::string bytes = saved(ring);
  ls::ContiguousCache<S> contiguous(shape, 2100);
  ls::PagedCache<S> paged(pool);
  ls::RingCache<S> narrow(shape, 20, 10), again(shape, 300, 100, 4);
  const auto comes_back = [&](auto& cache) {
    restore(cache, bytes);
    EXPECT_TRUE(holds(cache, ids));
    EXPECT_GE(cache.first(), 1333);
  };
  comes_back(contiguous);
  comes_back(paged);
  comes_back(again);
  EXPECT_EQ(saved(again), bytes);
  EXPECT_EQ(saved(contiguous), bytes);
  EXPECT_EQ(contiguous.first(), 1333);
  comes_back(narrow);
  EXPECT_EQ(narrow.missing_after(0), (ls::KeyRange{0, 1499}));
  // A wider window would miss keys.
  ls::RingCache<S> wide(shape, 900, 100);
  append_all(wide, counted(70, 30));
  EXPECT_THROW(restore(wide, bytes), std::logic_error);
  EXPECT_TRUE(holds(wide, counted(70, 30)));
  // What lacks places says so, and forgets that when they are gone.
  EXPECT_THROW(write(contiguous, 1000, counted(1, 1)), std::invalid_argument);
  contiguous.truncate(200);
  EXPECT_EQ(contiguous.first(), 0);
  EXPECT_TRUE(holds(contiguous, part(ids, 0, 200)));
}

template <class S>
void finds_all_damage() {
  ls::ContiguousCache<S> cache({1, 2, 3}, 20), target({1, 2, 3}, 20);
  append(cache, counted(0, 5));
  cache.set_table(77);
  append(target, counted(100, 7));
  target.set_table(5);
  const std::string bytes = saved(cache), before = saved(target);
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    ASSERT_THROW(restore(target, bytes.substr(0, n)), std::logic_error) << n;
    for (const int flip : {1, 0x80, 0xff}) {
      std::string damaged = bytes;
      damaged[n] = static_cast<char>(damaged[n] ^ flip);
      ASSERT_THROW(restore(target, damaged), std::logic_error) << "byte " << n << " flipped by " << flip;
    }
  }
  EXPECT_EQ(saved(target), before);
  EXPECT_TRUE(holds(target, counted(100, 7)));
  restore(target, bytes);
  EXPECT_EQ(saved(target), bytes);
}

TEST(SaveCache, FindsEveryByteThatIsMissingOrChanged) {
  finds_all_damage<float>();
  finds_all_damage<std::int8_t>();
}

TEST(SaveCache, RefusesAnotherShapeStorageOrTooMuch) {
  ls::ContiguousCache<float> cache({1, 2, 3}, 20);
  append(cache, counted(0, 10));
  const std::string bytes = saved(cache);
  ls::ContiguousCache<float> wider({1, 2, 4}, 20), small({1, 2, 3}, 9);
  ls::ContiguousCache<double> other({1, 2, 3}, 20);
  const ls::PagePool<float> pool({1, 2, 3}, 1);
  ls::PagedCache<float> paged(pool), neighbour(pool);
  append(neighbour, counted(0, 1));
  EXPECT_THROW(restore(wider, bytes), std::invalid_argument);
  EXPECT_THROW(restore(other, bytes), std::invalid_argument);
  EXPECT_THROW(restore(small, bytes), std::length_error);
  EXPECT_THROW(restore(paged, bytes), std::length_error);
  neighbour.clear();
  restore(paged, bytes);
  EXPECT_TRUE(holds(paged, counted(0, 10)));
  EXPECT_EQ(pool.free_pages(), 0);
}

// A stream may claim any length. The last place that there may be is counted like the rest.
TEST(SaveCache, TakesTheLongestRingThereIsAndNoLonger) {
  ls::RingCache<float> ring({1, 2, 3}, {.window = 1, .slack = 0});
  const Index longest = ring.capacity();
  EXPECT_EQ(longest, Index{1} << 62);
  for (const Index length : {longest, longest + 1, std::numeric_limits<Index>::max()})
    for (const Index held : {0, 1}) {
      SCOPED_TRACE(std::to_string(length) + ", held " + std::to_string(held));
      ls::detail::SavedHeader header;
      header.storage = ls::detail::storage_code<float>();
      header.shape = ring.shape();
      header.length = length;
      header.missing = {0, length - held};
      std::string bytes(sizeof header + static_cast<std::size_t>(held) * 5 * sizeof(float), '\0');
      std::memcpy(bytes.data(), &header, sizeof header);
      ls::detail::StreamHash hash;
      hash.add(bytes.data(), bytes.size());
      const std::uint64_t sum = hash.value;
      bytes.append(reinterpret_cast<const char*>(&sum), sizeof sum);
      if (length > longest) {
        EXPECT_THROW(restore(ring, bytes), std::length_error);
        continue;
      }
      restore(ring, bytes);
      EXPECT_EQ(ring.length(), longest);
      EXPECT_EQ(ring.first(), longest - held);
      EXPECT_FALSE(ring.check_append(1).ok());
      ring.clear();
      append(ring, counted(0, 1));
      EXPECT_TRUE(holds(ring, counted(0, 1)));
    }
}

TEST(SaveCache, ReadsNoFurtherThanItsOwnEnd) {
  ls::ContiguousCache<float> cache({1, 2, 3}, 20), second({1, 2, 3}, 20);
  append(cache, counted(0, 10));
  append(second, counted(30, 4));
  std::istringstream in(saved(cache) + saved(second));
  ls::ContiguousCache<float> a({1, 2, 3}, 20), b({1, 2, 3}, 20);
  ls::restore_cache(a, in);
  ls::restore_cache(b, in);
  EXPECT_TRUE(holds(a, counted(0, 10)));
  EXPECT_TRUE(holds(b, counted(30, 4)));
}

TEST(SaveCache, SaysWhenTheStreamFails) {
  const ls::ContiguousCache<float> cache({1, 2, 3}, 20);
  std::ostringstream out;
  out.setstate(std::ios::badbit);
  EXPECT_THROW(ls::save_cache(cache, out), std::invalid_argument);
}

}  // namespace
