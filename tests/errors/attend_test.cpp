// Every wrong argument of attend(), over one cache, a list of caches and plain memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
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

using Cache = ls::ContiguousCache<float>;
using Mask = ls::And<ls::Causal, ls::KeyPadding>;
using Options = ls::AttendOptions<float, Mask, ls::Dropout>;

enum Form : unsigned { one_cache = 1, cache_list = 2, any_form = 3 };

// A call with nothing wrong: two sequences (one, for one cache) of 3 queries over 5 and 2 keys. A row of the table
// changes something in it.
struct Scene {
  explicit Scene(Form form_) : form(form_), batch(form == one_cache ? 1 : 2) {
    flags.fill(true);
    caches.push_back(filled({2, 6, 4}, 5));
    caches.push_back(filled({2, 6, 4}, 2));
    for (Index b = 0; b < batch; ++b) pointers.push_back(&caches[static_cast<std::size_t>(b)]);
    q = View<const float, 4>::contiguous(q_memory.data(), {batch, 3, 4, 6});
    context = View<float, 4>::contiguous(context_memory.data(), {batch, 3, 4, 4});
    options.lse = View<float, 3>::contiguous(lse_memory.data(), {batch, 4, 3});
    options.weights = View<float, 4>::contiguous(weights_memory.data(), {batch, 4, 3, 5});
    options.mask.b = ls::KeyPadding(View<const bool, 2>::contiguous(flags.data(), {2, 5}));
  }
  static Cache filled(ls::CacheShape shape, Index length) {
    Cache cache(shape, length);
    const std::vector<float> numbers(1000, 0.5F);
    cache.append(View<const float, 3>::contiguous(numbers.data(), {length, shape.kv_heads, shape.head_dim}),
                 View<const float, 3>::contiguous(numbers.data(), {length, shape.kv_heads, shape.v_head_dim}));
    return cache;
  }
  void small_workspace() {
    workspace = std::make_unique<ls::Workspace>(workspace_memory.data(), 100);
    options.workspace = workspace.get();
  }
  // The keys of the last sequence, in the middle of a cache's memory.
  float* in_cache() const { return const_cast<float*>(pointers.back()->block(0, 0).keys) + 7; }
  void padding(Index sequences, Index keys) {
    options.mask.b = ls::KeyPadding(View<const bool, 2>::contiguous(flags.data(), {sequences, keys}));
  }

  ls::Status check() const {
    return form == one_cache ? ls::check_attend<Mask, ls::Dropout>(q, *pointers[0], context, options)
                             : ls::check_attend<Mask, ls::Dropout>(q, pointers, context, options);
  }
  void attend() {
    form == one_cache ? ls::attend<Mask, ls::Dropout>(q, *pointers[0], context, options)
                      : ls::attend<Mask, ls::Dropout>(q, pointers, context, options);
  }
  std::vector<float> outputs() const {
    std::vector<float> all(q_memory.begin(), q_memory.end());
    for (const auto* memory : {&context_memory, &lse_memory, &weights_memory})
      all.insert(all.end(), memory->begin(), memory->end());
    return all;
  }

  Form form;
  Index batch;
  View<const float, 4> q;
  View<float, 4> context;
  Options options;
  std::vector<Cache> caches;
  std::vector<Cache*> pointers;

  std::array<float, 400> q_memory{}, context_memory{}, lse_memory{}, weights_memory{};
  std::array<bool, 20> flags{};
  std::array<std::uint32_t, 3> streams{};
  std::array<Index, 1> lengths{3};
  std::array<std::byte, 100> workspace_memory{};
  std::unique_ptr<ls::Workspace> workspace;
};

struct Row {
  const char* name;
  unsigned forms;
  errors::Refusal refusal;
  std::function<void(Scene&)> change;
};

constexpr Index far = Index{1} << 61;

