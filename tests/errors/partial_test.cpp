// Every wrong argument of partial attention: refused before anything is done.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "errors/refusal.hpp"
#include "lockstep/attend/partial.hpp"
#include "lockstep/cache/ring.hpp"
#include "lockstep/mask/causal.hpp"
#include "lockstep/sinks/learned.hpp"

namespace ls = lockstep;
using errors::invalid;
using errors::too_long;
using ls::Index;
using ls::View;

namespace {

constexpr ls::CacheShape shape{2, 4, 3};
constexpr Index most = std::numeric_limits<Index>::max();

// Three queries of four heads over 1100 keys, and what came of the first 1024 of them.
struct Scene {
  using Options = ls::PartialOptions<float, ls::Specification, ls::SlidingWindow>;

  Scene() {
    cache.append(View<const float, 3>::contiguous(numbers.data(), {1100, 2, 4}),
                 View<const float, 3>::contiguous(numbers.data(), {1100, 2, 3}));
    options.offset = 1097;
    options.mask.window = 2000;
    ls::attend_partial<ls::Specification>(q, cache, first, {.offset = 1097, .places = {0, 1024}});
  }
  void attend() { ls::attend_partial<ls::Specification, ls::SlidingWindow>(q, cache, partial, options); }
  void finish() { ls::finish(first, context, lse); }
  void merge_by_lse() { ls::merge_by_lse<float>(context, lse, other_context, other_lse); }
  std::vector<float> state() const {
    std::vector<float> all(memory);
    all.push_back(static_cast<float>(partial.splits().size() + first.splits().size()));
    return all;
  }

