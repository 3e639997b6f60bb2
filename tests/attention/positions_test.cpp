// Rotary positions: cache length + row, or given for each token; refused outside the table before anything is written.
#include "fixture.hpp"

namespace {

using namespace fixture;

constexpr Shape shape{.hidden = 12, .heads = 4, .kv_heads = 2, .head_dim = 6};
constexpr Index hidden = shape.hidden, tokens = 290;
using Layer = ls::Attention<float, ls::Dynamic, ls::Dynamic, ls::Rope<ls::Interleaved>>;

ls::View<const Index, 2> view(const std::vector<Index>& positions, Index first, Index rows) {
  return {positions.data() + first, {1, rows}, {rows, 1}};
}

std::vector<Index> counted(Index first, Index n) {
  std::vector<Index> positions;
  for (Index i = 0; i < n; ++i) positions.push_back(first + i);
  return positions;
}

class Positions : public ::testing::Test {
 protected:
  Layer layer = make_layer<Layer>(shape, rope<float>(shape.head_dim, 1000));
  std::vector<float> x = numbers<float>(tokens * hidden, 131);
};

TEST_F(Positions, GivenAsCountedHaveTheBitsOfNone) {
  const auto positions = counted(0, tokens);
  expect_same_outputs(layer, full(layer, x), full(layer, x, {.positions = view(positions, 0, tokens)}));
}

TEST_F(Positions, OfAnyOrderAreTheReferences) {
  Random random(9);
  std::vector<Index> positions;
  for (Index i = 0; i < tokens; ++i) positions.push_back(random.below(1000));
  const auto result = full(layer, x, {.positions = view(positions, 0, tokens)});

  const auto w = Weights<float>(shape).reference();
  const auto rotated = [&](const reference::Values& weight, const reference::Values& bias, Index heads) {
    return reference::rotate(reference::project(reference::widen(x), weight, bias, hidden, heads * 6),
                             reference::Pairing::interleaved, heads, 6, 6, 10000, positions);
  };
  reference::Problem problem{4, 2, 6, 6, tokens, tokens};
  problem.visible = reference::causal();
  const auto attention = reference::attend(problem, rotated(w.query, w.query_bias, 4), rotated(w.key, w.key_bias, 2),
                                           reference::project(reference::widen(x), w.value, w.value_bias, hidden, 12));
  const auto y = reference::project(attention.context, w.output, w.output_bias, 24, hidden);
  EXPECT_LE(largest_difference(y, result.y), 8 * 0x1p-24 * static_cast<double>(hidden + 6 + tokens));
}

TEST_F(Positions, GivenInChunksHaveTheBitsOfOnePass) {
  auto positions = counted(40, tokens);
  std::swap(positions[3], positions[260]);
  const auto expected = full(layer, x, {.positions = view(positions, 0, tokens)});
  auto cache = layer.make_cache(tokens);
  std::vector<float> y(x.size());
  Index first = 0;
  for (const Index rows : random_plan(tokens, 10)) {
    layer.forward(rows_of(x, first, rows, hidden), cache, rows_of(y, first, rows, hidden),
                  {.positions = view(positions, first, rows)});
    first += rows;
  }
  EXPECT_TRUE(same_bits(expected.y, y, hidden));
}

TEST_F(Positions, OfABatchAreEachSequencesOwn) {
  const Index q_len = 140, each = q_len * hidden;
  auto positions = counted(0, q_len);
  const auto later = counted(500, q_len);
  positions.insert(positions.end(), later.begin(), later.end());
  std::vector<float> y(at(2 * each));
  layer.forward(ls::View<const float, 3>::contiguous(x.data(), {2, q_len, hidden}),
                ls::View<float, 3>::contiguous(y.data(), {2, q_len, hidden}),
                {.positions = ls::View<const Index, 2>::contiguous(positions.data(), {2, q_len})});
  for (Index b = 0; b < 2; ++b)
    EXPECT_TRUE(same_bits(full(layer, part(x, b * each, each), {.positions = view(positions, b * q_len, q_len)}).y,
                          part(y, b * each, each), hidden))
        << "sequence " << b;
}

TEST_F(Positions, OutsideTheTableAreRefusedBeforeAnythingIsWritten) {
  auto cache = layer.make_cache(2000);
  std::vector<float> y(at(4 * hidden), 7);
  const auto expect_refused = [&](const Layer::Options& options) {
    const auto before = y;
    const Index length = cache.length();
    EXPECT_FALSE(layer.check(rows_of(x, 0, 4, hidden), cache, rows_of(y, 0, 4, hidden), options).ok());
    EXPECT_THROW(layer.forward(rows_of(x, 0, 4, hidden), cache, rows_of(y, 0, 4, hidden), options),
                 std::invalid_argument);
    EXPECT_EQ(cache.length(), length);
    EXPECT_EQ(y, before);
  };
  for (const auto& positions : {std::vector<Index>{0, 1, 2, 1000}, {-1, 0, 1, 2}, {0, 1, INT64_MAX, 2}})
    expect_refused({.positions = view(positions, 0, 4)});
  const auto three = counted(0, 3);
  expect_refused({.positions = view(three, 0, 3)});
  for (Index done = 0; done < 997; done += 1) {
    std::vector<float> one(at(hidden));
    layer.forward(rows_of(x, 0, 1, hidden), cache, rows_of(one, 0, 1, hidden));
  }
  expect_refused({});  // 997 + 4 tokens, 1000 positions
  std::vector<float> three_rows(at(3 * hidden));
  EXPECT_NO_THROW(layer.forward(rows_of(x, 0, 3, hidden), cache, rows_of(three_rows, 0, 3, hidden)));
}

TEST_F(Positions, OfALayerWithoutATableComeFromOneOfItsOwn) {
  const auto own = make_layer<Layer>(shape);
  expect_same_outputs(layer, full(layer, x), full(own, x));
}

}  // namespace
