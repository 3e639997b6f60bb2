// Every wrong argument of the parts: caches, rotary tables, repeated heads, the causal matrix.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "errors/refusal.hpp"
#include "lockstep/cache/contiguous.hpp"
#include "lockstep/cache/model_cache.hpp"
#include "lockstep/heads/repeated.hpp"
#include "lockstep/mask/causal.hpp"
#include "lockstep/position/rope.hpp"

namespace ls = lockstep;
using errors::invalid;
using errors::too_long;
using ls::Index;
using ls::View;

namespace {

using Cache = ls::ContiguousCache<float>;
using Other = ls::ContiguousCache<Eigen::half>;

// A cache of 2 heads of 3 and 5 numbers with 4 of 6 tokens, and a model of two layers with 1 token each.
struct Scene {
  Scene() {
    cache.append(keys(4), values(4));
    const auto row = View<const float, 3>::contiguous(numbers.data(), {1, 1, 1});
    Cache first({1, 1, 1}, 4), second({1, 1, 1}, 2);
    first.append(row, row);
    second.append(row, row);
    model.add(std::move(first));
    model.add(std::move(second));
    exported.resize(200, -1);
  }
  View<const float, 3> keys(Index tokens) const {
    return View<const float, 3>::contiguous(numbers.data(), {tokens, 2, 3});
  }
  View<const float, 3> values(Index tokens) const {
    return View<const float, 3>::contiguous(numbers.data(), {tokens, 2, 5});
  }
  View<const float, 3> heads(Index length, Index dim) const {
    return View<const float, 3>::contiguous(numbers.data(), {2, length, dim});
  }
  View<float, 3> out(Index length, Index dim) { return View<float, 3>::contiguous(exported.data(), {2, length, dim}); }

  // All that the calls may change.
  std::vector<float> state() const {
    std::vector<float> all(exported);
    for (const Cache* c : {&cache, &model_layer(0), &model_layer(1)}) {
      all.push_back(static_cast<float>(c->length()));
      if (c->capacity() > 0)
        all.insert(all.end(), c->block(0, 0).keys,
                   c->block(0, 0).keys + c->bytes() / static_cast<Index>(sizeof(float)));
    }
    return all;
  }
  const Cache& model_layer(Index i) const { return const_cast<Scene*>(this)->model.layer(i); }