  std::vector<float> numbers = std::vector<float>(9000, 0.5F), memory = std::vector<float>(400, -1);
  ls::ContiguousCache<float> cache{shape, 1100};
  Options options;
  ls::Partial<float> partial, first;
  View<const float, 3> q = View<const float, 3>::contiguous(numbers.data(), {3, 4, 4});
  View<float, 3> context = View<float, 3>::contiguous(memory.data(), {3, 4, 3});
  View<float, 2> lse = View<float, 2>::contiguous(memory.data() + 40, {4, 3});
  View<const float, 3> other_context = View<const float, 3>::contiguous(memory.data() + 100, {3, 4, 3});
  View<const float, 2> other_lse = View<const float, 2>::contiguous(memory.data() + 150, {4, 3});
  std::array<std::byte, 100> small{};
  ls::Workspace workspace{small.data(), 100};
};

struct Row {
  const char* name;
  errors::Refusal refusal;
  void (*call)(Scene&);
};

// clang-format off
const Row rows[] = {
    {"QueryNull", {invalid, "q", "null", "[3, 4, 4]"}, [](Scene& s) { s.q.data = nullptr; s.attend(); }},
    {"QueryNegative", {invalid, "q", "[-3, 4, 4]", "from 0"}, [](Scene& s) { s.q.extent[0] = -3; s.attend(); }},
    {"QueryOfAnotherHeadDim", {invalid, "q", "head_dim 3", "4"}, [](Scene& s) { s.q.extent[2] = 3; s.attend(); }},
    {"QueryHeadsNoMultiple", {invalid, "heads", "3 query heads over 2", "multiples"}, [](Scene& s) { s.q.extent[1] = 3; s.attend(); }},
    {"QueriesWhoseStatesNoMemoryHolds", {too_long, "q", "[144115188075855872, 4, 4]", "63 bits"}, [](Scene& s) { s.q.extent[0] = Index{1} << 57; s.q.stride[0] = 0; s.options.offset = -(Index{1} << 58); s.attend(); }},
    {"OffsetFarAhead", {invalid, "offset", "9223372036854775807", "2^62"}, [](Scene& s) { s.options.offset = most; s.attend(); }},
    {"CachePlaceNoSplit", {invalid, "cache_place", "1000", "multiples of 1024"}, [](Scene& s) { s.options.cache_place = 1000; s.attend(); }},
    {"CachePlaceNegative", {invalid, "cache_place", "-1024", "from 0"}, [](Scene& s) { s.options.cache_place = -1024; s.attend(); }},
    {"CachePlaceFarAway", {invalid, "cache_place", "9223372036854774784", "from 0"}, [](Scene& s) { s.options.cache_place = most / 1024 * 1024; s.attend(); }},
    {"PlacesNoSplit", {invalid, "places", "1 to 1024", "multiples of 1024"}, [](Scene& s) { s.options.places = {1, 1024}; s.attend(); }},
    {"PlacesReversed", {invalid, "places", "2048 to 1024", "multiples of 1024"}, [](Scene& s) { s.options.places = {2048, 1024}; s.attend(); }},
    {"PlacesThatEndWithinASplit", {invalid, "places", "0 to 1050", "last key 1100"}, [](Scene& s) { s.options.places = {0, 1050}; s.attend(); }},
    {"WindowOfNoKeys", {invalid, "mask", "0 keys", "at least 1"}, [](Scene& s) { s.options.mask.window = 0; s.attend(); }},
    {"ScaleNan", {invalid, "scale", "nan", "numbers from"}, [](Scene& s) { s.options.logits.given = std::numeric_limits<double>::quiet_NaN(); s.attend(); }},
    {"WorkspaceInTheCache", {invalid, "workspace", "overlaps cache", "its own"}, [](Scene& s) { ls::Workspace inside(const_cast<float*>(s.cache.block(0, 0).keys) + 5, 100); s.options.workspace = &inside; s.attend(); }},
    {"WorkspaceTooSmall", {too_long, "workspace", "100 bytes", "from "}, [](Scene& s) { s.options.workspace = &s.workspace; s.attend(); }},
    {"ContextOfAnotherLength", {invalid, "context", "[2, 4, 3]", "[3, 4, 3]"}, [](Scene& s) { s.context.extent[0] = 2; s.finish(); }},
    {"ContextNull", {invalid, "context", "null", "[3, 4, 3]"}, [](Scene& s) { s.context.data = nullptr; s.finish(); }},
    {"ContextOfOneRow", {invalid, "context", "strides", "part all numbers"}, [](Scene& s) { s.context.stride[0] = 0; s.finish(); }},
    {"LseOfAnotherShape", {invalid, "lse", "[3, 4]", "[4, 3]"}, [](Scene& s) { s.lse = View<float, 2>::contiguous(s.memory.data() + 40, {3, 4}); s.finish(); }},
    {"LseOverContext", {invalid, "lse", "overlaps context", "its own"}, [](Scene& s) { s.lse.data = s.memory.data() + 35; s.finish(); }},
    {"ContextInThePartial", {invalid, "context", "overlaps partial", "its own"}, [](Scene& s) { s.context.data = s.first.states().sum; s.finish(); }},
    {"LseInThePartial", {invalid, "lse", "overlaps partial", "its own"}, [](Scene& s) { s.lse.data = s.first.states().sum + 20; s.finish(); }},
    {"QueryInThePartial", {invalid, "partial", "overlaps q", "its own"}, [](Scene& s) { s.q.data = s.first.states().sum; ls::attend_partial<ls::Specification, ls::SlidingWindow>(s.q, s.cache, s.first, s.options); }},
    {"SinksOfOtherHeads", {invalid, "sinks", "", "4"}, [](Scene& s) { ls::finish(s.first, s.context, s.lse, ls::LearnedSinks<float>(View<const float, 1>::contiguous(s.numbers.data(), {3}))); }},
    {"MergeItself", {invalid, "partial", "place 0 again", "each split once"}, [](Scene& s) { s.first.merge(s.first); }},
    {"MergeOtherSizes", {invalid, "partial", "0 queries of 0 heads", "3 of 4 and 3"}, [](Scene& s) { s.first.merge(s.partial); }},
    {"MergeLseOfAnotherShape", {invalid, "lse", "[4, 2]", "[4, 3]"}, [](Scene& s) { s.lse.extent[1] = 2; s.merge_by_lse(); }},
    {"MergeOtherContextOfAnotherShape", {invalid, "other_context", "[3, 2, 3]", "[3, 4, 3]"}, [](Scene& s) { s.other_context.extent[1] = 2; s.merge_by_lse(); }},
    {"MergeOtherLseNull", {invalid, "other_lse", "null", "[4, 3]"}, [](Scene& s) { s.other_lse.data = nullptr; s.merge_by_lse(); }},
    {"MergeIntoItself", {invalid, "context", "overlaps other_context", "its own"}, [](Scene& s) { s.other_context = s.context; s.merge_by_lse(); }},
    {"MergeContextNegative", {invalid, "context", "[-3, 4, 3]", "from 0"}, [](Scene& s) { s.context.extent[0] = s.other_context.extent[0] = -3; s.merge_by_lse(); }},
};
// clang-format on

class PartialRefuses : public testing::TestWithParam<Row> {};

TEST_P(PartialRefuses, BeforeAnythingIsDone) { errors::expect_refusal<Scene>(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Errors, PartialRefuses, testing::ValuesIn(rows), errors::RowName());

TEST(PartialTakes, TheSceneThatTheRowsSpoil) {
  Scene scene;
  scene.attend();
  EXPECT_EQ(scene.partial.splits().size(), 2);
  scene.finish();
  scene.merge_by_lse();
  ls::Partial<float> moved = std::move(scene.first);
  EXPECT_EQ(moved.q_len(), 3);
  EXPECT_THROW(scene.finish(), std::invalid_argument) << "a partial that was moved from has no queries";
}

TEST(PartialRefuses, KeysThatTheCacheNoLongerHolds) {
  Scene scene;
  ls::RingCache<float> ring(shape, 20, 30);
  for (int i = 0; i < 40; ++i)
    ring.append(View<const float, 3>::contiguous(scene.numbers.data(), {30, 2, 4}),
                View<const float, 3>::contiguous(scene.numbers.data(), {30, 2, 3}));
  const auto attend = [&](Index window) {
    Scene::Options options;
    options.offset = 1197;
    options.mask.window = window;
    ls::attend_partial<ls::Specification, ls::SlidingWindow>(scene.q, ring, scene.partial, options);
  };
  EXPECT_TRUE(errors::is_refusal(errors::outcome_of([&] { attend(600); }),
                                 {invalid, "mask", "row 0, which sees keys", "which the cache no longer holds"}));
  EXPECT_TRUE(scene.partial.splits().empty());
  scene.q.extent[0] = Index{1} << 57;  // looked at one by one it would never end
  scene.q.stride[0] = 0;
  EXPECT_TRUE(
      errors::is_refusal(errors::outcome_of([&] { attend(20); }), {too_long, "q", "144115188075855872", "63 bits"}));
  scene.q = Scene().q;
  attend(20);
  EXPECT_EQ(scene.partial.splits().size(), 2);
}

}  // namespace