// clang-format off
const Row rows[] = {
    {"QueryNull", any_form, {invalid, "q", "null", "3, 4, 6]"}, [](Scene& s) { s.q.data = nullptr; }},
    {"QueryOfNegativeLength", any_form, {invalid, "q", "-3, 4, 6]", "from 0"}, [](Scene& s) { s.q.extent[1] = -3; }},
    {"QueryOfStridesBeyondMemory", any_form, {invalid, "q", "strides", "2^63"}, [](Scene& s) { s.q.stride[1] = far; }},
    {"QueryOfAnotherHeadDim", any_form, {invalid, "q", "head_dim 8", "6"}, [](Scene& s) { s.q.extent[3] = 8; }},
    {"QueryHeadsNoMultiple", any_form, {invalid, "heads", "3 query heads over 2", "multiples"}, [](Scene& s) { s.q.extent[2] = s.context.extent[2] = 3; }},
    {"QueryHeadsBeyond31Bits", any_form, {invalid, "heads", "2147483648 query heads over 2", "below 2^31"}, [](Scene& s) { s.q.extent[2] = s.context.extent[2] = Index{1} << 31; s.q.stride[2] = 0; }},
    {"FlagsInTheContext", any_form, {invalid, "context", "overlaps mask", "its own"}, [](Scene& s) { s.options.mask.b = ls::KeyPadding(View<const bool, 2>::contiguous(reinterpret_cast<const bool*>(s.context_memory.data()), {2, 5})); }},
    {"FlagsInTheWorkspace", any_form, {invalid, "workspace", "overlaps mask", "its own"}, [](Scene& s) { s.options.mask.b = ls::KeyPadding(View<const bool, 2>::contiguous(reinterpret_cast<const bool*>(s.workspace_memory.data()), {2, 5})); s.small_workspace(); }},
    {"StreamsOverContext", any_form, {invalid, "context", "overlaps dropout_streams", "its own"}, [](Scene& s) { s.options.dropout_streams = {reinterpret_cast<const std::uint32_t*>(s.context_memory.data()), static_cast<std::size_t>(s.batch)}; }},
    {"ContextOverLengths", one_cache, {invalid, "context", "overlaps lengths", "its own"}, [](Scene& s) { s.options.lengths = s.lengths; s.context.data = reinterpret_cast<float*>(s.lengths.data()); }},
    {"LseOverLengths", one_cache, {invalid, "lse", "overlaps lengths", "its own"}, [](Scene& s) { s.options.lengths = s.lengths; s.options.lse.data = reinterpret_cast<float*>(s.lengths.data()); }},
    {"QueryWithoutHeads", any_form, {invalid, "heads", "0 query heads over 2", "multiples"}, [](Scene& s) { s.q.extent[2] = s.context.extent[2] = 0; }},
    {"ContextOfAnotherBatch", any_form, {invalid, "context", "[3, 3, 4, 4]", "3, 4, 4]"}, [](Scene& s) { s.context.extent[0] = 3; }},
    {"ContextOfAnotherLength", any_form, {invalid, "context", "2, 4, 4]", "3, 4, 4]"}, [](Scene& s) { s.context.extent[1] = 2; }},
    {"ContextOfAnotherHeads", any_form, {invalid, "context", "3, 2, 4]", "3, 4, 4]"}, [](Scene& s) { s.context.extent[2] = 2; }},
    {"ContextOfTheKeysHeadDim", any_form, {invalid, "context", "3, 4, 6]", "3, 4, 4]"}, [](Scene& s) { s.context.extent[3] = 6; }},
    {"ContextNull", any_form, {invalid, "context", "null", "3, 4, 4]"}, [](Scene& s) { s.context.data = nullptr; }},
    {"ContextIsQuery", any_form, {invalid, "context", "overlaps q", "its own"}, [](Scene& s) { s.context.data = s.q_memory.data(); }},
    {"LseOfAnotherBatch", any_form, {invalid, "lse", "[3, 4, 3]", "4, 3]"}, [](Scene& s) { s.options.lse.extent[0] = 3; }},
    {"LseOfAnotherHeads", any_form, {invalid, "lse", "2, 3]", "4, 3]"}, [](Scene& s) { s.options.lse.extent[1] = 2; }},
    {"LseOfAnotherLength", any_form, {invalid, "lse", "4, 5]", "4, 3]"}, [](Scene& s) { s.options.lse.extent[2] = 5; }},
    {"LseNull", any_form, {invalid, "lse", "null", "4, 3]"}, [](Scene& s) { s.options.lse.data = nullptr; }},
    {"ContextInACache", any_form, {invalid, "context", "overlaps cache", "its own"}, [](Scene& s) { s.context.data = s.in_cache(); }},
    {"LseInACache", any_form, {invalid, "lse", "overlaps cache", "its own"}, [](Scene& s) { s.options.lse.data = s.in_cache(); }},
    {"WeightsInACache", any_form, {invalid, "weights", "overlaps cache", "its own"}, [](Scene& s) { s.options.weights.data = s.in_cache(); }},
    {"WorkspaceInACache", any_form, {invalid, "workspace", "overlaps cache", "its own"}, [](Scene& s) { s.workspace = std::make_unique<ls::Workspace>(s.in_cache(), 1600); s.options.workspace = s.workspace.get(); }},
    {"LseOverQuery", any_form, {invalid, "lse", "overlaps", "its own"}, [](Scene& s) { s.options.lse.data = s.q_memory.data(); }},
    {"WeightsOfAnotherHeads", any_form, {invalid, "weights", "2, 3, 5]", "4, 3, 5]"}, [](Scene& s) { s.options.weights.extent[1] = 2; }},
    {"WeightsOfAnotherLength", any_form, {invalid, "weights", "4, 2, 5]", "4, 3, 5]"}, [](Scene& s) { s.options.weights.extent[2] = 2; }},
    {"WeightsOfFewerKeys", any_form, {invalid, "weights", "4, 3, 4]", "4, 3, 5]"}, [](Scene& s) { s.options.weights.extent[3] = 4; }},
    {"WeightsNull", any_form, {invalid, "weights", "null", "4, 3, 5]"}, [](Scene& s) { s.options.weights.data = nullptr; }},
    {"WeightsOverContext", any_form, {invalid, "weights", "overlaps", "its own"}, [](Scene& s) { s.options.weights.data = s.context_memory.data(); }},
    {"ContextOfOneRowForAllHeads", any_form, {invalid, "context", "strides", "part all numbers"}, [](Scene& s) { s.context.stride[2] = 0; }},
    {"LseOfNumbersThatMeet", any_form, {invalid, "lse", "strides", "part all numbers"}, [](Scene& s) { s.options.lse.stride[1] = 2; }},
    {"LseOverWeights", any_form, {invalid, "weights", "overlaps lse", "its own"}, [](Scene& s) { s.options.lse.data = s.weights_memory.data() + 3; }},
    {"LogitsOverLse", any_form, {invalid, "raw_logits", "overlaps lse", "its own"}, [](Scene& s) { s.options.raw_logits = s.options.weights; s.options.raw_logits.data = s.lse_memory.data(); }},
    {"WorkspaceOverContext", any_form, {invalid, "workspace", "overlaps context", "its own"}, [](Scene& s) { s.workspace = std::make_unique<ls::Workspace>(s.context_memory.data(), 1600); s.options.workspace = s.workspace.get(); }},
    {"OffsetFarAhead", any_form, {invalid, "offset", "9223372036854775807", "2^62"}, [](Scene& s) { s.options.offset = std::numeric_limits<Index>::max(); }},
    {"OffsetFarBehind", any_form, {invalid, "offset", "-9223372036854775808", "-2^62"}, [](Scene& s) { s.options.offset = std::numeric_limits<Index>::min(); }},
    {"ScaleNan", any_form, {invalid, "scale", "nan", "numbers from"}, [](Scene& s) { s.options.logits.given = std::numeric_limits<double>::quiet_NaN(); }},
    {"ScaleInfinite", any_form, {invalid, "scale", "-inf", "numbers from"}, [](Scene& s) { s.options.logits.given = -std::numeric_limits<double>::infinity(); }},
    {"ScaleBeyondFloat", any_form, {invalid, "scale", "1e+39", "numbers from"}, [](Scene& s) { s.options.logits.given = 1e39; }},
    {"ScaleThatFloatHasNot", any_form, {invalid, "scale", "1e-46", "numbers from"}, [](Scene& s) { s.options.logits.given = 1e-46; }},
    {"FewerCachesThanSequences", cache_list, {invalid, "caches", "1", "2 sequences"}, [](Scene& s) { s.pointers.pop_back(); }},
    {"OneCacheForABatch", one_cache, {invalid, "caches", "1", "2 sequences"}, [](Scene& s) { s.q.extent[0] = s.context.extent[0] = 2; }},
    {"CacheNull", cache_list, {invalid, "caches", "null pointer for sequence 0", "one cache for each"}, [](Scene& s) { s.pointers[0] = nullptr; }},
    {"CachesOfDifferentShapes", cache_list, {invalid, "caches", "different shapes", "one shape"}, [](Scene& s) { s.caches[1] = Scene::filled({4, 6, 4}, 2); }},
    {"CacheMovedFrom", any_form, {invalid, "q", "head_dim 6", "0"}, [](Scene& s) { const Cache taken = std::move(s.caches[0]); }},
    {"DropoutOfOne", any_form, {invalid, "dropout probability", "1", "p < 1"}, [](Scene& s) { s.options.dropout.probability = 1; }},
    {"TooManyStreams", any_form, {invalid, "dropout_streams", "3", "one for each of"}, [](Scene& s) { s.options.dropout_streams = s.streams; }},
    {"FlagsForFewerSequences", cache_list, {invalid, "mask", "[1, 5]", "[2, 5]"}, [](Scene& s) { s.padding(1, 5); }},
    {"FlagsForFewerKeys", any_form, {invalid, "mask", "[2, 4]", ", 5]"}, [](Scene& s) { s.padding(2, 4); }},
    {"FlagsAbsent", any_form, {invalid, "mask", "[0, 0]", ", 5]"}, [](Scene& s) { s.options.mask = {}; }},
    {"WorkspaceTooSmall", any_form, {too_long, "workspace", "100 bytes", "from "}, [](Scene& s) { s.small_workspace(); }},
};
// clang-format on

