// Faults that were reported of other caches, with right values by hand: all queries are 0 and value t is t, so a row's
// result is the mean of the places that it sees.
#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>
#include <vector>

#include "lockstep/attend.hpp"
#include "lockstep/cache/paged.hpp"
#include "lockstep/cache/ring.hpp"
#include "lockstep/kernel/specification.hpp"

namespace ls = lockstep;
using ls::Index;
using ls::View;

namespace {

struct Window {
  static constexpr ls::PolicyKind policy_kind = ls::PolicyKind::mask;
  Index window = 1;
  ls::KeyRange range(ls::QueryRow q, Index kv_len) const noexcept {
    return ls::intersection({q.place - window + 1, q.place + 1}, {0, kv_len});
  }
  ls::Visibility block(ls::QueryRow, ls::KeyRange) const noexcept { return ls::Visibility::all; }
  bool visible(ls::QueryRow q, Index key) const noexcept { return key <= q.place && key > q.place - window; }
  Index keys_needed(ls::QueryRow q) const noexcept { return q.place + 1; }
};

template <class Cache>
void append(Cache& cache, const std::vector<float>& values) {
  const std::vector<float> keys(values.size() * 2, 1);
  cache.append(View<const float, 3>::contiguous(keys.data(), {static_cast<Index>(values.size()), 1, 2}),
               View<const float, 3>::contiguous(values.data(), {static_cast<Index>(values.size()), 1, 1}));
}
std::vector<float> ramp(Index first, Index count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), static_cast<float>(first));
  return values;
}
template <class Mask, class Cache>
std::vector<float> rows(const Cache& cache, Index count, Mask mask = {}) {
  const std::vector<float> q(static_cast<std::size_t>(2 * count));
  std::vector<float> out(static_cast<std::size_t>(count));
  ls::attend<Mask, ls::Specification>(View<const float, 3>::contiguous(q.data(), {count, 1, 2}), cache,
                                      View<float, 3>::contiguous(out.data(), {count, 1, 1}), {.mask = mask});
  return out;
}

// litgpt#2182, executorch#20346: a chunk longer than the ring overwrote keys that its own early rows still needed.
TEST(CacheReports, AChunkThatTheRingCannotTakeIsRefused) {
  ls::RingCache<float> ring({1, 2, 1}, 4, 2);
  EXPECT_EQ(ring.append_limit(), 3);
  EXPECT_THROW(append(ring, ramp(0, 6)), std::length_error);
  append(ring, ramp(0, 3));
  EXPECT_EQ(rows<Window>(ring, 3, {4}), (std::vector<float>{0, 0.5F, 1}));
  append(ring, ramp(3, 3));
  EXPECT_EQ(rows<Window>(ring, 3, {4}), (std::vector<float>{1.5F, 2.5F, 3.5F}));
  append(ring, ramp(6, 3));
  EXPECT_EQ(rows<Window>(ring, 3, {4}), (std::vector<float>{4.5F, 5.5F, 6.5F}));
  for (Index place = 9; place < 2000; place += 3) append(ring, ramp(place, 3));
  EXPECT_EQ(rows<Window>(ring, 3, {4}), (std::vector<float>{1996.5F, 1997.5F, 1998.5F}));
}

// mistral.rs#246, nanochat#452: a window for the prompt was forgotten in the decode step.
TEST(CacheReports, TheWindowHoldsInDecodeToo) {
  ls::RingCache<float> ring({1, 2, 1}, 4, 10);
  append(ring, ramp(0, 6));
  for (Index place = 6; place < 10; ++place) {
    append(ring, ramp(place, 1));
    EXPECT_EQ(rows<Window>(ring, 1, {4})[0], static_cast<float>(place) - 1.5F);
  }
}

// mlx-lm#1512, #1776: trimming a ring after it had wrapped gave wrong keys. Window 256, rolled back by 100.
TEST(CacheReports, ARingThatHasWrappedIsTrimmedRightlyOrNotAtAll) {
  ls::RingCache<float> tight({1, 2, 1}, 256, 0), wide({1, 2, 1}, 256, 100);
  for (Index place = 0; place < 600; ++place) {
    append(tight, ramp(place, 1));
    append(wide, ramp(place, 1));
  }
  EXPECT_FALSE(tight.check_truncate(300).ok());
  EXPECT_THROW(tight.truncate(300), std::length_error);
  EXPECT_EQ(tight.length(), 600);
  EXPECT_EQ(rows<Window>(tight, 1, {256})[0], 471.5F);
  wide.truncate(500);
  append(wide, ramp(500, 1));
  EXPECT_EQ(rows<Window>(wide, 1, {256})[0], 372.5F);
}

// atlas#1193, #692: two sequences shared a half-full last block and both wrote into it.
TEST(CacheReports, TwoForksOfAHalfFullPageAreTwo) {
  const ls::PagePool<float> pool({1, 2, 1}, 4);
  ls::PagedCache<float> parent(pool);
  append(parent, ramp(0, 5));
  ls::PagedCache<float> a = parent.fork(), b = parent.fork();
  append(a, {100});
  append(b, {200});
  append(parent, {5});
  EXPECT_EQ(rows<ls::Causal>(a, 1)[0], 110.0F / 6);
  EXPECT_EQ(rows<ls::Causal>(b, 1)[0], 35.0F);
  EXPECT_EQ(rows<ls::Causal>(parent, 1)[0], 2.5F);
}

}  // namespace
