// The ring keeps what windows need, says what it no longer holds, and refuses to go back too far.
#include "lockstep/cache/ring.hpp"

#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

#include "cache/tokens.hpp"
#include "lockstep/cache/save.hpp"

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
        ASSERT_GE(cache.held(), window + slack);
        ASSERT_EQ(cache.first(), std::max<Index>(0, length - cache.held())) << window << " " << slack;
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
  ASSERT_EQ(cache.held(), 512 - 21);
  EXPECT_EQ(cache.missing_after(0), (KeyRange{256, 2000 - 491}));
  EXPECT_EQ(cache.first(), 2000 - 491);
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

// Trimming a ring after it has wrapped: two blocks hold 512 places, of which three are for what is taken back.
TEST(RingCache, RefusesToGoBackToWhereItsWindowIsGone) {
  Ring tight(shape, 255, 2), wide(shape, 255, 40);
  const Ids ids = counted(0, 600);
  append_all(tight, ids);
  append_all(wide, ids);
  ASSERT_EQ(tight.first(), 91);
  ASSERT_EQ(wide.first(), 0);
  // At 300 a row sees places 46 to 300.
  EXPECT_FALSE(tight.check_truncate(300).ok());
  EXPECT_THROW(tight.truncate(300), std::length_error);
  EXPECT_TRUE(holds(tight, ids));
  EXPECT_EQ(tight.first(), 91);
  tight.truncate(345);  // 91 to 345
  EXPECT_TRUE(holds(tight, part(ids, 0, 345)));
  EXPECT_THROW(tight.truncate(344), std::length_error);
  wide.truncate(300);
  EXPECT_TRUE(holds(wide, part(ids, 0, 300)));
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

TEST(RingCache, TruncationDoesNotBringBackWhatWasGivenUp) {
  Ring cache(shape, 1, 0);
  append_all(cache, counted(0, 600));
  EXPECT_EQ(cache.first(), 600 - 255);
  cache.truncate(599);
  EXPECT_EQ(cache.first(), 345);
  cache.truncate(200);  // a window of 1 needs nothing
  EXPECT_EQ(cache.missing_after(0), (KeyRange{0, 200}));
  append(cache, counted(7, 1));
  EXPECT_EQ(cache.first(), 200);
  cache.clear();
  EXPECT_EQ(cache.first(), 0);
  EXPECT_EQ(cache.length(), 0);
}

/// Everything that can be read of a ring: its bytes, what it may be cut down to, and what it then holds.
std::string seen(const Ring& ring) {
  std::ostringstream all;
  ls::save_cache(ring, all);
  all << ring.length() << ' ' << ring.first() << ' ' << ring.takes_back(1) << ':';
  for (Index n = -1; n <= ring.length() + 1; ++n) {
    all << ring.check_truncate(n).message() << '\n';
    if (n % 8 != 0 || !ring.check_truncate(n).ok()) continue;
    Ring shorter = ring;
    shorter.truncate(n);
    all << shorter.first() << ' ';
  }
  return all.str();
}

// What may be taken back overwrites nothing that is held: at any length, beside blocks and after truncations.
TEST(RingCache, IsAsItWasAfterWhatItTakesBack) {
  int taken_back = 0, too_many = 0;
  for (const auto& [window, slack] :
       {std::pair<Index, Index>{1, 0}, {20, 30}, {2, 254}, {1, 256}, {256, 256}, {3, 400}})
    for (const Index length : {0, 1, 255, 256, 500, 511, 512, 513, 700, 767, 768, 1030})
      for (const Index tokens : {1, 2, 31, 255, 256, 257, 401}) {
        Ring untouched({1, 1, 1}, window, slack, length % 2 == 0 ? 0 : 3);
        append_all(untouched, counted(0, length));
        if (length % 5 == 0) untouched.truncate(length - (slack < length ? slack : length) / 2);
        if (tokens > untouched.append_limit()) {
          EXPECT_FALSE(untouched.takes_back(tokens));
          continue;
        }
        Ring ring = untouched;
        append(ring, counted(5000, tokens / 2));
        append(ring, counted(6000, tokens - tokens / 2));
        ring.rollback(untouched.length());
        SCOPED_TRACE(testing::Message() << window << " + " << slack << " at " << length << ", " << tokens);
        if (!untouched.takes_back(tokens)) {
          ++too_many;
          EXPECT_GT(tokens, 254);
          EXPECT_GT(ring.first(), untouched.first());
          continue;
        }
        ++taken_back;
        ASSERT_TRUE(seen(ring) == seen(untouched));
        append(ring, counted(7000, tokens));
        append(untouched, counted(7000, tokens));
        ASSERT_TRUE(seen(ring) == seen(untouched));
      }
  EXPECT_GT(taken_back, 250);
  EXPECT_GT(too_many, 5);
}

TEST(RingCache, RefusesToRollBackToWhereItsWindowIsGone) {
  Ring cache(shape, 255, 2);
  append_all(cache, counted(0, 600));
  EXPECT_THROW(cache.rollback(300), std::length_error);
  EXPECT_THROW(cache.rollback(601), std::length_error);
  EXPECT_TRUE(holds(cache, counted(0, 600)));
  cache.rollback(590);
  EXPECT_EQ(cache.first(), 600 - 512);
  EXPECT_TRUE(holds(cache, counted(0, 590)));
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
  ASSERT_EQ(cache.first(), 199);
  EXPECT_THROW(write(cache, 198, counted(1, 1)), std::invalid_argument);
  EXPECT_THROW(write(cache, 699, counted(1, 2), true), std::invalid_argument);
  EXPECT_TRUE(holds(cache, ids));
  write(cache, 199, counted(9000, 3));
  for (int i = 0; i < 3; ++i) ids[static_cast<std::size_t>(199 + i)] = 9000 + i;
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