class AttendRefuses : public testing::TestWithParam<Row> {};

TEST_P(AttendRefuses, BeforeAnythingIsWritten) {
  for (const Form form : {one_cache, cache_list}) {
    if ((GetParam().forms & form) == 0) continue;
    SCOPED_TRACE(form == one_cache ? "one cache" : "a list of caches");
    Scene scene(form);
    GetParam().change(scene);
    const auto before = scene.outputs();
    const ls::Status status = scene.check();
    EXPECT_TRUE(errors::is_refusal({status.code(), status.message()}, GetParam().refusal));
    const auto raised = errors::outcome_of([&] { scene.attend(); });
    EXPECT_EQ(raised.code, status.code());
    EXPECT_EQ(raised.message, status.message());
    EXPECT_EQ(scene.outputs(), before);
  }
}

INSTANTIATE_TEST_SUITE_P(Errors, AttendRefuses, testing::ValuesIn(rows), errors::RowName());

TEST(AttendRefuses, PlainKeysAndValuesInTheContextsMemory) {
  std::vector<float> memory(1000, 0.5F);
  const auto q = View<const float, 3>::contiguous(memory.data() + 500, {3, 4, 6});
  const ls::PlainKeyValues<float> plain{View<const float, 3>::contiguous(memory.data(), {5, 2, 6}),
                                        View<const float, 3>::contiguous(memory.data() + 60, {5, 2, 6})};
  for (const auto& [name, at] : {std::pair{"keys", 59}, {"values", 119}}) {
    const auto context = View<float, 3>::contiguous(memory.data() + at, {3, 4, 6});
    const auto before = memory;
    EXPECT_TRUE(errors::is_refusal(errors::outcome_of([&, &view = context] { ls::attend(q, plain, view); }),
                                   {invalid, "context", "overlaps " + std::string(name), "its own"}));
    EXPECT_EQ(memory, before);
  }
  ls::attend(q, plain, View<float, 3>::contiguous(memory.data() + 120, {3, 4, 6}));
}

