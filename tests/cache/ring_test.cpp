// The ring keeps what windows need, says what it no longer holds, and refuses to go back too far.
#include "lockstep/cache/ring.hpp"

#include <stdexcept>

#include "cache/tokens.hpp"

namespace {

using namespace cache_test;
using ls::KeyRange;
using Ring = ls::RingCache<float>;

constexpr CacheShape shape{2, 3, 17};

TEST(RingCache, HoldsItsWindowAndSlackAfterEachAppend) {
  for (const Index window : {1, 2, 255, 256, 257, 300})
    for (const Index slack : {0, 1, 30, 256}) {
      Ring cache(shape, window, slack);
      EXPECT_EQ(cache.append_limit(), slack + 1);
      Ids ids;
      for (Index length = 0; length < 1500;) {
        const Index count = std::min<Index>(slack + 1, 1 + length % 97);
        const Ids more = counted(static_cast<int>(length), count);
        const KeyRange foretold = cache.missing_after(count);
        append(cache, more);
        ids.insert(ids.end(), more.begin(), more.end());
        length += count;
        ASSERT_EQ(foretold, cache.missing_after(0));
        ASSERT_LE(cache.first(), std::max<Index>(0, length - window - slack)) << window << " " << slack;
        ASSERT_EQ(cache.length(), length);
      }
      EXPECT_TRUE(holds(cache, ids)) << window << " " << slack;
      EXPECT_GT(cache.first(), 0);
    }
}

TEST(RingCache, TakesMemoryForWholeBlocksOfWindowAndSlackAndNoMore) {
  const Index block = 256 * (3 + 32) * 4 * 2;  // two kv heads, values in lines of 16
  EXPECT_EQ(Ring(shape, 1, 0).bytes(), block);
  EXPECT_EQ(Ring(shape, 2, 0).bytes(), 2 * block);
  EXPECT_EQ(Ring(shape, 257, 0).bytes(), 2 * block);
  EXPECT_EQ(Ring(shape, 258, 0).bytes(), 3 * block);
  EXPECT_EQ(Ring(shape, 256, 257).bytes(), 3 * block);
  EXPECT_EQ(Ring(shape, 4096, 256, 4).bytes(), (17 + 1 + 1) * block);
  Ring cache(shape, 300, 100);
  const Index before = cache.bytes();
  for (int i = 0; i < 40; ++i) append(cache, counted(i * 101, 101));
  EXPECT_EQ(cache.bytes(), before);
}

TEST(RingCache, PinsItsFirstPlaces) {
  Ring cache(shape, 10, 20, 5);
  const Ids ids = counted(0, 2000);
  append_all(cache, ids);
  // 29 tokens need two blocks; one is pinned.
  EXPECT_EQ(cache.missing_after(0), (KeyRange{256, 1536}));
  EXPECT_EQ(cache.first(), 1536);
  EXPECT_TRUE(holds(cache, ids));
  cache.truncate(256);
  EXPECT_TRUE(holds(cache, part(ids, 0, 256)));
  EXPECT_EQ(cache.first(), 0);
  append_all(cache, counted(5000, 10));
  EXPECT_EQ(cache.length(), 266);
  EXPECT_EQ(cache.first(), 0);
}

TEST(RingCache, TakesAtMostSlackAndOneAtOnce) {
  Ring cache(shape, 8, 5);
  EXPECT_TRUE(cache.check_append(6).ok());
  EXPECT_FALSE(cache.check_append(7).ok());
  EXPECT_FALSE(cache.check_append(-1).ok());
  append(cache, counted(0, 6));
  EXPECT_THROW(append(cache, counted(0, 7)), std::length_error);
  EXPECT_TRUE(holds(cache, counted(0, 6)));
}

// Trimming a ring after it has wrapped: in blocks of 256, a ring of one holds 256 places at most.
TEST(RingCache, RefusesToGoBackToWhereItsWindowIsGone) {
  Ring tight(shape, 255, 2), wide(shape, 255, 40);
  const Ids ids = counted(0, 600);
  append_all(tight, ids);
  append_all(wide, ids);
  ASSERT_EQ(tight.first(), 256);
  ASSERT_EQ(wide.first(), 0);
  // At 500 a row sees places 246 to 500.
  EXPECT_FALSE(tight.check_truncate(500).ok());
  EXPECT_THROW(tight.truncate(500), std::length_error);
  EXPECT_TRUE(holds(tight, ids));
  EXPECT_EQ(tight.first(), 256);
  tight.truncate(510);  // 256 to 510
  EXPECT_TRUE(holds(tight, part(ids, 0, 510)));
  EXPECT_THROW(tight.truncate(509), std::length_error);
  wide.truncate(500);
  EXPECT_TRUE(holds(wide, part(ids, 0, 500)));
}

TEST(RingCache, GoesBackBySlackAlways) {
  for (const Index slack : {1, 5, 256}) {
    Ring cache(shape, 100, slack);
    Ids ids;
    for (int round = 0; round < 30; ++round) {
      const Ids more = counted(round * 1000, slack + 1);
      append(cache, more);
      ids.insert(ids.end(), more.begin(), more.end());
      const Index back = round % 2 == 0 ? slack : slack + 1;
      ASSERT_TRUE(cache.check_truncate(cache.length() - back).ok()) << slack << " " << round;
      cache.truncate(cache.length() - back);
      ids.resize(ids.size() - static_cast<std::size_t>(back));
      ASSERT_TRUE(holds(cache, ids));
      append(cache, more);
      ids.insert(ids.end(), more.begin(), more.end());
      ASSERT_TRUE(holds(cache, ids));
    }
  }
}

TEST(RingCache, TruncationDoesNotBringBackWhatWasOverwritten) {
  Ring cache(shape, 1, 0);
  append_all(cache, counted(0, 300));
  EXPECT_EQ(cache.first(), 256);
  cache.truncate(200);  // a window of 1 needs nothing
  EXPECT_EQ(cache.missing_after(0), (KeyRange{0, 200}));
  append(cache, counted(7, 1));
  EXPECT_EQ(cache.first(), 200);
  cache.clear();
  EXPECT_EQ(cache.first(), 0);
  EXPECT_EQ(cache.length(), 0);
}

TEST(RingCache, ExportsOnlyWhatIsThereInFull) {
  Ring cache({1, 1, 1}, 10, 10);
  append_all(cache, counted(0, 250));
  std::vector<float> out(600);
  cache.export_keys(ls::View<float, 3>::contiguous(out.data(), {1, 250, 1}));
  EXPECT_EQ(out[249], number(249, 0, 0, 0));
  append_all(cache, counted(250, 350));
  EXPECT_THROW(cache.export_keys(ls::View<float, 3>::contiguous(out.data(), {1, 600, 1})), std::invalid_argument);
}

TEST(RingCache, RefusesToWriteWhereNothingIsHeld) {
  Ring cache(shape, 10, 10);
  Ids ids = counted(0, 700);
  append_all(cache, ids);
  ASSERT_EQ(cache.first(), 256);
  EXPECT_THROW(write(cache, 255, counted(1, 1)), std::invalid_argument);
  EXPECT_THROW(write(cache, 699, counted(1, 2), true), std::invalid_argument);
  EXPECT_TRUE(holds(cache, ids));
  write(cache, 256, counted(9000, 3));
  for (int i = 0; i < 3; ++i) ids[static_cast<std::size_t>(256 + i)] = 9000 + i;
  EXPECT_TRUE(holds(cache, ids));
}

TEST(RingCache, RefusesSizesThatMakeNoSense) {
  const auto make = [](Index window, Index slack, Index sinks) { return Ring(shape, window, slack, sinks).bytes(); };
  EXPECT_THROW(make(0, 1, 0), std::length_error);
  EXPECT_THROW(make(-4, 1, 0), std::length_error);
  EXPECT_THROW(make(4, -1, 0), std::length_error);
  EXPECT_THROW(make(4, 1, -1), std::length_error);
  EXPECT_THROW(make(std::numeric_limits<Index>::max(), 1, 0), std::length_error);
  EXPECT_THROW(Ring(CacheShape{0, 1, 1}, 4), std::invalid_argument);
  Ring moved_from(shape, 4);
  const Ring taken(std::move(moved_from));
  EXPECT_FALSE(moved_from.check_append(1).ok());
  EXPECT_EQ(moved_from.bytes(), 0);
  EXPECT_EQ(taken.size().window, 4);
}

}  // namespace
