// A layer gives the same bits through every cache of one storage, at any chunking; rows whose keys are gone are
// refused, and a forward that fails leaves every kind of cache as it was.
#include <algorithm>
#include <lockstep/lockstep.hpp>
#include <sstream>
#include <stdexcept>
#include <string>

#include "fixture.hpp"

namespace {

using namespace fixture;

/// Each row sees the `window` keys up to its own, and the first `sinks`.
struct Window {
  static constexpr ls::PolicyKind policy_kind = ls::PolicyKind::mask;
  Index window = 150, sinks = 0;
  ls::KeyRange range(ls::QueryRow q, Index kv_len) const noexcept {
    return ls::intersection({sinks > 0 ? 0 : q.place - window + 1, q.place + 1}, {0, kv_len});
  }
  ls::Visibility block(ls::QueryRow q, ls::KeyRange keys) const noexcept {
    Index seen = 0;
    for (Index key = keys.first; key < keys.last; ++key) seen += visible(q, key) ? 1 : 0;
    return seen == 0 ? ls::Visibility::none : seen == keys.size() ? ls::Visibility::all : ls::Visibility::some;
  }
  bool visible(ls::QueryRow q, Index key) const noexcept {
    return key <= q.place && (key > q.place - window || key < sinks);
  }
  Index keys_needed(ls::QueryRow q) const noexcept { return q.place + 1; }
};

/// Runs tasks one after the other until it is told to fail.
struct Fails {
  static constexpr ls::PolicyKind policy_kind = ls::PolicyKind::executor;
  int* left = nullptr;
  Index concurrency() const noexcept { return 2; }
  Index parallel_from() const noexcept { return 0; }
  template <class F>
  void run(Index n, F&& f) const {
    if (left != nullptr && (*left)-- == 0) throw std::runtime_error("no thread");
    for (Index i = 0; i < n; ++i) f(i);
  }
};

template <class Cache>
using Layer = ls::Attention<float, 4, 2, ls::Rope<ls::HalfSplit>, Window, Fails, Cache>;

constexpr Shape shape{.hidden = 12, .heads = 4, .kv_heads = 2, .head_dim = 6, .v_head_dim = 5};
constexpr Index tokens = 1100;
const ls::CacheShape cache_shape{2, 6, 5};

template <class Cache>
Layer<Cache> layer(Window window, int* left = nullptr) {
  return make_layer<Layer<Cache>>(shape, rope<float>(shape.head_dim), window, Fails{left});
}

template <class L, class Cache>
std::vector<float> outputs(const L& layer, Cache& cache, const std::vector<float>& x, const std::vector<Index>& plan) {
  std::vector<float> y(x.size());
  Index first = 0;
  for (const Index rows : plan) {
    layer.forward(rows_of(x, first, rows, shape.hidden), cache, rows_of(y, first, rows, shape.hidden));
    first += rows;
  }
  return y;
}

template <class S>
void every_cache_has_the_same_bits(Window window) {
  const auto x = numbers<float>(tokens * shape.hidden, 31);
  const auto contiguous = layer<ls::ContiguousCache<S>>(window);
  auto whole = contiguous.make_cache(tokens);
  const auto expected = outputs(contiguous, whole, x, {tokens});
  EXPECT_TRUE(same_bits(expected, full(contiguous, x).y, shape.hidden));
  const auto ring = layer<ls::RingCache<S>>(window);
  const auto paged = layer<ls::PagedCache<S>>(window);
  EXPECT_TRUE(same_bits(expected, full(ring, x).y, shape.hidden));
  const ls::PagePool<S> pool(paged.cache_shape(), 16);
  {  // pages in an order of their own
    std::vector<ls::PagedCache<S>> holders(7, ls::PagedCache<S>(pool));
    std::vector<float> one(12);
    for (auto& holder : holders)
      paged.forward(rows_of(x, 0, 1, shape.hidden), holder, rows_of(one, 0, 1, shape.hidden));
    for (const Index n : {3, 0, 6, 1, 5, 2, 4}) holders[at(n)].clear();
  }
  for (const auto& plan : {std::vector<Index>{tokens}, steps(tokens, 61), random_plan(tokens, 4)}) {
    auto growing = contiguous.make_cache(tokens, ls::CacheMemory{.initial = 1});
    EXPECT_TRUE(same_bits(expected, outputs(contiguous, growing, x, plan), shape.hidden)) << plan_name(plan);
    for (const Index slack : {Index{0}, Index{40}, Index{256}}) {
      if (slack == 0 && plan.size() < 2) continue;  // row by row, once is enough
      auto cache = ring.make_cache(window.window, slack, window.sinks);
      EXPECT_TRUE(same_bits(expected, outputs(ring, cache, x, plan), shape.hidden)) << plan_name(plan) << " " << slack;
      EXPECT_LT(cache.bytes(), whole.bytes());
      EXPECT_GT(cache.first(), 0);
    }
    auto cache = paged.make_cache(tokens, pool);
    EXPECT_TRUE(same_bits(expected, outputs(paged, cache, x, plan), shape.hidden)) << plan_name(plan);
    auto child = cache.fork(700);
    std::vector<float> y = part(expected, 0, 700 * shape.hidden);
    const auto rest = part(x, 700 * shape.hidden, 400 * shape.hidden);
    const auto more = outputs(paged, child, rest, {100, 300});
    y.insert(y.end(), more.begin(), more.end());
    EXPECT_TRUE(same_bits(expected, y, shape.hidden)) << "forked";
  }
}

TEST(EveryCache, GivesALayerTheSameBits) {
  every_cache_has_the_same_bits<float>({150, 0});
  every_cache_has_the_same_bits<float>({90, 7});
}
TEST(EveryCache, GivesALayerTheSameBitsOverCodes) { every_cache_has_the_same_bits<std::int8_t>({150, 3}); }

TEST(RingInALayer, RefusesRowsWhoseKeysAreGone) {
  const auto x = numbers<float>(tokens * shape.hidden, 33);
  const auto wide = layer<ls::RingCache<float>>({495, 0});
  auto cache = wide.make_cache(100, 20);  // two blocks, of which 21 places are for what is taken back
  std::vector<float> y(x.size());
  const auto forward = [&](Index first, Index rows) {
    wide.forward(rows_of(x, first, rows, shape.hidden), cache, rows_of(y, first, rows, shape.hidden));
  };
  forward(0, 480);  // the ring still has all
  const auto before = y;
  EXPECT_FALSE(wide.check(rows_of(x, 480, 20, shape.hidden), cache, rows_of(y, 480, 20, shape.hidden)).ok());
  EXPECT_THROW(forward(480, 20), std::invalid_argument);
  EXPECT_EQ(cache.length(), 480);
  EXPECT_TRUE(same_bits(before, y, shape.hidden));
  forward(480, 11);
  EXPECT_THROW(forward(491, 1), std::invalid_argument);
  // A mask for the call that looks back less far goes on.
  const Window narrow{100, 0};
  wide.forward(rows_of(x, 491, 1, shape.hidden), cache, rows_of(y, 491, 1, shape.hidden), {.mask = &narrow});
  EXPECT_EQ(cache.length(), 492);
  // attend() asks the same.
  const auto q = numbers<float>(4 * 6, 34);
  std::vector<float> context(20);
  const auto query = ls::View<const float, 3>::contiguous(q.data(), {1, 4, 6});
  const auto out = ls::View<float, 3>::contiguous(context.data(), {1, 4, 5});
  EXPECT_THROW(ls::attend<ls::Causal>(query, cache, out), std::invalid_argument);
  EXPECT_THROW((ls::attend<Window>(query, cache, out, {.mask = {492, 0}})), std::invalid_argument);
  ls::attend<Window>(query, cache, out, {.mask = {491, 0}});
}

// Rows that see later keys cannot come in pieces.
struct Both : Window {
  ls::KeyRange range(ls::QueryRow, Index kv_len) const noexcept { return {0, kv_len}; }
  ls::Visibility block(ls::QueryRow, ls::KeyRange) const noexcept { return ls::Visibility::all; }
  bool visible(ls::QueryRow, Index) const noexcept { return true; }
  Index keys_needed(ls::QueryRow) const noexcept { return 30; }
};
TEST(RingInALayer, RefusesLongChunksWhoseRowsSeeLaterKeys) {
  using L = ls::Attention<float, 4, 2, Both, ls::RingCache<float>>;
  const auto both = make_layer<L>(shape);
  const auto x = numbers<float>(30 * shape.hidden, 35);
  std::vector<float> y(x.size());
  auto small = both.make_cache(100, 10), large = both.make_cache(100, 29);
  EXPECT_THROW(both.forward(rows_of(x, 0, 30, 12), small, rows_of(y, 0, 30, 12)), std::invalid_argument);
  EXPECT_EQ(small.length(), 0);
  both.forward(rows_of(x, 0, 30, 12), large, rows_of(y, 0, 30, 12));
  EXPECT_TRUE(same_bits(full(both, x).y, y, shape.hidden));
}

/// What can be read of a cache, and where it may be cut off.
template <class Cache>
std::string seen(const Cache& cache) {
  std::ostringstream all;
  ls::save_cache(cache, all);
  for (Index n = 0; n <= cache.length(); ++n) all << cache.check_truncate(n).message();
  return all.str();
}

template <class Cache, class... Args>
void failure_leaves_it_as_it_was(const Args&... args) {
  int left = -1;
  const auto failing = layer<Cache>({60, 0}, &left);
  const auto x = numbers<float>(tokens * shape.hidden, 36);
  for (const Index rows : {1, 30, 300}) {
    auto cache = failing.make_cache(args...);
    left = -1;
    const auto start = outputs(failing, cache, part(x, 0, 700 * shape.hidden), {400, 300});
    const auto copy = cache;
    std::vector<float> y(at(rows * shape.hidden)), expected = y;
    const auto next = part(x, 700 * shape.hidden, rows * shape.hidden);
    int runs = 1;
    {
      auto other = copy;
      left = 1000000;
      failing.forward(rows_of(next, 0, rows, 12), other, rows_of(expected, 0, rows, 12));
      runs = 1000000 - left;
    }
    for (int n = 0; n < runs; n += runs < 12 ? 1 : runs / 12) {
      left = n;
      EXPECT_THROW(failing.forward(rows_of(next, 0, rows, 12), cache, rows_of(y, 0, rows, 12)), std::runtime_error);
      ASSERT_TRUE(seen(cache) == seen(copy)) << rows << " rows, after " << n << " runs of " << runs;
      left = -1;
      auto again = cache;
      failing.forward(rows_of(next, 0, rows, 12), again, rows_of(y, 0, rows, 12));
      ASSERT_TRUE(same_bits(expected, y, shape.hidden)) << "after " << n << " runs of " << runs;
    }
  }
}
TEST(EveryCache, IsAsItWasWhenAForwardFails) {
  failure_leaves_it_as_it_was<ls::RingCache<float>>(Index{60}, Index{29});
  failure_leaves_it_as_it_was<ls::RingCache<float>>(Index{60}, Index{0}, Index{4});
  failure_leaves_it_as_it_was<ls::RingCache<float>>(Index{257}, Index{400});  // 300 rows are more than are taken back
  const ls::PagePool<float> pool(cache_shape, 20);
  failure_leaves_it_as_it_was<ls::PagedCache<float>>(Index{1100}, pool);
  EXPECT_EQ(pool.free_pages(), 20);
}

// Each sequence alone would fit into the pool.
TEST(PagesInALayer, ThatDoNotDoForTheWholeBatchAreRefusedBeforeAnythingIsWritten) {
  const auto paged = layer<ls::PagedCache<float>>({2000, 0});
  const ls::PagePool<float> pool(cache_shape, 5);
  std::vector<ls::PagedCache<float>> caches(2, ls::PagedCache<float>(pool));
  const auto x = numbers<float>(2 * 600 * shape.hidden, 39);
  std::vector<float> y(x.size(), 7);
  const auto in = ls::View<const float, 3>::contiguous(x.data(), {2, 600, shape.hidden});
  const auto out = ls::View<float, 3>::contiguous(y.data(), {2, 600, shape.hidden});
  const std::string message =
      "lockstep: pages: given appends to 2 caches that need 6 together, allowed 5: the pool "
      "has no more";
  EXPECT_EQ(paged.check(in, caches, out).message(), message);
  EXPECT_THROW(paged.forward(in, caches, out), std::length_error);
  EXPECT_EQ(y, std::vector<float>(x.size(), 7));
  EXPECT_EQ(pool.free_pages(), 5);
  EXPECT_EQ(caches[0].length() + caches[1].length(), 0);
  paged.forward(in.part(1, 0, 500), caches, out.part(1, 0, 500));
  EXPECT_EQ(pool.free_pages(), 1);
}

// A page that is shared is copied for each that writes to it but the last one to hold it.
TEST(PagesInALayer, OfForksAreCountedAsTheyWillBeCopied) {
  const auto paged = layer<ls::PagedCache<float>>({2000, 0});
  const auto x = numbers<float>(3 * 300 * shape.hidden, 40);
  std::vector<float> y(x.size(), 7);
  const auto in = ls::View<const float, 3>::contiguous(x.data(), {3, 300, shape.hidden});
  const auto out = ls::View<float, 3>::contiguous(y.data(), {3, 300, shape.hidden});
  for (const bool spectator : {false, true})
    for (const Index sequences : {2, 3})
      for (const Index rows : {1, 212, 213})  // up to the end of the shared page, and beyond it
        for (Index free = 0;; ++free) {
          SCOPED_TRACE(testing::Message() << sequences << " forks, " << rows << " rows, " << free << " free pages");
          const ls::PagePool<float> pool(cache_shape, 2 + free);
          std::vector<ls::PagedCache<float>> caches(1, ls::PagedCache<float>(pool));
          caches[0].append(ls::View<const float, 3>::contiguous(x.data(), {300, 2, 6}),
                           ls::View<const float, 3>::contiguous(x.data(), {300, 2, 5}));
          while (static_cast<Index>(caches.size()) < sequences) caches.push_back(caches[0].fork());
          const auto other = spectator ? caches[0].fork() : ls::PagedCache<float>(pool);
          const auto state = [&] { return seen(caches[0]) + seen(caches[1]) + std::to_string(pool.free_pages()); };
          const std::string before = state();
          const Index alone = 1 + (rows > 212), together = sequences * alone - (spectator ? 0 : 1);
          const auto next = in.part(0, 0, sequences).part(1, 0, rows);
          const auto result = out.part(0, 0, sequences).part(1, 0, rows);
          const std::string message = paged.check(next, caches, result).message();
          if (free >= together) {
            ASSERT_EQ(message, "");
            paged.forward(next, caches, result);
            EXPECT_EQ(pool.free_pages(), free - together);
            break;
          }
          if (free >= alone) {
            EXPECT_EQ(message, "lockstep: pages: given appends to " + std::to_string(sequences) + " caches that need " +
                                   std::to_string(together) + " together, allowed " + std::to_string(free) +
                                   ": the pool has no more");
          }
          const std::vector<float> untouched = y;
          EXPECT_THROW(paged.forward(next, caches, result), std::length_error);
          EXPECT_EQ(y, untouched);
          EXPECT_EQ(state(), before);
        }
}

/// The context of four queries under flags that hide all but the first 256 keys.
template <class Kernel, class Cache>
std::vector<float> seeing_256(const Cache& cache) {
  const auto q = numbers<float>(4 * 4 * 6, 41);
  std::vector<float> context(4 * 4 * 5), weights(at(4 * 4 * cache.length()));
  std::vector<char> flags(at(cache.length()));
  std::fill_n(flags.begin(), 256, 1);
  const ls::KeyPadding mask(
      ls::View<const bool, 2>::contiguous(reinterpret_cast<const bool*>(flags.data()), {1, cache.length()}));
  ls::attend<Kernel, ls::KeyPadding>(
      ls::View<const float, 3>::contiguous(q.data(), {4, 4, 6}), cache,
      ls::View<float, 3>::contiguous(context.data(), {4, 4, 5}),
      {.weights = ls::View<float, 4>::contiguous(weights.data(), {1, 4, 4, cache.length()}), .mask = mask});
  return context;
}

// A ring that has lost places is restored into a cache that is then cut off among them: the hole is at its end.
template <class S>
void has_memory_for_what_is_missing() {
  std::ostringstream of_ring, of_hole;
  const auto x = numbers<float>(2000 * 12, 42);
  ls::RingCache<S> ring(cache_shape, 300, 100, 4);
  for (Index first = 0; first < 2000; first += 100)
    ring.append(ls::View<const float, 3>::contiguous(x.data() + first * 12, {100, 2, 6}),
                ls::View<const float, 3>::contiguous(x.data() + first * 10, {100, 2, 5}));
  ls::save_cache(ring, of_ring);
  ls::ContiguousCache<S> whole(cache_shape, 2100), growing(cache_shape, 2100, {.initial = 0});
  std::istringstream in(of_ring.str());
  ls::restore_cache(whole, in);
  whole.truncate(1000);
  ASSERT_EQ(whole.missing_after(0), (ls::KeyRange{256, 1000}));
  ls::save_cache(whole, of_hole);
  auto held = whole;
  held.truncate(256);
  const ls::PagePool<S> pool(cache_shape, 4);
  ls::PagedCache<S> paged(pool);
  const auto reads_what_is_held = [&](auto& cache) {
    std::istringstream stream(of_hole.str());
    ls::restore_cache(cache, stream);
    ASSERT_EQ(cache.length(), 1000);
    ASSERT_GE(cache.bytes(), pool.bytes());
    EXPECT_TRUE(same_bits(seeing_256<ls::Tiled>(held), seeing_256<ls::Tiled>(cache), 5));
    EXPECT_TRUE(same_bits(seeing_256<ls::Specification>(held), seeing_256<ls::Specification>(cache), 5));
    EXPECT_TRUE(same_bits(seeing_256<ls::Materialized>(held), seeing_256<ls::Materialized>(cache), 5));
  };
  reads_what_is_held(growing);
  reads_what_is_held(paged);
  EXPECT_EQ(pool.free_pages(), 0);
}
TEST(EveryCache, HasMemoryForWhatIsMissingAtItsEnd) {
  has_memory_for_what_is_missing<float>();
  has_memory_for_what_is_missing<std::int8_t>();
}

TEST(Int8InALayer, RefusesWhatHasNoCodeAndKeepsTheCache) {
  const auto coded = layer<ls::ContiguousCache<std::int8_t>>({1000, 0});
  auto cache = coded.make_cache(400);
  auto x = numbers<float>(400 * shape.hidden, 37);
  std::vector<float> y(x.size());
  coded.forward(rows_of(x, 0, 50, 12), cache, rows_of(y, 0, 50, 12));
  x[at(350 * 12)] = nan<float>();
  EXPECT_THROW(coded.forward(rows_of(x, 50, 350, 12), cache, rows_of(y, 50, 350, 12)), std::invalid_argument);
  EXPECT_EQ(cache.length(), 50);
}

TEST(ModelOfRings, TruncatesAllLayersOrNone) {
  ls::ModelCache<ls::RingCache<float>, ls::ContiguousCache<float>> caches;
  caches.add(ls::ContiguousCache<float>(cache_shape, 2000));
  caches.add(ls::RingCache<float>(cache_shape, 200, 30));
  const auto global = layer<ls::ContiguousCache<float>>({2000, 0});
  const auto local = layer<ls::RingCache<float>>({200, 0});
  const auto x = numbers<float>(tokens * shape.hidden, 38);
  std::vector<float> y(x.size()), z(x.size());
  const auto step = caches.begin(1000);  // longer than the ring takes at once
  global.forward(rows_of(x, 0, 1000, 12), caches.layer<ls::ContiguousCache<float>>(0), rows_of(y, 0, 1000, 12),
                 {.offset = step.offset});
  local.forward(rows_of(y, 0, 1000, 12), caches.layer(1), rows_of(z, 0, 1000, 12), {.offset = step.offset});
  EXPECT_THROW(caches.truncate(500), std::length_error);
  EXPECT_EQ(caches.layer<ls::ContiguousCache<float>>(0).length(), 1000);
  caches.truncate(970);
  EXPECT_EQ(caches.layer(1).length(), 970);
}

}  // namespace