// Pages that nobody holds yet are memory of the pool, too.
TEST(AttendRefuses, ResultsInAPool) {
  const ls::PagePool<float> pool({1, 4, 4}, 3);
  ls::PagedCache<float> cache(pool), other(pool);
  const std::vector<float> numbers(24, 0.5F);
  const auto row = View<const float, 3>::contiguous(numbers.data(), {1, 1, 4});
  cache.append(row, row);
  other.append(row, row);
  const auto inside = View<float, 3>::contiguous(const_cast<float*>(other.block(0, 0).values), {1, 1, 4});
  EXPECT_TRUE(errors::is_refusal(errors::outcome_of([&] { ls::attend(row, cache, inside); }),
                                 {invalid, "context", "overlaps cache", "its own"}));
  const auto in_a_free_page =
      View<float, 3>::contiguous(const_cast<float*>(other.block(0, 0).values) + 1024, {1, 1, 4});
  EXPECT_FALSE(ls::check_attend(row, cache, in_a_free_page).ok());
}

TEST(AttendWorkspaceBytes, AreANumberForArgumentsThatAreRefused) {
  Scene scene(cache_list);
  constexpr Index most = std::numeric_limits<Index>::max();
  const auto bytes = [&] {
    return std::min(ls::attend_workspace_bytes<Mask, ls::Dropout>(scene.q, scene.pointers, scene.options),
                    ls::attend_tree_workspace_bytes<Mask, ls::Dropout>(scene.q, scene.pointers, scene.options));
  };
  const Index right = bytes();
  EXPECT_GT(right, 0);
  scene.pointers.pop_back();
  EXPECT_GT(bytes(), 0);
  scene.pointers[0] = nullptr;
  EXPECT_GT(bytes(), 0);
  for (const std::size_t axis : {0U, 1U, 2U, 3U}) {
    Scene wide(one_cache);
    wide.q.extent[axis] = most;
    EXPECT_GT((ls::attend_workspace_bytes<Mask, ls::Dropout>(wide.q, wide.caches[0], wide.options)), right) << axis;
  }
}

