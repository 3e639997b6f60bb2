// Sequences that share a pool: forks are independent, pages come back, and a pool that is empty changes nothing.
#include "lockstep/cache/paged.hpp"

#include <stdexcept>
#include <thread>

#include "cache/tokens.hpp"

namespace {

using namespace cache_test;
using Pool = ls::PagePool<float>;
using Paged = ls::PagedCache<float>;

constexpr CacheShape shape{2, 3, 17};

TEST(PagedCache, TakesPagesAsTokensComeAndGivesThemBack) {
  const Pool pool(shape, 5);
  EXPECT_EQ(pool.pages(), 5);
  EXPECT_EQ(pool.bytes(), 5 * 2 * 256 * (3 + 32) * 4);
  {
    Paged cache(pool);
    EXPECT_EQ(cache.capacity(), 5 * 256);
    EXPECT_EQ(pool.free_pages(), 5);
    append(cache, counted(0, 256));
    EXPECT_EQ(pool.free_pages(), 4);
    append(cache, counted(256, 1));
    EXPECT_EQ(pool.free_pages(), 3);
    EXPECT_EQ(cache.bytes(), 2 * pool.bytes() / 5);
    append(cache, counted(257, 700));
    EXPECT_EQ(pool.free_pages(), 1);
    EXPECT_TRUE(holds(cache, counted(0, 957)));
    cache.truncate(257);
    EXPECT_EQ(pool.free_pages(), 3);
    cache.truncate(256);
    EXPECT_EQ(pool.free_pages(), 4);
    EXPECT_TRUE(holds(cache, counted(0, 256)));
    append(cache, counted(256, 300));
    Paged moved(std::move(cache));
    EXPECT_EQ(pool.free_pages(), 2);
    cache = std::move(moved);
    EXPECT_TRUE(holds(cache, counted(0, 556)));
    EXPECT_EQ(pool.free_pages(), 2);
  }
  EXPECT_EQ(pool.free_pages(), 5);
}

TEST(PagedCache, OutOfPagesChangesNothing) {
  const Pool pool(shape, 3);
  Paged cache(pool), other(pool);
  append(cache, counted(0, 300));
  append(other, counted(1000, 100));
  EXPECT_EQ(pool.free_pages(), 0);
  EXPECT_TRUE(cache.check_append(212).ok());
  EXPECT_FALSE(cache.check_append(213).ok());
  EXPECT_THROW(append(cache, counted(300, 213)), std::length_error);
  EXPECT_TRUE(holds(cache, counted(0, 300)));
  // The part that would have fitted was not taken either.
  EXPECT_THROW(append(other, counted(1100, 300)), std::length_error);
  EXPECT_TRUE(holds(other, counted(1000, 100)));
  EXPECT_EQ(pool.free_pages(), 0);
  other.clear();
  append(cache, counted(300, 213));
  EXPECT_TRUE(holds(cache, counted(0, 513)));
}

TEST(PagedCache, ReservedPagesAreUsedOrGoBack) {
  const Pool pool(shape, 4);
  Paged cache(pool);
  append(cache, counted(0, 100));
  cache.reserve(800);
  EXPECT_EQ(pool.free_pages(), 0);
  EXPECT_EQ(cache.length(), 100);
  append(cache, counted(100, 10));
  EXPECT_EQ(pool.free_pages(), 0);
  append(cache, counted(110, 300));
  EXPECT_TRUE(holds(cache, counted(0, 410)));
  EXPECT_EQ(pool.free_pages(), 0);
  cache.truncate(cache.length());
  EXPECT_EQ(pool.free_pages(), 2);
  EXPECT_THROW(cache.reserve(700), std::length_error);
  EXPECT_EQ(pool.free_pages(), 2);
  EXPECT_TRUE(holds(cache, counted(0, 410)));
}

// Two sequences that share a half-full last page both write on.
TEST(PagedCache, ForksWriteIntoCopiesOfTheLastPage) {
  const Pool pool(shape, 8);
  Paged parent(pool);
  append(parent, counted(0, 261));
  Paged a = parent.fork(), b = parent;
  EXPECT_EQ(pool.free_pages(), 6);
  append(a, counted(100000, 1));
  EXPECT_EQ(pool.free_pages(), 5);  // a's own last page
  append(b, counted(200000, 2));
  EXPECT_EQ(pool.free_pages(), 4);
  append(parent, counted(261, 3));  // the last holder of the original writes in place
  EXPECT_EQ(pool.free_pages(), 4);
  Ids with_a = counted(0, 261), with_b = with_a;
  with_a.push_back(100000);
  with_b.push_back(200000);
  with_b.push_back(200001);
  EXPECT_TRUE(holds(a, with_a));
  EXPECT_TRUE(holds(b, with_b));
  EXPECT_TRUE(holds(parent, counted(0, 264)));
  EXPECT_EQ(parent.block(0, 0).keys, a.block(0, 0).keys);  // the full page is one
  EXPECT_NE(parent.block(0, 1).keys, a.block(0, 1).keys);
  parent.clear();
  b = a;
  EXPECT_EQ(pool.free_pages(), 6);
  EXPECT_TRUE(holds(b, with_a));
}

TEST(PagedCache, AForkThatCannotCopyItsPageChangesNothing) {
  const Pool pool(shape, 2);
  Paged parent(pool);
  append(parent, counted(0, 300));
  Paged child = parent.fork();
  EXPECT_FALSE(child.check_append(1).ok());
  EXPECT_THROW(append(child, counted(500, 1)), std::length_error);
  EXPECT_THROW(write(child, 10, counted(500, 1)), std::length_error);
  EXPECT_TRUE(holds(child, counted(0, 300)));
  EXPECT_TRUE(holds(parent, counted(0, 300)));
  EXPECT_EQ(pool.free_pages(), 0);
}

TEST(PagedCache, SharesAPrefix) {
  const Pool pool(shape, 8);
  Paged system(pool);
  append(system, counted(0, 700));
  Paged user = system.fork(512);
  EXPECT_EQ(user.length(), 512);
  EXPECT_EQ(pool.free_pages(), 5);
  append(user, counted(9000, 10));
  EXPECT_EQ(pool.free_pages(), 4);  // a page of its own, no copy
  Paged cut = system.fork(600);
  EXPECT_EQ(pool.free_pages(), 4);
  append(cut, counted(600, 1));  // the third page is shared: a copy
  EXPECT_EQ(pool.free_pages(), 3);
  EXPECT_TRUE(holds(cut, counted(0, 601)));
  EXPECT_TRUE(holds(system, counted(0, 700)));
  EXPECT_THROW(system.fork(701), std::length_error);
}

TEST(PagedCache, WritesAtPlacesIntoCopies) {
  const Pool pool(shape, 8);
  Paged parent(pool);
  append(parent, counted(0, 600));
  Paged child = parent.fork();
  Ids ids = counted(0, 600);
  for (int i = 0; i < 10; ++i) ids[static_cast<std::size_t>(250 + i)] = 5000 + i;
  write(child, 250, counted(5000, 10));
  EXPECT_EQ(pool.free_pages(), 3);  // two pages of three were touched
  EXPECT_TRUE(holds(child, ids));
  EXPECT_TRUE(holds(parent, counted(0, 600)));
  write(child, 598, counted(7000, 4), true);
  for (int i = 0; i < 4; ++i) ids[static_cast<std::size_t>((598 + i) % 600)] = 7000 + i;
  EXPECT_TRUE(holds(child, ids));
  EXPECT_TRUE(holds(parent, counted(0, 600)));
}

TEST(PagedCache, OutlivesThePoolsHandle) {
  Paged cache;
  EXPECT_EQ(cache.capacity(), 0);
  EXPECT_FALSE(cache.check_append(1).ok());
  {
    const Pool pool(shape, 2);
    cache = Paged(pool, 300);
  }
  append(cache, counted(0, 300));
  EXPECT_TRUE(holds(cache, counted(0, 300)));
  EXPECT_FALSE(cache.check_append(1).ok());
  cache.clear();
}

TEST(PagedCache, RefusesAPoolOfAnotherShape) {
  const Pool pool(shape, 2);
  EXPECT_THROW(Paged(CacheShape{2, 3, 16}, 10, pool), std::invalid_argument);
  EXPECT_THROW(Paged(pool, -1), std::length_error);
  EXPECT_THROW(Pool(shape, -1), std::length_error);
  EXPECT_THROW(Pool(CacheShape{0, 1, 1}, 1), std::invalid_argument);
  EXPECT_EQ(Paged(shape, 10, pool).capacity(), 10);
}

TEST(PagePool, ServesThreadsAtOnce) {
  const Pool pool(shape, 16);
  Paged common(pool);
  append(common, counted(0, 300));
  std::vector<std::thread> threads;
  std::vector<char> fine(4, 1);
  for (std::size_t n = 0; n < fine.size(); ++n)
    threads.emplace_back([&, n, cache = common.fork()]() mutable {
      for (int round = 0; round < 40; ++round) {
        const int id = static_cast<int>(n) * 100000 + round * 1000;
        append(cache, counted(id, 250));
        Ids ids = counted(0, 300);
        const Ids more = counted(id, 250);
        ids.insert(ids.end(), more.begin(), more.end());
        if (!holds(cache, ids)) fine[n] = 0;
        cache = Paged(common);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fine, std::vector<char>(4, 1));
  EXPECT_TRUE(holds(common, counted(0, 300)));
  EXPECT_EQ(pool.free_pages(), 14);
}

}  // namespace
