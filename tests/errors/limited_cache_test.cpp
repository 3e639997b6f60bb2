// What a layer refuses where its cache takes few tokens at once, or no longer holds what a row sees.
#include <gtest/gtest.h>

#include <lockstep/lockstep.hpp>

#include <string>
#include <vector>

namespace ls = lockstep;
using ls::Index;

namespace {

// check() needs no kernel: these cost little to compile.
template <class Mask>
using Layer = ls::Attention<float, 2, 1, Mask, ls::RingCache<>>;
constexpr Index window = 5, slack = 3;  // so four tokens at once

template <class Mask>
struct Scene {
  Mask own;
  std::vector<float> weights = std::vector<float>(64);
  Layer<Mask> layer{{.hidden = 8, .head_dim = 4},
                    {.query = matrix(8, 8), .key = matrix(4, 8), .value = matrix(4, 8), .output = matrix(8, 8)},
                    own};
  typename Layer<Mask>::Cache cache = layer.make_cache(window, slack);
  std::vector<float> x = std::vector<float>(600 * 8), y = x;

  ls::View<const float, 2> matrix(Index rows, Index cols) const {
    return ls::View<const float, 2>::contiguous(weights.data(), {rows, cols});
  }
  void append(Index tokens) {
    const auto rows = ls::View<const float, 3>::contiguous(x.data(), {1, 1, 4});
    for (Index i = 0; i < tokens; ++i) cache.append(rows, rows);
  }
  ls::View<const float, 2> in(Index rows) const { return ls::View<const float, 2>::contiguous(x.data(), {rows, 8}); }
  ls::View<float, 2> out(Index rows) { return ls::View<float, 2>::contiguous(y.data(), {rows, 8}); }
  std::string check(Index rows, const Mask& mask) {
    return layer.check(in(rows), cache, out(rows), {.mask = &mask}).message();
  }
  std::string check_tree(Index nodes) {
    const std::vector<Index> parents(static_cast<std::size_t>(nodes), -1);
    return layer.check_tree(in(nodes), parents, cache, out(nodes)).message();
  }
};

void expect_names(const std::string& message, const char* argument, const char* given) {
  EXPECT_EQ(message.rfind(std::string("lockstep: ") + argument + ": given ", 0), 0u) << message;
  EXPECT_NE(message.find(given), std::string::npos) << message;
}

TEST(LimitedCache, TakesATreeInOnePiece) {
  Scene<ls::SlidingWindow> scene{ls::SlidingWindow(window)};
  EXPECT_EQ(scene.check_tree(4), "");
  expect_names(scene.check_tree(5), "parents", "5 nodes");
}

TEST(LimitedCache, HoldsNoLaterKeysForTheFirstRowsOfALongChunk) {
  Scene<ls::PrefixLm> scene{ls::PrefixLm(1)};
  EXPECT_EQ(scene.check(4, ls::PrefixLm(4)), "");
  EXPECT_EQ(scene.check(5, ls::PrefixLm(1)), "") << "the prefix ends with the first row";
  expect_names(scene.check(5, ls::PrefixLm(4)), "mask", "row 0, which sees later keys");
}

TEST(LimitedCache, RefusesRowsThatSeeWhatWasPushedOut) {
  Scene<ls::SlidingWindow> scene{ls::SlidingWindow(window)};
  EXPECT_EQ(scene.check(600, ls::SlidingWindow(window)), "") << "piece by piece";
  scene.append(2 * 256 + window);
  ASSERT_GT(scene.cache.first(), 0);
  EXPECT_EQ(scene.check(4, ls::SlidingWindow(window)), "");
  EXPECT_NE(scene.check(1, ls::SlidingWindow(600)), "");
  EXPECT_NE(scene.check(600, ls::SlidingWindow(600)), "");
}

TEST(LimitedCache, RefusesLogitsOfKeysThatWerePushedOut) {
  Scene<ls::SlidingWindow> scene{ls::SlidingWindow(window)};
  scene.append(2 * 256 + window);
  const Index kv_len = scene.cache.length();
  std::vector<float> logits(static_cast<std::size_t>(2 * (kv_len + 1)));
  const auto view = [&](Index keys) { return ls::View<float, 4>::contiguous(logits.data(), {1, 2, 1, keys}); };
  expect_names(scene.layer.check(scene.in(1), scene.cache, scene.out(1), {.raw_logits = view(kv_len + 1)}).message(),
               "raw_logits", "with a cache that does not hold places 0 to");
  const auto q = ls::View<const float, 3>::contiguous(scene.x.data(), {1, 2, 4});
  ls::AttendOptions<float, ls::SlidingWindow> options{.mask = ls::SlidingWindow(window)};
  options.raw_logits = view(kv_len);
  expect_names(ls::check_attend<ls::SlidingWindow>(q, scene.cache,
                                                   ls::View<float, 3>::contiguous(scene.y.data(), {1, 2, 4}), options)
                   .message(),
               "raw_logits", "with a cache that does not hold places 0 to");
}

/// Says that it is nearly full.
struct NearlyFull : ls::RingCache<float> {
  using ls::RingCache<float>::RingCache;
  Index length() const noexcept { return capacity() - 5; }
};

TEST(LimitedCache, RefusesMoreThanItWillEverTakeAlsoInPieces) {
  const NearlyFull cache(ls::CacheShape{1, 4, 4}, window, slack);
  EXPECT_TRUE(ls::detail::check_append_all(cache, 5).ok());
  const ls::Status status = ls::detail::check_append_all(cache, 6);
  EXPECT_EQ(status.code(), ls::StatusCode::length_error);
  expect_names(status.message(), "cache", "6 tokens to append to 4611686018427387899, allowed 4611686018427387904");
}

}  // namespace