TEST(AttendTakes, TheSceneThatTheRowsSpoil) {
  for (const Form form : {one_cache, cache_list}) {
    Scene scene(form);
    const auto before = scene.outputs();
    EXPECT_STREQ(scene.check().message(), "");
    EXPECT_EQ(scene.outputs(), before);
    scene.attend();
    EXPECT_NE(scene.outputs(), before);
  }
}

TEST(AttendTakes, TrainingOnlyWithDropout) {
  Scene scene(one_cache);
  const ls::AttendOptions<float> options{.mode = ls::Mode::training};
  const ls::Status status = ls::check_attend(scene.q, *scene.pointers[0], scene.context, options);
  EXPECT_TRUE(errors::is_refusal({status.code(), status.message()}, {invalid, "mode", "training", "inference"}));
  scene.options.mode = ls::Mode::training;
  EXPECT_TRUE(scene.check().ok());
}

// Plain memory: keys [5, 2, 6] and values [5, 2, 4].
struct PlainScene {
  View<const float, 4> q = View<const float, 4>::contiguous(q_memory.data(), {1, 3, 4, 6});
  View<float, 4> context = View<float, 4>::contiguous(context_memory.data(), {1, 3, 4, 4});
  ls::PlainKeyValues<float> plain{View<const float, 3>::contiguous(k_memory.data(), {5, 2, 6}),
                                  View<const float, 3>::contiguous(v_memory.data(), {5, 2, 4})};
  ls::AttendOptions<float> options;
  std::array<std::byte, 100> workspace_memory{};
  ls::Workspace workspace{workspace_memory.data(), 100};
  ls::Workspace over_values{v_memory.data() + 39, 100};
  static inline std::array<float, 140> q_memory{}, context_memory{}, k_memory{}, v_memory{};
  ls::Status check() const { return ls::check_attend(q, plain, context, options); }
  void attend() { ls::attend(q, plain, context, options); }
};

struct PlainRow {
  const char* name;
  errors::Refusal refusal;
  std::function<void(PlainScene&)> change;
};

