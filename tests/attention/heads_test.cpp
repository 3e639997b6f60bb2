// Head numbers in the type or at run time, heads shared or repeated: the same bits.
#include "fixture.hpp"

namespace {

using namespace fixture;

template <int Heads, int KvHeads>
struct Numbers {
  static constexpr int heads = Heads, kv_heads = KvHeads;
};

template <class N>
class StaticHeads : public ::testing::Test {};
using HeadNumbers = ::testing::Types<Numbers<4, 4>, Numbers<6, 2>, Numbers<7, 1>, Numbers<14, 2>, Numbers<16, 2>>;
TYPED_TEST_SUITE(StaticHeads, HeadNumbers);

template <int Heads, int KvHeads, class... Policies>
using LayerOf = ls::Attention<float, Heads, KvHeads, ls::Rope<ls::HalfSplit>, Policies...>;

TYPED_TEST(StaticHeads, HaveTheBitsOfDynamicOnes) {
  const Shape shape{.hidden = 12, .heads = TypeParam::heads, .kv_heads = TypeParam::kv_heads, .head_dim = 8};
  const auto x = numbers<float>(45 * shape.hidden, 61);
  const auto in_type = make_layer<LayerOf<TypeParam::heads, TypeParam::kv_heads>>(shape);
  const auto at_run_time = make_layer<LayerOf<ls::Dynamic, ls::Dynamic>>(shape);
  expect_same_outcome(in_type, run(in_type, x, {20, 25}), run(at_run_time, x, {20, 25}));
}

TEST(DynamicHeads, OfOneKindHaveTheBitsOfStaticOnes) {
  const Shape shape{.hidden = 12, .heads = 6, .kv_heads = 2, .head_dim = 8};
  const auto x = numbers<float>(45 * shape.hidden, 62);
  const auto both = make_layer<LayerOf<6, 2>>(shape);
  const auto expected = run(both, x, {20, 25});
  expect_same_outcome(both, expected, run(make_layer<LayerOf<6, ls::Dynamic>>(shape), x, {20, 25}));
  expect_same_outcome(both, expected, run(make_layer<LayerOf<ls::Dynamic, 2>>(shape), x, {20, 25}));
}

TEST(RepeatedHeads, HaveTheBitsOfGroupedOnes) {
  for (const auto& [heads, kv_heads] : {std::pair<Index, Index>{4, 4}, {4, 2}, {6, 2}, {7, 1}, {16, 2}}) {
    const Shape shape{.hidden = 12, .heads = heads, .kv_heads = kv_heads, .head_dim = 8, .v_head_dim = 5};
    SCOPED_TRACE(shape);
    const auto x = numbers<float>(45 * shape.hidden, 63);
    const auto grouped = make_layer<LayerOf<ls::Dynamic, ls::Dynamic, ls::Materialized, ls::Grouped>>(shape);
    const auto repeated = make_layer<LayerOf<ls::Dynamic, ls::Dynamic, ls::Materialized, ls::RepeatedHeads>>(shape);
    const auto expected = run(grouped, x, {45});
    for (const auto& plan : {std::vector<Index>{45}, steps(45, 1)})
      expect_same_outcome(grouped, expected, run(repeated, x, plan));
  }
}

// Query heads of a group read the same memory: with equal query weights their rows are equal bit for bit.
TEST(Grouped, ShareGenuinely) {
  Weights<float> weights({.hidden = 12, .heads = 4, .kv_heads = 2, .head_dim = 8});
  const std::size_t head = 8 * 12;
  for (std::size_t h = 1; h < 4; ++h) {
    std::copy(weights.query.begin(), weights.query.begin() + head,
              weights.query.begin() + static_cast<std::ptrdiff_t>(h * head));
    std::copy(weights.query_bias.begin(), weights.query_bias.begin() + 8,
              weights.query_bias.begin() + static_cast<std::ptrdiff_t>(h * 8));
  }
  const LayerOf<4, 2> layer(weights.shape.layer(), weights.views());
  const Index tokens = 30;
  const auto x = numbers<float>(tokens * 12, 64);
  std::vector<float> y(x.size()), context(at(tokens * 4 * 8));
  layer.forward(rows_of(x, 0, tokens, 12), rows_of(y, 0, tokens, 12),
                {.context = ls::View<float, 3>::contiguous(context.data(), {1, tokens, 32})});
  for (Index i = 0; i < tokens; ++i) {
    const auto of_head = [&](Index h) { return part(context, i * 32 + h * 8, 8); };
    EXPECT_TRUE(same_bits(of_head(0), of_head(1), 8));
    EXPECT_TRUE(same_bits(of_head(2), of_head(3), 8));
    EXPECT_FALSE(same_bits(of_head(0), of_head(2), 8));
  }
}

}  // namespace
