// Every wrong argument of a forward, in each of its forms: refused before anything is written.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "errors/refusal.hpp"
#include "lockstep/lockstep.hpp"

namespace ls = lockstep;
using errors::invalid;
using errors::Outcome;
using errors::too_long;
using ls::Index;
using ls::Status;
using ls::View;

namespace {

using Layer = ls::Attention<float, 4, 2, ls::Rope<ls::HalfSplit>>;
using Cache = Layer::Cache;

const Layer& layer() {
  static const Layer made = [] {
    std::vector<float> numbers(24 * 16);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = 0.03F * static_cast<float>(i % 13) - 0.2F;
    const auto matrix = [&](Index out, Index in) {
      return View<const float, 2>::contiguous(numbers.data(), {out, in});
    };
    return Layer({.hidden = 8, .head_dim = 6, .v_head_dim = 4},
                 {.query = matrix(24, 8), .key = matrix(12, 8), .value = matrix(8, 8), .output = matrix(8, 16)},
                 ls::RopeTable<float>({.rotary_dim = 4, .positions = 12}));
  }();
  return made;
}

enum Form : unsigned {
  one_cache = 1,
  cache_list = 2,
  no_cache = 4,
  cached = one_cache | cache_list,
  any_form = cached | no_cache
};

// A call with nothing wrong: two sequences (one, for one cache) of 3 queries, whose caches hold 5 and 2 keys and have
// room for 10, and all results asked for. A row of the table changes something in it.
struct Scene {
  explicit Scene(Form form_) : form(form_), batch(form == one_cache ? 1 : 2), kv_len(form == no_cache ? 3 : 8) {
    for (std::size_t i = 0; i < x_memory.size(); ++i) x_memory[i] = static_cast<float>(i);
    caches.push_back(filled(5, 10));
    caches.push_back(filled(2, 10));
    for (Index b = 0; b < batch; ++b) pointers.push_back(&caches[static_cast<std::size_t>(b)]);
    x = View<const float, 3>::contiguous(x_memory.data(), {batch, 3, 8});
    y = View<float, 3>::contiguous(y_memory.data(), {batch, 3, 8});
    options.lse = View<float, 3>::contiguous(lse_memory.data(), {batch, 4, 3});
    options.weights = View<float, 4>::contiguous(weights_memory.data(), {batch, 4, 3, kv_len});
    options.context = View<float, 3>::contiguous(context_memory.data(), {batch, 3, 16});
  }
  static Cache filled(Index length, Index capacity) { return filled(layer().cache_shape(), length, capacity); }
  static Cache filled(ls::CacheShape shape, Index length, Index capacity) {
    Cache cache(shape, capacity);
    const std::vector<float> numbers(1000, 0.5F);
    cache.append(View<const float, 3>::contiguous(numbers.data(), {length, shape.kv_heads, shape.head_dim}),
                 View<const float, 3>::contiguous(numbers.data(), {length, shape.kv_heads, shape.v_head_dim}));
    return cache;
  }
  // Explicit positions for all rows, all 1 but the last.
  void positions(Index last) {
    position_memory.fill(1);
    position_memory[static_cast<std::size_t>(batch * 3 - 1)] = last;
    options.positions = View<const Index, 2>::contiguous(position_memory.data(), {batch, 3});
  }
  void small_workspace() {
    workspace = std::make_unique<ls::Workspace>(workspace_memory.data(), static_cast<Index>(workspace_memory.size()));
    options.workspace = workspace.get();
  }
  void workspace_over(float* memory) {
    workspace = std::make_unique<ls::Workspace>(memory, 1600);
    options.workspace = workspace.get();
  }
  // The keys of the last sequence, in the middle of a cache's memory.
  float* in_cache() const { return const_cast<float*>(pointers.back()->block(0, 0).keys) + 7; }
  // The length of one sequence, for results to lie over.
  float* over_lengths() {
    lengths[0] = 3;
    options.lengths = std::span(lengths).first(1);
    return reinterpret_cast<float*>(lengths.data());
  }
  // One sequence of so many tokens, which are one in memory.
  void whole(Index tokens) {
    options = {};
    x = View<const float, 3>(x_memory.data(), {1, tokens, 8}, {0, 0, 1});
    y = View<float, 3>::contiguous(y_memory.data(), {1, tokens, 8});
  }
  void moved_from() { const Cache taken = std::move(*pointers[0]); }
  void replace(Cache cache) { *pointers[0] = std::move(cache); }