// clang-format off
const PlainRow plain_rows[] = {
    {"KeysNull", {invalid, "keys", "null", ""}, [](PlainScene& s) { s.plain.keys.data = nullptr; }},
    {"KeysOfNegativeLength", {invalid, "keys", "-5", "from 0"}, [](PlainScene& s) { s.plain.keys.extent[0] = -5; }},
    {"ValuesNull", {invalid, "values", "null", ""}, [](PlainScene& s) { s.plain.values.data = nullptr; }},
    {"ValuesOfAnotherLength", {invalid, "values", "4", "5"}, [](PlainScene& s) { s.plain.values.extent[0] = 4; }},
    {"ValuesOfAnotherKvHeads", {invalid, "values", "1", "2"}, [](PlainScene& s) { s.plain.values.extent[1] = 1; }},
    {"KeysOfTheOtherOrder", {invalid, "heads", "4 query heads over 5", "multiples"}, [](PlainScene& s) { s.plain.order = ls::Order::head_token_dim; }},
    {"KeysOfAnotherHeadDim", {invalid, "q", "head_dim 6", "8"}, [](PlainScene& s) { s.plain.keys.extent[2] = 8; }},
    {"KeysWithoutHeads", {invalid, "shape", "kv_heads 0", "at least 1"}, [](PlainScene& s) { s.plain.keys.extent[1] = s.plain.values.extent[1] = 0; }},
    {"TooManyKeys", {too_long, "keys", "5 tokens of 2199023255552", "63 bits"}, [](PlainScene& s) { for (auto* v : {&s.plain.keys, &s.plain.values}) { v->extent[1] = Index{1} << 41; v->stride = {0, 0, 1}; } }},
    {"QueryNull", {invalid, "q", "null", "3, 4, 6]"}, [](PlainScene& s) { s.q.data = nullptr; }},
    {"QueryOfABatch", {invalid, "caches", "1", "2 sequences"}, [](PlainScene& s) { s.q.extent[0] = s.context.extent[0] = 2; }},
    {"ContextOfAnotherDim", {invalid, "context", "3, 4, 6]", "3, 4, 4]"}, [](PlainScene& s) { s.context.extent[3] = 6; }},
    {"LseOfAnotherShape", {invalid, "lse", "[1, 4, 2]", "[1, 4, 3]"}, [](PlainScene& s) { s.options.lse = View<float, 3>::contiguous(PlainScene::context_memory.data() + 60, {1, 4, 2}); }},
    {"ContextOverKeys", {invalid, "context", "overlaps keys", "its own"}, [](PlainScene& s) { s.context.data = PlainScene::k_memory.data() + 59; }},
    {"LseOverKeys", {invalid, "lse", "overlaps keys", "its own"}, [](PlainScene& s) { s.options.lse = View<float, 3>::contiguous(PlainScene::k_memory.data() + 59, {1, 4, 3}); }},
    {"WeightsOverValues", {invalid, "weights", "overlaps values", "its own"}, [](PlainScene& s) { s.options.weights = View<float, 4>::contiguous(PlainScene::v_memory.data() + 39, {1, 4, 3, 5}); }},
    {"LogitsOverKeys", {invalid, "raw_logits", "overlaps keys", "its own"}, [](PlainScene& s) { s.options.raw_logits = View<float, 4>::contiguous(PlainScene::k_memory.data() + 30, {1, 4, 3, 5}); }},
    {"WorkspaceOverValues", {invalid, "workspace", "overlaps values", "its own"}, [](PlainScene& s) { s.options.workspace = &s.over_values; }},
    {"WorkspaceTooSmall", {too_long, "workspace", "100 bytes", "from "}, [](PlainScene& s) { s.options.workspace = &s.workspace; }},
};
// clang-format on

class AttendOnPlainMemoryRefuses : public testing::TestWithParam<PlainRow> {};

TEST_P(AttendOnPlainMemoryRefuses, BeforeAnythingIsWritten) {
  PlainScene scene;
  PlainScene::context_memory.fill(7);
  GetParam().change(scene);
  const ls::Status status = scene.check();
  EXPECT_TRUE(errors::is_refusal({status.code(), status.message()}, GetParam().refusal));
  const auto raised = errors::outcome_of([&] { scene.attend(); });
  EXPECT_EQ(raised.code, status.code());
  EXPECT_EQ(raised.message, status.message());
  for (const float number : PlainScene::context_memory) EXPECT_EQ(number, 7);
}

INSTANTIATE_TEST_SUITE_P(Errors, AttendOnPlainMemoryRefuses, testing::ValuesIn(plain_rows), errors::RowName());

TEST(AttendTakes, PlainMemory) {
  PlainScene scene;
  PlainScene::context_memory.fill(7);
  EXPECT_STREQ(scene.check().message(), "");
  for (const float number : PlainScene::context_memory) EXPECT_EQ(number, 7);
  EXPECT_EQ(errors::outcome_of([&] { scene.attend(); }).message, "");
  EXPECT_NE(PlainScene::context_memory[0], 7);
}

}  // namespace
