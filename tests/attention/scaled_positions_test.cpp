// Layers on scaled, proportional, given and multimodal rotations: the bits of one pass however the tokens come.
#include "fixture.hpp"

namespace {

using namespace fixture;

constexpr Shape shape{.hidden = 12, .heads = 4, .kv_heads = 2, .head_dim = 10};
constexpr Index hidden = shape.hidden, tokens = 290;
using Plain = ls::Attention<float, ls::Dynamic, ls::Dynamic, ls::Rope<ls::HalfSplit>>;
using Multimodal = ls::Attention<float, ls::Dynamic, ls::Dynamic, ls::MultimodalRope<ls::HalfSplit>>;
using MultimodalRope = ls::MultimodalRope<ls::HalfSplit, float>;

const std::vector<float>& input() {
  static const auto x = numbers<float>(tokens * hidden, 171);
  return x;
}

ls::View<const Index, 2> row_view(const std::vector<Index>& positions, Index first, Index rows) {
  return {positions.data() + first, {1, rows}, {rows, 1}};
}

template <class Layer>
void expect_bits_of_one_pass(const Layer& layer, const char* what) {
  SCOPED_TRACE(what);
  const auto one_pass = run(layer, input(), {tokens});
  expect_same_outputs(layer, one_pass, full(layer, input()));
  for (const auto& plan : {steps(tokens, 1), std::vector<Index>{255, 1, 34}, random_plan(tokens, 17)}) {
    SCOPED_TRACE(plan_name(plan));
    expect_same_outcome(layer, one_pass, run(layer, input(), plan));
  }
}

template <class S>
Plain scaled(const S& scaling, ls::RopeConfig config = {.rotary_dim = 10, .positions = 1200}) {
  return make_layer<Plain>(shape, ls::RopeTable<float>(config, scaling));
}

TEST(ScaledPositions, DecodeWithTheBitsOfTheFullForward) {
  expect_bits_of_one_pass(scaled(ls::YarnScaling{.factor = 16, .original_length = 256}), "YaRN");
  expect_bits_of_one_pass(scaled(ls::LongRopeScaling{.short_factors = std::vector<double>(5, 1.1),
                                                     .long_factors{1, 2, 3, 5, 8},
                                                     .original_length = 64,
                                                     .extended_length = 512,
                                                     .length = tokens}),
                          "LongRoPE");
  expect_bits_of_one_pass(scaled(ls::Unscaled{}, {.rotary_dim = 4, .positions = 300, .proportional_to = 10}),
                          "proportional");
}

TEST(ScaledPositions, EachGiveOtherNumbers) {
  const auto plain = full(scaled(ls::Unscaled{}), input());
  const auto expect_other = [&](const Plain& layer, const char* what) {
    EXPECT_GT(largest_difference(plain.y, full(layer, input()).y), 1e-3) << what;
  };
  ls::YarnScaling yarn{.factor = 16, .original_length = 256};
  expect_other(scaled(yarn), "YaRN");
  expect_other(scaled(ls::LinearScaling{.factor = 4}), "linear");
  expect_other(scaled(ls::DynamicNtkScaling{.factor = 4, .original_length = 64, .length = tokens}), "dynamic");
  expect_other(scaled(ls::Llama3Scaling{.factor = 8, .original_length = 256}), "Llama 3");
  expect_other(scaled(ls::Unscaled{}, {.rotary_dim = 4, .positions = 300}), "partial");
  expect_other(scaled(ls::Unscaled{}, {.rotary_dim = 4, .positions = 300, .proportional_to = 10}), "proportional");
  const auto with_magnitude = full(scaled(yarn), input());
  yarn.magnitude = 1;
  EXPECT_GT(largest_difference(with_magnitude.y, full(scaled(yarn), input()).y), 1e-3);
}

// 4 p times f/4 is p f to the bit.
TEST(ScaledPositions, OfLinearScalingAreFractionsOfPlainOnes) {
  std::vector<Index> positions;
  for (Index p = 0; p < tokens; ++p) positions.push_back(4 * p);
  const auto linear = scaled(ls::LinearScaling{.factor = 4}), plain = scaled(ls::Unscaled{});
  expect_same_outputs(plain, full(plain, input()),
                      full(linear, input(), {.positions = row_view(positions, 0, tokens)}));
}

// Rows of cosines and sines, one for each token, that only together with the token say which position it has.
TEST(GivenRows, HaveTheBitsOfThePositionsTheyAreOf) {
  const ls::RopeTable<float> table({.rotary_dim = 10, .positions = 1000});
  Random random(5);
  std::vector<Index> positions;
  std::vector<float> cos, sin;
  for (Index i = 0; i < tokens; ++i) {
    const Index p = positions.emplace_back(random.below(1000));
    cos.insert(cos.end(), table.cos(p), table.cos(p) + 5);
    sin.insert(sin.end(), table.sin(p), table.sin(p) + 5);
  }
  const auto by_position = make_layer<Plain>(shape, table);
  const auto by_rows = make_layer<Plain>(shape, ls::RopeTable<float>(rows_of(std::as_const(cos), 0, tokens, 5),
                                                                     rows_of(std::as_const(sin), 0, tokens, 5)));
  const auto expected = full(by_position, input(), {.positions = row_view(positions, 0, tokens)});
  expect_same_outputs(by_rows, expected, full(by_rows, input()));
  expect_same_outputs(by_rows, expected, run(by_rows, input(), random_plan(tokens, 6)));
}

// The caller's memory is filled with a token's row just before the token is fed.
TEST(GivenRows, MayComeWithTheirTokens) {
  const ls::RopeTable<float> table({.rotary_dim = 10, .positions = tokens});
  std::vector<float> cos(at(tokens * 5), nan<float>()), sin = cos;
  const auto layer =
      make_layer<Plain>(shape, ls::RopeTable<float>::borrowed(rows_of(std::as_const(cos), 0, tokens, 5),
                                                              rows_of(std::as_const(sin), 0, tokens, 5)));
  const auto by_table = make_layer<Plain>(shape, table);
  const auto written = run(layer, input(), random_plan(tokens, 8), {}, [&](const auto& cache) {
    for (Index p = cache.length(); p < tokens; ++p) {
      std::copy_n(table.cos(p), 5, &cos[at(5 * p)]);
      std::copy_n(table.sin(p), 5, &sin[at(5 * p)]);
    }
  });
  expect_same_outcome(layer, run(by_table, input(), {tokens}), written);
}

/// Text, an image of 7 x 5 patches, text again: as Qwen2-VL numbers them.
std::vector<Index> text_image_text(Index before) {
  std::vector<Index> triples;
  for (Index p = 0; p < before; ++p) triples.insert(triples.end(), {p, p, p});
  for (Index row = 0; row < 7; ++row)
    for (Index column = 0; column < 5; ++column) triples.insert(triples.end(), {before, before + row, before + column});
  for (Index p = before + 7; static_cast<Index>(triples.size()) < 3 * tokens; ++p)
    triples.insert(triples.end(), {p, p, p});
  return triples;
}
ls::View<const Index, 2> triples_view(const std::vector<Index>& triples) {
  return ls::View<const Index, 2>::contiguous(triples.data(), {static_cast<Index>(triples.size()) / 3, 3});
}
Multimodal multimodal(const std::vector<Index>& triples, Index positions = 1000) {
  return make_layer<Multimodal>(shape, MultimodalRope(ls::RopeTable<float>({.rotary_dim = 10, .positions = positions}),
                                                      {1, 2, 2}, triples_view(triples)));
}

TEST(MultimodalPositions, OfTextHaveTheBitsOfRope) {
  std::vector<Index> triples;
  for (Index p = 0; p < tokens; ++p) triples.insert(triples.end(), {p, p, p});
  const auto layer = multimodal(triples);
  const auto plain = scaled(ls::Unscaled{});
  expect_same_outcome(plain, run(plain, input(), {tokens}), run(layer, input(), {tokens}));
  expect_same_outcome(plain, run(plain, input(), {tokens}), run(layer, input(), steps(tokens, 1)));
}

TEST(MultimodalPositions, DecodeWithTheBitsOfTheFullForward) {
  const auto triples = text_image_text(100);
  expect_bits_of_one_pass(multimodal(triples), "an image from token 100 on");
}

TEST(MultimodalPositions, AreTheReferences) {
  const auto triples = text_image_text(30);
  const auto result = full(multimodal(triples), input());
  const auto w = Weights<float>(shape).reference();
  const auto rotated = [&](const reference::Values& weight, const reference::Values& bias, Index heads) {
    auto rows = reference::project(reference::widen(input()), weight, bias, hidden, heads * 10);
    for (Index token = 0; token < tokens; ++token)
      for (Index head = 0; head < heads; ++head)
        for (Index i = 0; i < 5; ++i) {
          const Index axis = i < 1 ? 0 : i < 3 ? 1 : 2;
          const double angle =
              static_cast<double>(triples[at(3 * token + axis)]) * std::pow(10000.0, -static_cast<double>(i) / 5);
          double& a = rows[at((token * heads + head) * 10 + i)];
          double& b = rows[at((token * heads + head) * 10 + i + 5)];
          const double turned = a * std::cos(angle) - b * std::sin(angle);
          b = a * std::sin(angle) + b * std::cos(angle);
          a = turned;
        }
    return rows;
  };
  reference::Problem problem{4, 2, 10, 10, tokens, tokens};
  problem.visible = reference::causal();
  const auto attention =
      reference::attend(problem, rotated(w.query, w.query_bias, 4), rotated(w.key, w.key_bias, 2),
                        reference::project(reference::widen(input()), w.value, w.value_bias, hidden, 20));
  const auto y = reference::project(attention.context, w.output, w.output_bias, 40, hidden);
  EXPECT_LE(largest_difference(y, result.y), 8 * 0x1p-24 * static_cast<double>(hidden + 10 + tokens));
  EXPECT_GT(largest_difference(full(scaled(ls::Unscaled{}), input()).y, result.y), 1e-3);
}

// Two sequences with images at other places share one list; each token's row is named.
TEST(MultimodalPositions, OfABatchComeFromOneList) {
  auto both = text_image_text(100);
  const auto other = text_image_text(3);
  both.insert(both.end(), other.begin(), other.end());
  const auto shared = multimodal(both);
  std::vector<Index> rows_named;
  for (Index i = 0; i < 2 * tokens; ++i) rows_named.push_back(i);
  std::vector<float> x = input(), y(2 * x.size());
  x.insert(x.end(), input().begin(), input().end());
  shared.forward(ls::View<const float, 3>::contiguous(x.data(), {2, tokens, hidden}),
                 ls::View<float, 3>::contiguous(y.data(), {2, tokens, hidden}),
                 {.positions = ls::View<const Index, 2>::contiguous(rows_named.data(), {2, tokens})});
  EXPECT_TRUE(same_bits(full(multimodal(text_image_text(100)), input()).y, part(y, 0, tokens * hidden), hidden));
  EXPECT_TRUE(same_bits(full(multimodal(other), input()).y, part(y, tokens * hidden, tokens * hidden), hidden));
}

TEST(MultimodalPositions, OutsideTheTableOrTheListAreRefusedBeforeAnythingIsWritten) {
  std::vector<Index> triples{0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4};
  const auto layer = multimodal(triples, 10);
  auto cache = layer.make_cache(20);
  std::vector<float> y(at(6 * hidden), 7);
  const auto before = y;
  const auto outcome = [&](Index rows, const Multimodal::Options& options) {
    return std::string(
        layer.check(rows_of(input(), 0, rows, hidden), cache, rows_of(y, 0, rows, hidden), options).message());
  };
  const auto expect_refused = [&](Index rows, const Multimodal::Options& options = {}) {
    EXPECT_THROW(layer.forward(rows_of(input(), 0, rows, hidden), cache, rows_of(y, 0, rows, hidden), options),
                 std::invalid_argument);
    EXPECT_EQ(cache.length(), 0);
    EXPECT_EQ(y, before);
  };
  EXPECT_EQ(outcome(5, {}), "");
  expect_refused(6);  // the list has 5 rows
  triples[at(3 * 2 + 1)] = 10;
  EXPECT_EQ(outcome(2, {}), "");
  EXPECT_EQ(outcome(3, {}), "lockstep: positions: given 10 on axis 1 of row 2, allowed 0 to 9");
  expect_refused(3);
  const std::vector<Index> named{4, 2};
  EXPECT_EQ(outcome(2, {.positions = row_view(named, 0, 2)}),
            "lockstep: positions: given 10 on axis 1 of row 2, allowed 0 to 9");
  expect_refused(2, {.positions = row_view(named, 0, 2)});
  triples[at(3 * 2 + 1)] = -1;
  expect_refused(5);
  triples[at(3 * 2 + 1)] = 9;
  EXPECT_EQ(outcome(5, {}), "");
}

}  // namespace