  ls::Status check() const {
    switch (form) {
      case one_cache:
        return layer().check(x, *pointers[0], y, options);
      case no_cache:
        return layer().check(x, y, options);
      default:
        return layer().check(x, pointers, y, options);
    }
  }
  void forward() {
    switch (form) {
      case one_cache:
        return layer().forward(x, *pointers[0], y, options);
      case no_cache:
        return layer().forward(x, y, options);
      default:
        return layer().forward(x, pointers, y, options);
    }
  }
  // All that a forward may write.
  std::vector<std::byte> bytes() const {
    std::vector<std::byte> all;
    const auto add = [&all](const void* data, std::size_t n) {
      const auto* first = static_cast<const std::byte*>(data);
      all.insert(all.end(), first, first + n);
    };
    for (const auto* memory : {&x_memory, &y_memory, &lse_memory, &weights_memory, &context_memory})
      add(memory->data(), sizeof *memory);
    for (const Cache& cache : caches) {
      const Index length = cache.length();
      add(&length, sizeof length);
      if (cache.capacity() > 0) add(cache.block(0, 0).keys, static_cast<std::size_t>(cache.bytes()));
    }
    return all;
  }

  Form form;
  Index batch, kv_len;
  View<const float, 3> x;
  View<float, 3> y;
  Layer::Options options;
  std::vector<Cache> caches;
  std::vector<Cache*> pointers;

