// Every wrong argument of draft trees: refused before anything is written, by check_tree() with the same words.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "errors/refusal.hpp"
#include "lockstep/lockstep.hpp"

namespace ls = lockstep;
using errors::invalid;
using errors::too_long;
using ls::Index;
using ls::View;

namespace {

using Layer = ls::Attention<float, 4, 2, ls::Rope<ls::HalfSplit>, ls::Specification>;

const std::vector<float> numbers(9000, 0.5F);

template <class L>
L layer_with(const typename L::Position& position) {
  const auto matrix = [](Index out, Index in) { return View<const float, 2>::contiguous(numbers.data(), {out, in}); };
  return L({.hidden = 8, .head_dim = 6, .v_head_dim = 4},
           {.query = matrix(24, 8), .key = matrix(12, 8), .value = matrix(8, 8), .output = matrix(8, 16)}, position);
}
Layer layer_of_positions(Index positions) {
  return layer_with<Layer>(ls::RopeTable<float>({.rotary_dim = 4, .positions = positions}));
}
const Layer& layer() {
  static const Layer made = layer_of_positions(30);
  return made;
}

// A tree of three nodes over a context of five tokens in a cache for ten, and the same for attention alone, where the
// last three of the five are the nodes.
struct Scene {
  Scene() {
    cache.append(View<const float, 3>::contiguous(numbers.data(), {5, 2, 6}),
                 View<const float, 3>::contiguous(numbers.data(), {5, 2, 4}));
    lse(3);
  }
  void lse(Index q_len) {
    const auto view = View<float, 3>::contiguous(memory.data() + 200, {1, 4, q_len});
    options.lse = attend_options.lse = view;
  }
  void forward() {
    const ls::Status status = layer().check_tree(x, parents, cache, y, options);
    const auto raised = errors::outcome_of([&] { layer().forward_tree(x, parents, cache, y, options); });
    EXPECT_EQ(raised.message, status.message());
    ls::raise_unless_ok(status);
  }
  void attend() { ls::attend_tree<ls::Specification>(q, parents, cache, context, attend_options); }
  void over_parents(float*& data) { data = reinterpret_cast<float*>(nodes.data()); }
  // Among places that no token has, which are zeros.
  void parents_in_cache() {
    auto* const inside = const_cast<float*>(cache.block(0, 0).keys) + 512;
    parents = {new (inside) Index[3]{-1, 0, 0}, 3};
    try {
      forward();
    } catch (...) {
      std::fill_n(inside, 6, 0.0F);
      throw;
    }
  }
  std::vector<float> state() const {
    std::vector<float> all(memory);
    all.push_back(static_cast<float>(cache.length()));
    const float* bytes = cache.capacity() > 0 ? cache.block(0, 0).keys : nullptr;
    if (bytes != nullptr) all.insert(all.end(), bytes, bytes + cache.bytes() / static_cast<Index>(sizeof(float)));
    return all;
  }