  std::vector<float> numbers = std::vector<float>(200, 0.5F);
  std::vector<float> exported;
  Cache cache{{2, 3, 5}, 6};
  ls::ModelCache<Cache, Other> model;
};

View<const float, 3> without_memory(View<const float, 3> v) {
  v.data = nullptr;
  return v;
}
View<const float, 3> with_far_strides(View<const float, 3> v) {
  v.stride[0] = Index{1} << 61;
  return v;
}
View<const float, 2> table(Index positions, Index pairs) {
  static const std::vector<float> numbers(100, 1.0F);
  return View<const float, 2>::contiguous(numbers.data(), {positions, pairs});
}
View<const float, 2> without_memory(View<const float, 2> v) {
  v.data = nullptr;
  return v;
}
void make_table(ls::RopeConfig config) { const ls::RopeTable<float> made(config); }
void make_table(View<const float, 2> cos, View<const float, 2> sin) { const ls::RopeTable<float> made(cos, sin); }

struct Row {
  const char* name;
  errors::Refusal refusal;
  std::function<void(Scene&)> call;
};

constexpr Index most = std::numeric_limits<Index>::max();

// clang-format off
const Row rows[] = {
    {"CacheWithoutKvHeads", {invalid, "shape", "kv_heads 0", "at least 1"}, [](Scene&) { const Cache made({0, 3, 5}, 1); }},
    {"CacheOfNegativeHeadDim", {invalid, "shape", "head_dim -3", "at least 1"}, [](Scene&) { const Cache made({2, -3, 5}, 1); }},
    {"CacheWithoutValues", {invalid, "shape", "v_head_dim 0", "at least 1"}, [](Scene&) { const Cache made({2, 3, 0}, 1); }},
    {"CacheOfNegativeCapacity", {too_long, "capacity", "-1", "0 to"}, [](Scene&) { const Cache made({2, 3, 5}, -1); }},
    {"CacheBeyond63Bits", {too_long, "capacity", "9223372036854775807", "63 bits"}, [](Scene&) { const Cache made({2, 3, 5}, most); }},
    {"CacheWhoseBytesOverflow", {too_long, "capacity", "140737488355328", "63 bits"}, [](Scene&) { const Cache made({4096, 4096, 4096}, Index{1} << 47); }},
    {"AppendTooMany", {too_long, "cache", "3 tokens to append to 4", "6 in all"}, [](Scene& s) { s.cache.append(s.keys(3), s.values(3)); }},
    {"AppendLessThanNothing", {too_long, "cache", "-1 tokens", "6 in all"}, [](Scene& s) { s.cache.append(s.keys(-1), s.values(-1)); }},
    {"AppendKeysOfOtherHeads", {invalid, "keys", "[1, 3, 3]", "[1, 2, 3]"}, [](Scene& s) { auto k = s.keys(1); k.extent[1] = 3; s.cache.append(k, s.values(1)); }},
    {"AppendKeysOfAnotherDim", {invalid, "keys", "[1, 2, 5]", "[1, 2, 3]"}, [](Scene& s) { s.cache.append(s.values(1), s.values(1)); }},
    {"AppendValuesOfAnotherDim", {invalid, "values", "[1, 2, 3]", "[1, 2, 5]"}, [](Scene& s) { s.cache.append(s.keys(1), s.keys(1)); }},
    {"AppendFewerValues", {invalid, "values", "[1, 2, 5]", "[2, 2, 5]"}, [](Scene& s) { s.cache.append(s.keys(2), s.values(1)); }},
    {"AppendNullKeys", {invalid, "keys", "null", "[1, 2, 3]"}, [](Scene& s) { s.cache.append(without_memory(s.keys(1)), s.values(1)); }},
    {"AppendNullValues", {invalid, "values", "null", "[1, 2, 5]"}, [](Scene& s) { s.cache.append(s.keys(1), without_memory(s.values(1))); }},
    {"AppendFromBeyondMemory", {invalid, "keys", "strides", "2^63"}, [](Scene& s) { s.cache.append(with_far_strides(s.keys(2)), s.values(2)); }},
    {"AppendToMovedFrom", {too_long, "cache", "1 tokens to append to 0", "0 in all"}, [](Scene& s) { Cache moved({2, 3, 5}, 6); const Cache taken(std::move(moved)); moved.append(s.keys(1), s.values(1)); }},
    {"TruncateBeyondTheEnd", {too_long, "length", "5", "0 to 4"}, [](Scene& s) { s.cache.truncate(5); }},
    {"TruncateBelowZero", {too_long, "length", "-1", "0 to 4"}, [](Scene& s) { s.cache.truncate(-1); }},
    {"ExportKeysOfAnotherLength", {invalid, "out", "[2, 3, 3]", "[2, 4, 3]"}, [](Scene& s) { s.cache.export_keys(s.out(3, 3)); }},
    {"ExportKeysIntoNull", {invalid, "out", "null", "[2, 4, 3]"}, [](Scene& s) { auto out = s.out(4, 3); out.data = nullptr; s.cache.export_keys(out); }},
    {"ExportValuesOfTheKeysDim", {invalid, "out", "[2, 4, 3]", "[2, 4, 5]"}, [](Scene& s) { s.cache.export_values(s.out(4, 3)); }},
    {"ImportTooMany", {too_long, "keys", "7", "6"}, [](Scene& s) { s.cache.import(s.heads(7, 3), s.heads(7, 5)); }},
    {"ImportLessThanNothing", {invalid, "keys", "[2, -1, 3]", "from 0"}, [](Scene& s) { s.cache.import(s.heads(-1, 3), s.heads(-1, 5)); }},
    {"ImportKeysOfAnotherDim", {invalid, "keys", "[2, 2, 5]", "[2, 2, 3]"}, [](Scene& s) { s.cache.import(s.heads(2, 5), s.heads(2, 5)); }},
    {"ImportFewerValues", {invalid, "values", "[2, 1, 5]", "[2, 2, 5]"}, [](Scene& s) { s.cache.import(s.heads(2, 3), s.heads(1, 5)); }},
    {"ImportNullValues", {invalid, "values", "null", "[2, 2, 5]"}, [](Scene& s) { s.cache.import(s.heads(2, 3), without_memory(s.heads(2, 5))); }},
    {"ModelLayerMissing", {invalid, "layer", "2", "0 to 1"}, [](Scene& s) { s.model.layer(2); }},
    {"ModelLayerNegative", {invalid, "layer", "-1", "0 to 1"}, [](Scene& s) { s.model.layer(-1); }},
    {"ModelLayerOfAnotherLength", {invalid, "cache", "length 0", "1"}, [](Scene& s) { s.model.add(Cache({1, 1, 1}, 4)); }},
    {"ModelBeginBeyondTheSmallest", {too_long, "cache", "2 tokens to append to 1", "2 in all"}, [](Scene& s) { s.model.begin(2); }},
    {"ModelTruncateBeyondTheEnd", {invalid, "length", "2", "0 to 1"}, [](Scene& s) { s.model.truncate(2); }},
    {"ModelTruncateBelowZero", {invalid, "length", "-1", "0 to 1"}, [](Scene& s) { s.model.truncate(-1); }},
    {"RotaryDimOdd", {invalid, "rotary_dim", "7", "even"}, [](Scene&) { make_table({.rotary_dim = 7}); }},
    {"RotaryDimZero", {invalid, "rotary_dim", "0", "from 2"}, [](Scene&) { make_table({.rotary_dim = 0}); }},
    {"RotaryDimNegative", {invalid, "rotary_dim", "-8", "from 2"}, [](Scene&) { make_table({.rotary_dim = -8}); }},
    {"RotaryDimBeyond32Bits", {invalid, "rotary_dim", "4611686018427387904", "2^31"}, [](Scene&) { make_table({.rotary_dim = Index{1} << 62, .positions = 8}); }},
    {"BaseZero", {invalid, "base", "0", "positive"}, [](Scene&) { make_table({.rotary_dim = 8, .base = 0}); }},
    {"BaseNegative", {invalid, "base", "-10000", "positive"}, [](Scene&) { make_table({.rotary_dim = 8, .base = -10000}); }},
    {"BaseNan", {invalid, "base", "nan", "finite"}, [](Scene&) { make_table({.rotary_dim = 8, .base = std::numeric_limits<double>::quiet_NaN()}); }},
    {"BaseInfinite", {invalid, "base", "inf", "finite"}, [](Scene&) { make_table({.rotary_dim = 8, .base = std::numeric_limits<double>::infinity()}); }},
    {"BaseFarBelowOne", {invalid, "base", "1e-07 with 1000 positions", "angles up to 2^31"}, [](Scene&) { make_table({.rotary_dim = 8, .base = 1e-7, .positions = 1000}); }},
    {"PositionsNegative", {invalid, "positions", "-1", "0 to"}, [](Scene&) { make_table({.rotary_dim = 8, .positions = -1}); }},
    {"PositionsBeyond32Bits", {invalid, "positions", "9223372036854775807", "2^31"}, [](Scene&) { make_table({.rotary_dim = 8, .positions = most}); }},
    {"CosinesNull", {invalid, "cos", "null", "[3, 4]"}, [](Scene&) { make_table(without_memory(table(3, 4)), table(3, 4)); }},
    {"CosinesNegative", {invalid, "cos", "[-3, 4]", "from 0"}, [](Scene&) { make_table(table(-3, 4), table(-3, 4)); }},
    {"SinesNull", {invalid, "sin", "null", "[3, 4]"}, [](Scene&) { make_table(table(3, 4), without_memory(table(3, 4))); }},
    {"SinesOfAnotherLength", {invalid, "sin", "[2, 4]", "[3, 4]"}, [](Scene&) { make_table(table(3, 4), table(2, 4)); }},
    {"SinesOfAnotherWidth", {invalid, "sin", "[3, 8]", "[3, 4]"}, [](Scene&) { make_table(table(3, 4), table(3, 8)); }},
    {"GroupOfZero", {invalid, "group_size", "0", "at least 1"}, [](Scene& s) { (void)ls::repeat_kv_heads(s.keys(2), 0); }},
    {"GroupNegative", {invalid, "group_size", "-2", "at least 1"}, [](Scene& s) { (void)ls::repeat_kv_heads(s.keys(2), -2); }},
    {"RepeatNull", {invalid, "source", "null", "[2, 2, 3]"}, [](Scene& s) { (void)ls::repeat_kv_heads(without_memory(s.keys(2)), 2); }},
    {"RepeatBeyond63Bits", {invalid, "group_size", "4611686018427387904", ""}, [](Scene& s) { (void)ls::repeat_kv_heads(s.keys(2), Index{1} << 62); }},
    {"CausalMatrixOfNegativeRows", {invalid, "q_len, kv_len", "-1, 3", "0 to"}, [](Scene&) { (void)ls::causal_mask(-1, 3, 0); }},
    {"CausalMatrixOfNegativeKeys", {invalid, "q_len, kv_len", "3, -1", "0 to"}, [](Scene&) { (void)ls::causal_mask(3, -1, 0); }},
};
// clang-format on

class PartRefuses : public testing::TestWithParam<Row> {};

TEST_P(PartRefuses, AndChangesNothing) { errors::expect_refusal<Scene>(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Errors, PartRefuses, testing::ValuesIn(rows), errors::RowName());

TEST(PartErrors, AreWhatTheChecksSay) {
  const Scene scene;
  const ls::Status append = scene.cache.check_append(3), begin = scene.model.check_begin(2);
  EXPECT_STREQ(append.message(), "lockstep: cache: given 3 tokens to append to 4, allowed 6 in all");
  EXPECT_STREQ(begin.message(), "lockstep: cache: given 2 tokens to append to 1, allowed 2 in all");
}

TEST(ModelCacheErrors, TellACacheOfAnotherType) {
  Scene scene;
  const auto outcome = errors::outcome_of([&] { scene.model.layer<Other>(1); });
  EXPECT_EQ(outcome.code, invalid);
  EXPECT_EQ(outcome.message, "lockstep: layer: given 1, whose cache is of another type than the one asked for");
}

}  // namespace