  std::vector<float> numbers = std::vector<float>(24 * 16, 0.1F);
  std::array<float, 400> x_memory{}, y_memory{}, lse_memory{}, weights_memory{}, context_memory{};
  std::array<Index, 6> position_memory{};
  std::array<Index, 2> lengths{2, 1};
  std::array<std::uint32_t, 3> streams{1, 2, 3};
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
    {"StreamsOverY", any_form, {invalid, "y", "overlaps dropout_streams", "its own"}, [](Scene& s) { s.options.dropout_streams = {reinterpret_cast<const std::uint32_t*>(s.y_memory.data()), static_cast<std::size_t>(s.batch)}; }},
    {"XOfAnotherHidden", any_form, {invalid, "x", "3, 7]", "3, 8]"}, [](Scene& s) { s.x.extent[2] = 7; }},
    {"XNull", any_form, {invalid, "x", "null", "3, 8]"}, [](Scene& s) { s.x.data = nullptr; }},
    {"XOfNegativeBatch", any_form, {invalid, "x", "[-1, 3, 8]", "from 0"}, [](Scene& s) { s.x.extent[0] = s.y.extent[0] = -1; }},
    {"XOfNegativeLength", any_form, {invalid, "x", "-3, 8]", "from 0"}, [](Scene& s) { s.x.extent[1] = s.y.extent[1] = -3; }},
    {"XOfStridesBeyondMemory", any_form, {invalid, "x", "strides", "2^63"}, [](Scene& s) { s.x.stride[1] = far; }},
    {"YOfAnotherBatch", any_form, {invalid, "y", "[5, 3, 8]", "3, 8]"}, [](Scene& s) { s.y.extent[0] = 5; }},
    {"YOfAnotherLength", any_form, {invalid, "y", "2, 8]", "3, 8]"}, [](Scene& s) { s.y.extent[1] = 2; }},
    {"YOfAnotherHidden", any_form, {invalid, "y", "3, 9]", "3, 8]"}, [](Scene& s) { s.y.extent[2] = 9; }},
    {"YNull", any_form, {invalid, "y", "null", "3, 8]"}, [](Scene& s) { s.y.data = nullptr; }},
    {"YOfStridesBeyondMemory", any_form, {invalid, "y", "strides", "2^63"}, [](Scene& s) { s.y.stride[1] = -far; }},
    {"YIsX", any_form, {invalid, "y", "overlaps x", "its own"}, [](Scene& s) { s.y.data = s.x_memory.data(); }},
    {"YTouchesXInOneNumber", any_form, {invalid, "y", "overlaps x", "its own"}, [](Scene& s) { s.y.data = s.x_memory.data() + s.batch * 24 - 1; }},
    {"YOfOneRowForAll", any_form, {invalid, "y", "strides", "part all numbers"}, [](Scene& s) { s.y.stride[1] = 0; }},
    {"YOfRowsThatMeet", any_form, {invalid, "y", "7, 1]", "part all numbers"}, [](Scene& s) { s.y.stride[1] = 7; }},
    {"YOfRowsThatMeetBackwards", any_form, {invalid, "y", "-7, 1]", "part all numbers"}, [](Scene& s) { s.y.data += 100; s.y.stride[1] = -7; }},
    {"LseOfOneNumberForAll", any_form, {invalid, "lse", "strides", "part all numbers"}, [](Scene& s) { s.options.lse.stride = {0, 0, 0}; }},
    {"WeightsOfOneRowForAllHeads", any_form, {invalid, "weights", "strides", "part all numbers"}, [](Scene& s) { s.options.weights.stride[1] = 0; }},
    {"ContextOfRowsThatMeet", any_form, {invalid, "context", "strides", "part all numbers"}, [](Scene& s) { s.options.context.stride[1] = 15; }},
    {"LogitsAreWeights", any_form, {invalid, "raw_logits", "overlaps weights", "its own"}, [](Scene& s) { s.options.raw_logits = s.options.weights; }},
    {"ContextOverLse", any_form, {invalid, "context", "overlaps lse", "its own"}, [](Scene& s) { s.options.context.data = s.lse_memory.data() + 5; }},
    {"YOverPositions", any_form, {invalid, "y", "overlaps positions", "its own"}, [](Scene& s) { s.positions(1); s.options.positions.data = reinterpret_cast<const Index*>(s.y_memory.data()); }},
    {"WorkspaceOverX", any_form, {invalid, "workspace", "overlaps x", "its own"}, [](Scene& s) { s.workspace_over(s.x_memory.data()); }},
    {"WorkspaceOverY", any_form, {invalid, "workspace", "overlaps y", "its own"}, [](Scene& s) { s.workspace_over(s.y_memory.data()); }},
    {"XInACache", cached, {invalid, "cache", "overlaps x", "its own"}, [](Scene& s) { s.x.data = s.in_cache(); }},
    {"YInACache", cached, {invalid, "cache", "overlaps y", "its own"}, [](Scene& s) { s.y.data = s.in_cache(); }},
    {"LseInACache", cached, {invalid, "cache", "overlaps lse", "its own"}, [](Scene& s) { s.options.lse.data = s.in_cache(); }},
    {"WeightsInACache", cached, {invalid, "cache", "overlaps weights", "its own"}, [](Scene& s) { s.options.weights.data = s.in_cache(); }},
    {"LogitsInACache", cached, {invalid, "cache", "overlaps raw_logits", "its own"}, [](Scene& s) { s.options.raw_logits = s.options.weights; s.options.raw_logits.data = s.in_cache(); }},
    {"ContextInACache", cached, {invalid, "cache", "overlaps context", "its own"}, [](Scene& s) { s.options.context.data = s.in_cache(); }},
    {"PositionsInACache", cached, {invalid, "cache", "overlaps positions", "its own"}, [](Scene& s) { s.positions(1); s.options.positions.data = reinterpret_cast<const Index*>(s.in_cache() + 1); }},
    {"LengthsInACache", one_cache, {invalid, "cache", "overlaps lengths", "its own"}, [](Scene& s) { s.options.lengths = {new (s.in_cache() + 1) Index(3), 1}; }},
    {"StreamsInACache", cached, {invalid, "cache", "overlaps dropout_streams", "its own"}, [](Scene& s) { s.options.dropout_streams = {reinterpret_cast<const std::uint32_t*>(s.in_cache()), static_cast<std::size_t>(s.batch)}; }},
    {"YOverLengths", one_cache, {invalid, "y", "overlaps lengths", "its own"}, [](Scene& s) { s.y.data = s.over_lengths(); }},
    {"LseOverLengths", one_cache, {invalid, "lse", "overlaps lengths", "its own"}, [](Scene& s) { s.options.lse.data = s.over_lengths(); }},
    {"WorkspaceOverLengths", one_cache, {invalid, "workspace", "overlaps lengths", "its own"}, [](Scene& s) { s.workspace_over(s.over_lengths()); }},
    {"WorkspaceInACache", cached, {invalid, "cache", "overlaps workspace", "its own"}, [](Scene& s) { s.workspace_over(s.in_cache()); }},
    {"LseOfExtentsBeyond64Bits", any_form, {invalid, "lse", "[4294967296, 4294967296, 3]", "4, 3]"}, [](Scene& s) { s.options.lse = View<float, 3>::contiguous(nullptr, {Index{1} << 32, Index{1} << 32, 3}); }},
    {"LseOfAnotherBatch", any_form, {invalid, "lse", "[3, 4, 3]", "4, 3]"}, [](Scene& s) { s.options.lse.extent[0] = 3; }},
    {"LseOfAnotherHeads", any_form, {invalid, "lse", "2, 3]", "4, 3]"}, [](Scene& s) { s.options.lse.extent[1] = 2; }},
    {"LseOfAnotherLength", any_form, {invalid, "lse", "4, 4]", "4, 3]"}, [](Scene& s) { s.options.lse.extent[2] = 4; }},
    {"LseNull", any_form, {invalid, "lse", "null", "4, 3]"}, [](Scene& s) { s.options.lse.data = nullptr; }},
    {"LseOverX", any_form, {invalid, "lse", "overlaps", "its own"}, [](Scene& s) { s.options.lse.data = s.x_memory.data(); }},
    {"LseOverY", any_form, {invalid, "lse", "overlaps", "its own"}, [](Scene& s) { s.options.lse.data = s.y_memory.data(); }},
    {"WeightsOfAnotherBatch", any_form, {invalid, "weights", "[3, 4, 3, ", "4, 3, "}, [](Scene& s) { s.options.weights.extent[0] = 3; }},
    {"WeightsOfAnotherHeads", any_form, {invalid, "weights", "2, 3, ", "4, 3, "}, [](Scene& s) { s.options.weights.extent[1] = 2; }},
    {"WeightsOfAnotherLength", any_form, {invalid, "weights", "4, 1, ", "4, 3, "}, [](Scene& s) { s.options.weights.extent[2] = 1; }},
    {"WeightsOfFewerKeys", cached, {invalid, "weights", "7]", "8]"}, [](Scene& s) { s.options.weights.extent[3] = 7; }},
    {"WeightsOfMoreKeys", no_cache, {invalid, "weights", "4]", "3]"}, [](Scene& s) { s.options.weights.extent[3] = 4; }},
    {"WeightsNull", any_form, {invalid, "weights", "null", "4, 3, "}, [](Scene& s) { s.options.weights.data = nullptr; }},
    {"WeightsOverX", any_form, {invalid, "weights", "overlaps", "its own"}, [](Scene& s) { s.options.weights.data = s.x_memory.data(); }},
    {"ContextOfAnotherBatch", any_form, {invalid, "context", "[3, 3, 16]", "3, 16]"}, [](Scene& s) { s.options.context.extent[0] = 3; }},
    {"ContextOfAnotherLength", any_form, {invalid, "context", "4, 16]", "3, 16]"}, [](Scene& s) { s.options.context.extent[1] = 4; }},
    {"ContextOfAnotherWidth", any_form, {invalid, "context", "3, 24]", "3, 16]"}, [](Scene& s) { s.options.context.extent[2] = 24; }},
    {"ContextNull", any_form, {invalid, "context", "null", "3, 16]"}, [](Scene& s) { s.options.context.data = nullptr; }},
    {"ContextOverX", any_form, {invalid, "context", "overlaps", "its own"}, [](Scene& s) { s.options.context.data = s.x_memory.data(); }},
    {"FewerCachesThanSequences", cache_list, {invalid, "caches", "1", "2 sequences"}, [](Scene& s) { s.pointers.pop_back(); }},
    {"MoreCachesThanSequences", cache_list, {invalid, "caches", "3", "2 sequences"}, [](Scene& s) { s.pointers.push_back(s.pointers[0]); }},
    {"NoCaches", cache_list, {invalid, "caches", "0", "2 sequences"}, [](Scene& s) { s.pointers.clear(); }},
    {"OneCacheForABatch", one_cache, {invalid, "caches", "1", "2 sequences"}, [](Scene& s) { s.x.extent[0] = s.y.extent[0] = 2; }},
    {"CacheNull", cache_list, {invalid, "caches", "null pointer for sequence 1", "one cache for each"}, [](Scene& s) { s.pointers[1] = nullptr; }},
    {"CacheTwice", cache_list, {invalid, "caches", "one cache for sequences 0 and 1", "one for each"}, [](Scene& s) { s.pointers[1] = s.pointers[0]; }},
    {"CacheOfAnotherKvHeads", cached, {invalid, "cache", "4 kv heads", "2 of 6 and 4"}, [](Scene& s) { s.replace(Scene::filled({4, 6, 4}, 5, 10)); }},
    {"CacheOfAnotherHeadDim", cached, {invalid, "cache", "of 8 and 4", "2 of 6 and 4"}, [](Scene& s) { s.replace(Scene::filled({2, 8, 4}, 5, 10)); }},
    {"CacheOfAnotherValueDim", cached, {invalid, "cache", "of 6 and 6", "2 of 6 and 4"}, [](Scene& s) { s.replace(Scene::filled({2, 6, 6}, 5, 10)); }},
    {"CacheMovedFrom", cached, {invalid, "cache", "0 kv heads", "2 of 6 and 4"}, [](Scene& s) { s.moved_from(); }},
    {"CacheFull", cached, {too_long, "cache", "3 tokens to append to 10", "10 in all"}, [](Scene& s) { s.replace(Scene::filled(10, 10)); }},
    {"CacheWithRoomForFewer", cached, {too_long, "cache", "3 tokens to append to 8", "10 in all"}, [](Scene& s) { s.replace(Scene::filled(8, 10)); }},
    {"CacheWithoutCapacity", cached, {too_long, "cache", "3 tokens to append to 0", "0 in all"}, [](Scene& s) { s.replace(Scene::filled(0, 0)); }},
    {"OffsetStale", cached, {invalid, "offset", "4", "5"}, [](Scene& s) { s.options.offset = 4; }},
    {"OffsetOfTheFirstOfTwo", cache_list, {invalid, "offset", "5", "2"}, [](Scene& s) { s.options.offset = 5; }},
    {"OffsetWithoutACache", no_cache, {invalid, "offset", "5", "0 without"}, [](Scene& s) { s.options.offset = 5; }},
    {"OffsetNegative", cached, {invalid, "offset", "-1", "5"}, [](Scene& s) { s.options.offset = -1; }},
    {"PositionPastTheTable", cached, {invalid, "position", "12", "0 to 11"}, [](Scene& s) { s.replace(Scene::filled(10, 20)); s.options.weights = {}; }},
    {"LengthPastTheTable", no_cache, {invalid, "position", "12", "0 to 11"}, [](Scene& s) { s.x.extent[1] = s.y.extent[1] = 13; s.y.stride[0] = 13 * 8; s.options = {}; }},
    {"PositionsPastTheTable", any_form, {invalid, "positions", "12", "0 to 11"}, [](Scene& s) { s.positions(12); }},
    {"PositionsNegative", any_form, {invalid, "positions", "-1", "0 to 11"}, [](Scene& s) { s.positions(-1); }},
    {"PositionsFarAway", any_form, {invalid, "positions", "9223372036854775807", "0 to 11"}, [](Scene& s) { s.positions(std::numeric_limits<Index>::max()); }},
    {"PositionsOfAnotherBatch", any_form, {invalid, "positions", "[3, 3]", ", 3]"}, [](Scene& s) { s.positions(1); s.options.positions.extent[0] = 3; }},
    {"PositionsOfAnotherLength", any_form, {invalid, "positions", ", 2]", ", 3]"}, [](Scene& s) { s.positions(1); s.options.positions.extent[1] = 2; }},
    {"PositionsNull", any_form, {invalid, "positions", "null", ", 3]"}, [](Scene& s) { s.positions(1); s.options.positions.data = nullptr; }},
    {"TrainingWithoutDropout", any_form, {invalid, "mode", "training", "inference"}, [](Scene& s) { s.options.mode = ls::Mode::training; }},
    {"TooManyStreams", any_form, {invalid, "dropout_streams", "3", "one for each of"}, [](Scene& s) { s.options.dropout_streams = s.streams; }},
    {"LengthsOfABatch", cache_list | no_cache, {invalid, "lengths", "batch of 2", "one matrix"}, [](Scene& s) { s.options.lengths = s.lengths; }},
    {"LengthsOfTooManyTokens", one_cache, {invalid, "lengths", "2", "3 tokens"}, [](Scene& s) { s.lengths = {2, 2}; s.options.lengths = s.lengths; }},
    {"LengthsOfTooFewTokens", one_cache, {invalid, "lengths", "2 tokens in all", "3"}, [](Scene& s) { s.lengths = {1, 1}; s.options.lengths = s.lengths; }},
    {"LengthNegative", one_cache, {invalid, "lengths", "-1", "from 0"}, [](Scene& s) { s.lengths = {4, -1}; s.lengths[0] = -1; s.options.lengths = s.lengths; }},
    {"LengthsThatOverflow", one_cache, {invalid, "lengths", "9223372036854775807", "3 tokens"}, [](Scene& s) { s.lengths = {std::numeric_limits<Index>::max(), 3}; s.options.lengths = s.lengths; }},
    {"LengthsForOneCache", one_cache, {invalid, "caches", "1", "2 sequences"}, [](Scene& s) { s.lengths = {1, 2}; s.options.lengths = s.lengths; }},
    {"CacheOfAnotherTable", cached, {invalid, "cache", "another rotary table", "this layer's"}, [](Scene& s) { s.pointers[0]->set_table(77); }},
    {"SequencesBeyond32Bits", no_cache, {too_long, "x", "4611686018427387904 sequences", "2^31"}, [](Scene& s) { s.x.extent[0] = s.y.extent[0] = Index{1} << 62; s.x.extent[1] = s.y.extent[1] = 0; s.options = {}; }},
    {"TokensWhoseKeysNoMemoryHolds", no_cache, {too_long, "x", "72057594037927936 tokens", "63 bits"}, [](Scene& s) { s.whole(Index{1} << 56); }},
    {"TooFewStreams", cache_list | no_cache, {invalid, "dropout_streams", "1", "2 sequences"}, [](Scene& s) { s.options.dropout_streams = std::span(s.streams).first(1); }},
    {"WorkspaceTooSmall", any_form, {too_long, "workspace", "100 bytes", "from "}, [](Scene& s) { s.small_workspace(); }},
};
// clang-format on

class ForwardRefuses : public testing::TestWithParam<Row> {};

TEST_P(ForwardRefuses, BeforeAnythingIsWritten) {
  for (const Form form : {one_cache, cache_list, no_cache}) {
    if ((GetParam().forms & form) == 0) continue;
    SCOPED_TRACE(form == one_cache ? "one cache" : form == cache_list ? "a list of caches" : "no cache");
    Scene scene(form);
    GetParam().change(scene);
    const auto before = scene.bytes();
    const ls::Status status = scene.check();
    EXPECT_TRUE(errors::is_refusal({status.code(), status.message()}, GetParam().refusal));
    const Outcome raised = errors::outcome_of([&] { scene.forward(); });
    EXPECT_EQ(raised.code, status.code());
    EXPECT_EQ(raised.message, status.message());
    EXPECT_TRUE(scene.bytes() == before) << "something was written";
  }
}

INSTANTIATE_TEST_SUITE_P(Errors, ForwardRefuses, testing::ValuesIn(rows), errors::RowName());

TEST(ForwardTakes, TheSceneThatTheRowsSpoil) {
  for (const Form form : {one_cache, cache_list, no_cache}) {
    Scene scene(form);
    const auto before = scene.bytes();
    EXPECT_STREQ(scene.check().message(), "");
    EXPECT_TRUE(scene.bytes() == before) << "check() wrote something";
    scene.forward();
    EXPECT_TRUE(scene.bytes() != before);
  }
}

// Memory that policies borrow from, and that caches lie in; none is as large as the distance of what is borrowed.
struct Lent {
  alignas(64) std::array<std::byte, 4 * 49984> bytes{};
  ls::MemorySource source(Index at) {
    return {[](void* lent, std::size_t, std::size_t) { return lent; },
            [](void*, void*, std::size_t, std::size_t) noexcept {}, bytes.data() + at};
  }
  template <class E, int Rank>
  View<E, Rank> view(Index at, const std::array<Index, static_cast<std::size_t>(Rank)>& extent) {
    return View<E, Rank>::contiguous(reinterpret_cast<E*>(bytes.data() + at), extent);
  }
};

// `at`: where the memory lies that the policy borrows under this name.
template <class Policy>
void expect_apart_from(const Policy& policy, Lent& lent, Index at, const char* name) {
  SCOPED_TRACE(name);
  Scene scene(one_cache);
  using Borrowing = ls::Attention<float, 4, 2, Policy>;
  const auto matrix = [&](Index out, Index in) {
    return View<const float, 2>::contiguous(scene.numbers.data(), {out, in});
  };
  const Borrowing layer({.hidden = 8, .head_dim = 6, .v_head_dim = 4},
                        {.query = matrix(24, 8), .key = matrix(12, 8), .value = matrix(8, 8), .output = matrix(8, 16)},
                        policy);
  const auto refuses = [&](const char* argument, auto cache, View<float, 3> y, ls::Workspace* workspace) {
    const Status status = layer.check(scene.x, cache, y, {.workspace = workspace});
    return errors::is_refusal({status.code(), status.message()},
                              {invalid, argument, std::string("overlaps ") + name, "its own"});
  };
  auto cache = layer.make_cache(10);
  ls::Workspace over(lent.bytes.data() + at + 4, 8);
  EXPECT_TRUE(layer.check(scene.x, cache, scene.y).ok());
  EXPECT_TRUE(refuses("y", cache, lent.view<float, 3>(at + 4, {1, 3, 8}), nullptr));
  EXPECT_TRUE(refuses("workspace", cache, scene.y, &over));
  EXPECT_TRUE(refuses("cache", layer.make_cache(10, ls::CacheMemory{.source = lent.source(at)}), scene.y, nullptr));
}

TEST(ForwardRefuses, MemoryThatPoliciesBorrow) {
  const auto lent = std::make_unique<Lent>();
  const auto table = ls::RopeTable<float>::borrowed(lent->view<const float, 2>(0, {12, 2}),
                                                    lent->view<const float, 2>(49984, {12, 2}));
  const ls::Rope<ls::HalfSplit, float> rope(table);
  const ls::MultimodalRope<ls::HalfSplit, float> listed(table, {1, 1, 0},
                                                        lent->view<const Index, 2>(2 * 49984, {10, 3}));
  expect_apart_from(rope, *lent, 0, "cos");
  expect_apart_from(rope, *lent, 49984, "sin");
  expect_apart_from(listed, *lent, 0, "cos");
  expect_apart_from(listed, *lent, 49984, "sin");
  expect_apart_from(listed, *lent, 2 * 49984, "positions");
  expect_apart_from(ls::Causal{} & ls::KeyPadding(lent->view<const bool, 2>(3 * 49984, {1, 10})), *lent, 3 * 49984,
                    "mask");
}

TEST(WorkspaceBytes, AreNotSmallForCallsThatNoMemoryHolds) {
  constexpr Index most = std::numeric_limits<Index>::max();
  for (const Index size : {Index{1} << 31, Index{1} << 40, Index{1} << 62, most}) {
    EXPECT_GE(layer().workspace_bytes(size, 1, 1), layer().workspace_bytes(size / 2, 1, 1));
    EXPECT_GE(layer().workspace_bytes(1, size, size), layer().workspace_bytes(1, size / 2, size / 2));
    EXPECT_GE(layer().workspace_bytes(size, size, size), layer().workspace_bytes(2, 300, 300));
    EXPECT_GE(layer().tree_workspace_bytes(size, size, size), layer().tree_workspace_bytes(2, 300, 300));
  }
  EXPECT_GE(layer().workspace_bytes(most, most, most), Index{1} << 45);
  EXPECT_GE(layer().tree_workspace_bytes(most, most, most), Index{1} << 45);
  EXPECT_GE(layer().workspace_bytes(1, 1, 1), layer().workspace_bytes(-1, -1, -1));
  EXPECT_GT(layer().workspace_bytes(-1, -1, -1), 0);
}

TEST(ForwardTakes, AnEmptyCallAndChangesNothing) {
  for (const Form form : {one_cache, cache_list, no_cache}) {
    Scene scene(form);
    scene.x.extent[1] = scene.y.extent[1] = 0;
    scene.options = {};
    const auto before = scene.bytes();
    scene.forward();
    EXPECT_TRUE(scene.bytes() == before);
  }
}

TEST(ForwardRefuses, ALayerThatWasMovedFrom) {
  Scene scene(one_cache);
  Layer from = layer();
  const Layer to = std::move(from);
  const Status status = from.check(scene.x, *scene.pointers[0], scene.y);
  EXPECT_TRUE(errors::is_refusal({status.code(), status.message()}, {invalid, "layer", "moved from", "weights"}));
  EXPECT_THROW(from.forward(scene.x, scene.y), std::invalid_argument);
  EXPECT_NO_THROW(to.forward(scene.x, scene.y));
}

TEST(ForwardTakes, RowsOfAnyOrderThatDoNotMeet) {
  Scene plain(one_cache), turned(one_cache);
  plain.forward();
  turned.y.data += 2 * 30;
  turned.y.stride[1] = -30;  // backwards and with gaps
  turned.options.lse.stride = {0, 1, 4};
  turned.forward();
  for (Index i = 0; i < 3; ++i)
    for (Index n = 0; n < 8; ++n) EXPECT_EQ(plain.y(0, i, n), turned.y(0, i, n));
  for (Index h = 0; h < 4; ++h)
    for (Index i = 0; i < 3; ++i) EXPECT_EQ(plain.options.lse(0, h, i), turned.options.lse(0, h, i));
}

TEST(ForwardTakes, ThePositionAtTheEndOfTheTable) {
  Scene scene(one_cache);
  scene.replace(Scene::filled(9, 20));
  scene.options = {};
  EXPECT_NO_THROW(scene.forward());
}

}  // namespace
