// Positions, dropouts and weight formats of a user: each offers what its concept asks and nothing more.
#include "attention/archetype.hpp"

namespace {

using namespace fixture;
using namespace fixture::archetype;

/// A position: quarter turns of the first two numbers.
class QuarterTurns {
 public:
  static constexpr ls::PolicyKind policy_kind = ls::PolicyKind::position;
  explicit QuarterTurns(Index positions) : positions_(positions) {}
  void rotate(float* row, Index position) const noexcept {
    for (Index turn = 0; turn < position % 4; ++turn) {
      const float turned = -row[1];
      row[1] = row[0];
      row[0] = turned;
    }
  }
  Index rotary_dim() const noexcept { return 2; }
  Index positions() const noexcept { return positions_; }

 private:
  Index positions_;
};

/// A dropout: keys at even distance go.
class EvenDistance {
 public:
  static constexpr ls::PolicyKind policy_kind = ls::PolicyKind::dropout;
  static constexpr bool active = true;
  struct Pattern {
    std::uint32_t stream;
    bool kept(Index, Index query, Index key) const noexcept {
      return (query - key + static_cast<Index>(stream)) % 2 == 0;
    }
    double factor() const noexcept { return 2; }
  };
  explicit EvenDistance(int) {}
  Pattern bind(std::uint32_t stream) const noexcept { return {stream}; }
};

struct HalfWeights {
  static constexpr ls::PolicyKind policy_kind = ls::PolicyKind::weights;
  using Storage = Eigen::half;
};

template <class Case>
class MoreArchetypes : public WithArchetype<Case> {};
TYPED_TEST_SUITE(MoreArchetypes, FloatCases, CaseName);

TYPED_TEST(MoreArchetypes, OfAPositionServe) {
  using Layer = typename TestFixture::template LayerOf<QuarterTurns>;
  const auto layer = make_layer<Layer>(this->shape, QuarterTurns(tokens));
  const auto w = Weights<float>(this->shape).reference();
  std::vector<Index> positions;
  for (Index i = 0; i < tokens; ++i) positions.push_back(i % 4);
  const auto turned = [&](const reference::Values& weight, const reference::Values& bias, Index heads) {
    // A rotary base of 1 and a step of a quarter turn: positions times pi/2, written out as swaps.
    auto rows = reference::project(reference::widen(this->x), weight, bias, hidden, heads * 8);
    for (Index t = 0; t < tokens; ++t)
      for (Index h = 0; h < heads; ++h)
        for (Index turn = 0; turn < positions[at(t)]; ++turn) {
          double& a = rows[at((t * heads + h) * 8)];
          double& b = rows[at((t * heads + h) * 8 + 1)];
          std::swap(a, b);
          a = -a;
        }
    return rows;
  };
  const auto attention =
      reference::attend(this->problem(this->shape), turned(w.query, w.query_bias, 4), turned(w.key, w.key_bias, 2),
                        reference::project(reference::widen(this->x), w.value, w.value_bias, hidden, 16));
  this->expect_right(layer, reference::project(attention.context, w.output, w.output_bias, 32, hidden));
  auto cache = layer.make_cache(tokens + 1);
  std::vector<float> more(at((tokens + 1) * hidden)), y(more.size());
  EXPECT_THROW(layer.forward(rows_of(more, 0, tokens + 1, hidden), cache, rows_of(y, 0, tokens + 1, hidden)),
               std::invalid_argument);
}

TYPED_TEST(MoreArchetypes, OfADropoutServe) {
  using Layer = typename TestFixture::template LayerOf<EvenDistance>;
  const auto layer = make_layer<Layer>(this->shape, EvenDistance(0));
  const typename Layer::Options training{.mode = ls::Mode::training};
  auto problem = this->problem(this->shape);
  problem.factor = [](Index, Index row, Index key) { return (row - key) % 2 == 0 ? 2.0 : 0.0; };
  const auto one_pass = run(layer, this->x, {tokens}, training);
  EXPECT_LE(largest_difference(this->expected(this->shape, problem, this->x), one_pass.y), 2 * tolerance);
  expect_same_outcome(layer, one_pass, run(layer, this->x, random_plan(tokens, 13), training));
}

TYPED_TEST(MoreArchetypes, OfAWeightFormatHaveTheBitsOfWeightsRoundedBefore) {
  const auto halves = make_layer<typename TestFixture::template LayerOf<HalfWeights>>(this->shape);
  Weights<float> rounded(this->shape);
  for (auto* matrix : {&rounded.query, &rounded.key, &rounded.value, &rounded.output})
    for (float& weight : *matrix) weight = ls::widen(ls::narrow<Eigen::half>(weight));
  const typename TestFixture::template LayerOf<> layer(this->shape.layer(), rounded.views());
  expect_same_outcome(layer, run(layer, this->x, {tokens}), run(halves, this->x, {tokens}));
}

}  // namespace
