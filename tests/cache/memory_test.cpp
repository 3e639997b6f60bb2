// Caches grow up to their limit, take their memory where they are told to, and change nothing where there is none.
#include <cstdlib>
#include <new>
#include <stdexcept>

#include "cache/tokens.hpp"
#include "lockstep/cache/contiguous.hpp"
#include "lockstep/cache/paged.hpp"
#include "lockstep/cache/ring.hpp"

namespace {

using namespace cache_test;
using Contiguous = ls::ContiguousCache<float>;

constexpr CacheShape shape{2, 3, 17};
constexpr Index block = 2 * 256 * (3 + 32) * 4;

TEST(CacheMemory, GrowsByDoublingUpToTheCapacity) {
  Contiguous cache(shape, 1500, {.initial = 1});
  EXPECT_EQ(cache.bytes(), block);
  EXPECT_EQ(cache.capacity(), 1500);
  const Index blocks[] = {1, 2, 4, 4, 6, 6};  // after each 256 tokens
  Ids ids;
  for (int n = 0; n < 5; ++n) {
    const Ids more = counted(n * 256, 256);
    append(cache, more);
    ids.insert(ids.end(), more.begin(), more.end());
    EXPECT_EQ(cache.bytes(), blocks[n] * block) << n;
    EXPECT_TRUE(holds(cache, ids));
  }
  append(cache, counted(1280, 220));
  EXPECT_EQ(cache.bytes(), 6 * block);
  EXPECT_TRUE(holds(cache, counted(0, 1500)));
  EXPECT_THROW(append(cache, counted(0, 1)), std::length_error);
  Contiguous none(shape, 1500, {.initial = 0});
  EXPECT_EQ(none.bytes(), 0);
  append(none, counted(0, 700));  // at once to what is needed
  EXPECT_EQ(none.bytes(), 3 * block);
  EXPECT_TRUE(holds(none, counted(0, 700)));
  const Contiguous copy(none);
  EXPECT_EQ(copy.bytes(), 3 * block);
  EXPECT_TRUE(holds(copy, counted(0, 700)));
  EXPECT_EQ(none.empty_like().bytes(), 0);
}

TEST(CacheMemory, GrowsOnceForWhatIsReserved) {
  Contiguous cache(shape, 1500, {.initial = 0});
  append(cache, counted(0, 10));
  cache.reserve(1200);
  EXPECT_EQ(cache.bytes(), 5 * block);
  EXPECT_TRUE(holds(cache, counted(0, 10)));
  append(cache, counted(10, 1200));
  EXPECT_EQ(cache.bytes(), 5 * block);
  EXPECT_THROW(cache.reserve(291), std::length_error);
}

TEST(CacheMemory, RefusesAnInitialSizeBeyondTheCapacity) {
  EXPECT_THROW(Contiguous(shape, 10, {.initial = 11}), std::length_error);
  EXPECT_THROW(Contiguous(shape, 10, {.initial = -2}), std::length_error);
  EXPECT_EQ(Contiguous(shape, 10, {.initial = 10}).bytes(), block);
}

/// Counts what is out, and has memory for a limited number of arrays.
struct Shelf {
  int left = 1000, out = 0;
  std::size_t largest_alignment = 0;
  ls::MemorySource source() { return {&take, &give_back, this}; }
  static void* take(void* context, std::size_t bytes, std::size_t alignment) {
    auto& shelf = *static_cast<Shelf*>(context);
    if (shelf.left == 0) return nullptr;
    --shelf.left;
    ++shelf.out;
    shelf.largest_alignment = std::max(shelf.largest_alignment, alignment);
    return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  }
  static void give_back(void* context, void* memory, std::size_t, std::size_t) noexcept {
    --static_cast<Shelf*>(context)->out;
    std::free(memory);
  }
};

TEST(CacheMemory, ComesFromTheCallersSource) {
  Shelf shelf;
  {
    Contiguous cache(shape, 600, {.initial = 1, .source = shelf.source()});
    EXPECT_EQ(shelf.out, 1);
    append(cache, counted(0, 600));
    EXPECT_EQ(shelf.out, 1);
    EXPECT_EQ(shelf.left, 998);
    const Contiguous copy(cache);
    EXPECT_EQ(shelf.out, 2);
    EXPECT_TRUE(holds(copy, counted(0, 600)));
    ls::RingCache<float> ring(shape, {.window = 10}, shelf.source());
    const ls::PagePool<float> pool(shape, 2, shelf.source());
    EXPECT_EQ(shelf.out, 4);
    Contiguous moved(std::move(cache));
    cache = copy;
    EXPECT_EQ(shelf.out, 5);
    EXPECT_TRUE(holds(cache, counted(0, 600)));
    EXPECT_TRUE(holds(moved, counted(0, 600)));
  }
  EXPECT_EQ(shelf.out, 0);
  EXPECT_EQ(shelf.largest_alignment, 64U);
}

TEST(CacheMemory, AnAppendWhoseMemoryIsNotToBeHadChangesNothing) {
  Shelf shelf;
  Contiguous cache(shape, 2000, {.initial = 256, .source = shelf.source()});
  append(cache, counted(0, 250));
  shelf.left = 0;
  EXPECT_THROW(append(cache, counted(250, 7)), std::length_error);
  EXPECT_TRUE(holds(cache, counted(0, 250)));
  EXPECT_EQ(cache.bytes(), block);
  append(cache, counted(250, 6));
  shelf.left = 1;
  append(cache, counted(256, 1000));
  EXPECT_TRUE(holds(cache, counted(0, 1256)));
  shelf.left = 0;
  EXPECT_THROW(Contiguous(shape, 1, {.source = shelf.source()}), std::length_error);
}

TEST(CacheMemory, RefusesASourceThatOnlyTakesOrOnlyGivesBack) {
  EXPECT_THROW(Contiguous(shape, 1, {.source = {&Shelf::take, nullptr, nullptr}}), std::invalid_argument);
  EXPECT_THROW(Contiguous(shape, 1, {.source = {nullptr, &Shelf::give_back, nullptr}}), std::invalid_argument);
}

TEST(CacheMemory, MayLieOnHugePages) {
  Contiguous cache(shape, 600, {.initial = 256, .source = ls::huge_pages});
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(cache.block(0, 0).keys) % (1u << 21), 0U);
  append(cache, counted(0, 600));
  EXPECT_TRUE(holds(cache, counted(0, 600)));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(cache.block(0, 0).keys) % (1u << 21), 0U);
}

}  // namespace