  std::vector<float> memory = std::vector<float>(400, -1);
  std::array<Index, 20> nodes{-1, 0, 0};
  std::span<const Index> parents{nodes.data(), 3};
  Layer::Cache cache = layer().make_cache(10);
  View<const float, 3> x = View<const float, 3>::contiguous(numbers.data(), {1, 3, 8});
  View<float, 3> y = View<float, 3>::contiguous(memory.data(), {1, 3, 8});
  View<const float, 3> q = View<const float, 3>::contiguous(numbers.data(), {3, 4, 6});
  View<float, 3> context = View<float, 3>::contiguous(memory.data(), {3, 4, 4});
  Layer::Options options;
  ls::AttendOptions<float, ls::Specification> attend_options;
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
    {"FewerParents", {invalid, "parents", "2", "each of 3 rows"}, [](Scene& s) { s.parents = s.parents.first(2); s.forward(); }},
    {"MoreParents", {invalid, "parents", "4", "each of 3 rows"}, [](Scene& s) { s.parents = {s.nodes.data(), 4}; s.forward(); }},
    {"NoParents", {invalid, "parents", "0", "each of 3 rows"}, [](Scene& s) { s.parents = {}; s.forward(); }},
    {"ParentOfItself", {invalid, "parents", "1 for node 1", "-1 to 0"}, [](Scene& s) { s.nodes[1] = 1; s.forward(); }},
    {"ParentThatComesLater", {invalid, "parents", "2 for node 1", "-1 to 0"}, [](Scene& s) { s.nodes[1] = 2; s.forward(); }},
    {"ParentOfTheFirst", {invalid, "parents", "0 for node 0", "-1 to -1"}, [](Scene& s) { s.nodes[0] = 0; s.forward(); }},
    {"ParentBelowMinusOne", {invalid, "parents", "-2 for node 2", "-1 to 1"}, [](Scene& s) { s.nodes[2] = -2; s.forward(); }},
    {"XOfAnotherHidden", {invalid, "x", "[1, 3, 7]", "[1, 3, 8]"}, [](Scene& s) { s.x.extent[2] = 7; s.forward(); }},
    {"XNull", {invalid, "x", "null", "[1, 3, 8]"}, [](Scene& s) { s.x.data = nullptr; s.forward(); }},
    {"YOfFewerNodes", {invalid, "y", "[1, 2, 8]", "[1, 3, 8]"}, [](Scene& s) { s.y.extent[1] = 2; s.forward(); }},
    {"YOverParents", {invalid, "y", "overlaps parents", "its own"}, [](Scene& s) { s.over_parents(s.y.data); s.forward(); }},
    {"ParentsInTheCache", {invalid, "cache", "overlaps parents", "its own"}, [](Scene& s) { s.parents_in_cache(); }},
    {"LseOfAnotherLength", {invalid, "lse", "[1, 4, 2]", "[1, 4, 3]"}, [](Scene& s) { s.lse(2); s.forward(); }},
    {"LseOverParents", {invalid, "lse", "overlaps parents", "its own"}, [](Scene& s) { s.over_parents(s.options.lse.data); s.forward(); }},
    {"CacheWithTooLittleRoom", {too_long, "cache", "3 tokens to append to 5", "7 in all"}, [](Scene& s) { Layer::Cache small = layer().make_cache(7); std::swap(small, s.cache); s.cache.append(View<const float, 3>::contiguous(numbers.data(), {5, 2, 6}), View<const float, 3>::contiguous(numbers.data(), {5, 2, 4})); try { s.forward(); } catch (...) { std::swap(small, s.cache); throw; } }},
    {"CacheMovedFrom", {invalid, "cache", "0 kv heads", "2 of 6 and 4"}, [](Scene& s) { Layer::Cache taken = std::move(s.cache); try { s.forward(); } catch (...) { s.cache = std::move(taken); throw; } }},
    {"NodesBeyondTheTable", {invalid, "positions", "30", "0 to 29"}, [](Scene& s) { s.options.positions = View<const Index, 2>::contiguous(s.nodes.data() + 10, {1, 3}); s.nodes[10] = 30; try { s.forward(); } catch (...) { s.nodes[10] = 0; throw; } }},
    {"WorkspaceTooSmall", {too_long, "workspace", "100 bytes", "from "}, [](Scene& s) { s.options.workspace = &s.workspace; s.forward(); }},
    {"AttendFewerParents", {invalid, "parents", "2", "each of 3 rows"}, [](Scene& s) { s.parents = s.parents.first(2); s.attend(); }},
    {"AttendParentThatComesLater", {invalid, "parents", "2 for node 1", "-1 to 0"}, [](Scene& s) { s.nodes[1] = 2; s.attend(); }},
    {"AttendQueryNull", {invalid, "q", "null", "[1, 3, 4, 6]"}, [](Scene& s) { s.q.data = nullptr; s.attend(); }},
    {"AttendQueryOfAnotherHeadDim", {invalid, "q", "head_dim 4", "6"}, [](Scene& s) { s.q.extent[2] = 4; s.attend(); }},
    {"AttendContextOfTheKeysHeadDim", {invalid, "context", "3, 4, 6]", "3, 4, 4]"}, [](Scene& s) { s.context.extent[2] = 6; s.attend(); }},
    {"AttendContextOverParents", {invalid, "context", "overlaps parents", "its own"}, [](Scene& s) { s.over_parents(s.context.data); s.attend(); }},
    {"AttendMoreNodesThanTokens", {invalid, "caches", "2 tokens for 3 nodes", "hold them"}, [](Scene& s) { Layer::Cache kept = s.cache; s.cache.truncate(2); try { s.attend(); } catch (...) { s.cache = kept; throw; } }},
    {"AttendLseOfAnotherLength", {invalid, "lse", "[1, 4, 2]", "[1, 4, 3]"}, [](Scene& s) { s.lse(2); s.attend(); }},
    {"AttendWorkspaceTooSmall", {too_long, "workspace", "100 bytes", "from "}, [](Scene& s) { s.attend_options.workspace = &s.workspace; s.attend(); }},
};
// clang-format on

class TreeRefuses : public testing::TestWithParam<Row> {};

TEST_P(TreeRefuses, BeforeAnythingIsWritten) { errors::expect_refusal<Scene>(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Errors, TreeRefuses, testing::ValuesIn(rows), errors::RowName());

TEST(TreeTakes, TheSceneThatTheRowsSpoil) {
  Scene scene;
  const auto before = scene.state();
  scene.attend();
  EXPECT_NE(scene.state(), before);
  scene.forward();
  EXPECT_EQ(scene.cache.length(), 8);
}

// How deep a node stands counts, not how many stand before it: three nodes after five tokens, on places 5 and 6.
TEST(TreeTakes, NodesUpToTheEndOfTheTable) {
  Scene scene;
  Layer::Cache cache = scene.cache;
  scene.forward();
  const std::vector<float> expected(scene.memory.begin(), scene.memory.begin() + 24);
  std::vector<float> y(24);
  const auto into = View<float, 3>::contiguous(y.data(), {1, 3, 8});
  layer_of_positions(7).forward_tree(scene.x, scene.parents, cache, into);
  EXPECT_EQ(y, expected);
  cache.truncate(5);
  EXPECT_STREQ(layer_of_positions(6).check_tree(scene.x, scene.parents, cache, into).message(),
               "lockstep: position: given 6, allowed the table's 0 to 5");
  scene.nodes[2] = 1;
  EXPECT_STREQ(layer_of_positions(7).check_tree(scene.x, scene.parents, cache, into).message(),
               "lockstep: position: given 7, allowed the table's 0 to 6");
  EXPECT_TRUE(layer_of_positions(8).check_tree(scene.x, scene.parents, cache, into).ok());
}

TEST(TreeTakes, RowsOfAListUpToItsDepth) {
  using Listed = ls::Attention<float, 4, 2, ls::MultimodalRope<>, ls::Specification>;
  std::array<Index, 24> list{};
  list[7 * 3 + 1] = 30;  // row 7, which the table does not know
  const auto listed =
      layer_with<Listed>(Listed::Position(ls::RopeTable<float>({.rotary_dim = 6, .positions = 30}), {1, 1, 1},
                                          View<const Index, 2>::contiguous(list.data(), {8, 3})));
  Scene scene;
  EXPECT_STREQ(listed.check_tree(scene.x, scene.parents, scene.cache, scene.y).message(), "");
  scene.nodes[2] = 1;
  EXPECT_STREQ(listed.check_tree(scene.x, scene.parents, scene.cache, scene.y).message(),
               "lockstep: positions: given 30 on axis 1 of row 7, allowed 0 to 29");
}

}  // namespace
