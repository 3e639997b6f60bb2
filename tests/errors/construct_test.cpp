// Every wrong argument of a layer's constructor.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <type_traits>
#include <vector>

#include "errors/refusal.hpp"
#include "lockstep/lockstep.hpp"

namespace ls = lockstep;
using errors::invalid;
using ls::Index;
using ls::View;

namespace {

using Layer = ls::Attention<float, ls::Dynamic, ls::Dynamic, ls::Rope<ls::HalfSplit>, ls::Dropout>;
using FixedLayer = ls::Attention<float, 4, 2, ls::Rope<ls::HalfSplit>, ls::Dropout>;

// Arguments with nothing wrong. A row of the table changes one.
struct Scene {
  Scene() {
    const auto matrix = [this](Index out, Index in) {
      return View<const float, 2>::contiguous(numbers.data(), {out, in});
    };
    const auto vector = [this](Index out) { return View<const float, 1>::contiguous(numbers.data(), {out}); };
    weights = {.query = matrix(24, 8),
               .key = matrix(12, 8),
               .value = matrix(8, 8),
               .output = matrix(8, 16),
               .query_bias = vector(24),
               .key_bias = vector(12),
               .value_bias = vector(8),
               .output_bias = vector(8)};
  }
  std::vector<float> numbers = std::vector<float>(400, 0.25F);
  ls::LayerShape shape{.hidden = 8, .head_dim = 6, .v_head_dim = 4, .heads = 4, .kv_heads = 2};
  ls::LayerWeights<float> weights;
  ls::RopeConfig rope{.rotary_dim = 4, .positions = 12};
  ls::Dropout dropout{0.5};
};

struct Row {
  const char* name;
  errors::Refusal refusal;
  std::function<void(Scene&)> change;
};

constexpr Index far = Index{1} << 61;

// clang-format off
const Row rows[] = {
    {"HiddenZero", {invalid, "shape.hidden", "0", "1 to"}, [](Scene& s) { s.shape.hidden = 0; }},
    {"HiddenNegative", {invalid, "shape.hidden", "-8", "1 to"}, [](Scene& s) { s.shape.hidden = -8; }},
    {"HiddenBeyond32Bits", {invalid, "shape.hidden", "2147483648", "2^31 - 1"}, [](Scene& s) { s.shape.hidden = Index{1} << 31; }},
    {"HeadDimZero", {invalid, "shape.head_dim", "0", "1 to"}, [](Scene& s) { s.shape.head_dim = 0; }},
    {"HeadDimBeyond63Bits", {invalid, "shape.head_dim", "9223372036854775807", "2^31 - 1"}, [](Scene& s) { s.shape.head_dim = std::numeric_limits<Index>::max(); }},
    {"ValueDimNegative", {invalid, "shape.v_head_dim", "-1", "1 to"}, [](Scene& s) { s.shape.v_head_dim = -1; }},
    {"HeadsOfTooManyNumbers", {invalid, "shape", "1048576 heads of 2147483647", "2^40"}, [](Scene& s) { s.shape.heads = Index{1} << 20; s.shape.kv_heads = 2; s.shape.head_dim = (Index{1} << 31) - 1; s.shape.hidden = 1; }},
    {"HeadsMissing", {invalid, "shape.heads", "0", "1 to"}, [](Scene& s) { s.shape.heads = 0; }},
    {"KvHeadsMissing", {invalid, "shape.kv_heads", "0", "1 to"}, [](Scene& s) { s.shape.kv_heads = 0; }},
    {"HeadsNegative", {invalid, "shape.heads", "-4", "1 to"}, [](Scene& s) { s.shape.heads = -4; }},
    {"HeadsNoMultiple", {invalid, "heads", "7 query heads over 2", "multiples"}, [](Scene& s) { s.shape.heads = 7; }},
    {"FewerHeadsThanKvHeads", {invalid, "heads", "2 query heads over 4", "multiples"}, [](Scene& s) { s.shape.heads = 2; s.shape.kv_heads = 4; }},
    {"QueryOfOtherRows", {invalid, "weights.query", "[23, 8]", "[24, 8]"}, [](Scene& s) { s.weights.query.extent[0] = 23; }},
    {"QueryOfOtherColumns", {invalid, "weights.query", "[24, 9]", "[24, 8]"}, [](Scene& s) { s.weights.query.extent[1] = 9; }},
    {"QueryTransposed", {invalid, "weights.query", "[8, 24]", "[24, 8]"}, [](Scene& s) { std::swap(s.weights.query.extent[0], s.weights.query.extent[1]); }},
    {"QueryNull", {invalid, "weights.query", "null", "[24, 8]"}, [](Scene& s) { s.weights.query.data = nullptr; }},
    {"QueryAbsent", {invalid, "weights.query", "[0, 0]", "[24, 8]"}, [](Scene& s) { s.weights.query = {}; }},
    {"QueryOfStridesBeyondMemory", {invalid, "weights.query", "strides", "2^63"}, [](Scene& s) { s.weights.query.stride[0] = far; }},
    {"KeyOfOtherRows", {invalid, "weights.key", "[24, 8]", "[12, 8]"}, [](Scene& s) { s.weights.key.extent[0] = 24; }},
    {"KeyNull", {invalid, "weights.key", "null", "[12, 8]"}, [](Scene& s) { s.weights.key.data = nullptr; }},
    {"ValueOfKeysRows", {invalid, "weights.value", "[12, 8]", "[8, 8]"}, [](Scene& s) { s.weights.value.extent[0] = 12; }},
    {"ValueNull", {invalid, "weights.value", "null", "[8, 8]"}, [](Scene& s) { s.weights.value.data = nullptr; }},
    {"OutputTransposed", {invalid, "weights.output", "[16, 8]", "[8, 16]"}, [](Scene& s) { std::swap(s.weights.output.extent[0], s.weights.output.extent[1]); }},
    {"OutputNull", {invalid, "weights.output", "null", "[8, 16]"}, [](Scene& s) { s.weights.output.data = nullptr; }},
    {"QueryBiasTooLong", {invalid, "weights.query_bias", "[25]", "[24]"}, [](Scene& s) { s.weights.query_bias.extent[0] = 25; }},
    {"QueryBiasNull", {invalid, "weights.query_bias", "null", "[24]"}, [](Scene& s) { s.weights.query_bias.data = nullptr; }},
    {"KeyBiasTooShort", {invalid, "weights.key_bias", "[11]", "[12]"}, [](Scene& s) { s.weights.key_bias.extent[0] = 11; }},
    {"ValueBiasTooLong", {invalid, "weights.value_bias", "[12]", "[8]"}, [](Scene& s) { s.weights.value_bias.extent[0] = 12; }},
    {"OutputBiasTooLong", {invalid, "weights.output_bias", "[16]", "[8]"}, [](Scene& s) { s.weights.output_bias.extent[0] = 16; }},
    {"RotaryDimOdd", {invalid, "rotary_dim", "3", "even"}, [](Scene& s) { s.rope.rotary_dim = 3; }},
    {"RotaryDimAboveHeadDim", {invalid, "rotary_dim", "8", "head_dim 6"}, [](Scene& s) { s.rope.rotary_dim = 8; }},
    {"DropoutOfOne", {invalid, "dropout probability", "1", "p < 1"}, [](Scene& s) { s.dropout.probability = 1; }},
    {"DropoutNegative", {invalid, "dropout probability", "-0.5", "0 <= p"}, [](Scene& s) { s.dropout.probability = -0.5; }},
    {"DropoutNan", {invalid, "dropout probability", "nan", "0 <= p"}, [](Scene& s) { s.dropout.probability = std::numeric_limits<double>::quiet_NaN(); }},
};
// clang-format on

class ConstructorRefuses : public testing::TestWithParam<Row> {};

TEST_P(ConstructorRefuses, WithAMessage) {
  Scene scene;
  GetParam().change(scene);
  EXPECT_TRUE(errors::is_refusal(errors::outcome_of([&] {
                                   const Layer layer(scene.shape, scene.weights, ls::RopeTable<float>(scene.rope),
                                                     scene.dropout);
                                 }),
                                 GetParam().refusal));
}

INSTANTIATE_TEST_SUITE_P(Errors, ConstructorRefuses, testing::ValuesIn(rows), errors::RowName());

TEST(Constructor, TakesTheSceneThatTheRowsSpoil) {
  const Scene scene;
  EXPECT_EQ(errors::outcome_of([&] {
              const Layer layer(scene.shape, scene.weights, ls::RopeTable<float>(scene.rope), scene.dropout);
            }).message,
            "");
}

TEST(Constructor, RefusesHeadNumbersThatTheTypeContradicts) {
  Scene scene;
  EXPECT_EQ(errors::outcome_of([&] { const FixedLayer layer(scene.shape, scene.weights); }).message, "");
  scene.shape.heads = 8;
  EXPECT_TRUE(errors::is_refusal(errors::outcome_of([&] { const FixedLayer layer(scene.shape, scene.weights); }),
                                 {invalid, "shape.heads", "8", "the type's 4"}));
  scene.shape.heads = scene.shape.kv_heads = 4;
  EXPECT_TRUE(errors::is_refusal(errors::outcome_of([&] { const FixedLayer layer(scene.shape, scene.weights); }),
                                 {invalid, "shape.kv_heads", "4", "the type's 2"}));
}

TEST(Constructor, TakesAnOddHeadOnlyWithATableOfItsOwn) {
  Scene scene;
  scene.shape.head_dim = 5;
  scene.weights.query.extent[0] = scene.weights.query_bias.extent[0] = 20;
  scene.weights.key.extent[0] = scene.weights.key_bias.extent[0] = 10;
  EXPECT_TRUE(errors::is_refusal(errors::outcome_of([&] { const FixedLayer layer(scene.shape, scene.weights); }),
                                 {invalid, "rotary_dim", "5", "even"}));
  EXPECT_EQ(errors::outcome_of([&] {
              const FixedLayer layer(scene.shape, scene.weights, ls::RopeTable<float>(scene.rope));
            }).message,
            "");
}

// A sharing of a user's that points beyond the kv heads.
struct OneTooFar {
  static constexpr ls::PolicyKind policy_kind = ls::PolicyKind::heads;
  Index kv_head(Index head, Index, Index) const noexcept { return head; }
};

TEST(Constructor, RefusesASharingThatPointsBeyondTheKvHeads) {
  const Scene scene;
  using Shared = ls::Attention<float, 4, 2, OneTooFar>;
  EXPECT_TRUE(errors::is_refusal(errors::outcome_of([&] { const Shared layer(scene.shape, scene.weights); }),
                                 {invalid, "head sharing", "kv head 2 for query head 2", "0 to 1"}));
}

TEST(MakeCache, RefusesWhatNoMemoryHolds) {
  const Scene scene;
  const FixedLayer layer(scene.shape, scene.weights);
  EXPECT_TRUE(errors::is_refusal(errors::outcome_of([&] { (void)layer.make_cache(-1); }),
                                 {errors::too_long, "capacity", "-1", "0 to"}));
  EXPECT_TRUE(errors::is_refusal(errors::outcome_of([&] { (void)layer.make_cache(std::numeric_limits<Index>::max()); }),
                                 {errors::too_long, "capacity", "9223372036854775807", "0 to"}));
  EXPECT_EQ(layer.make_cache(0).capacity(), 0);
}

}  // namespace
