// What lies in unused slots of a cache, or was computed before, leaves no trace.
#include "fixture.hpp"

namespace {

using namespace fixture;

template <class Case>
class Garbage : public ::testing::Test {
 protected:
  using T = typename Case::Element;
  using Layer = ls::Attention<T, ls::Dynamic, ls::Dynamic, ls::Rope<ls::HalfSplit>, typename Case::Kernel>;

  static Layer layer(const Shape& shape) { return make_layer<Layer>(shape, rope<ls::compute_t<T>>(shape.head_dim)); }
};
using Cases = Cross<Kernels, List<float, Eigen::half>>;
TYPED_TEST_SUITE(Garbage, Cases, CaseName);

TYPED_TEST(Garbage, InUnusedSlotsOfTheCacheLeavesNoTrace) {
  using Number = typename TypeParam::Element;
  for (const Shape& shape : {Shape{.hidden = 6, .heads = 4, .kv_heads = 2, .head_dim = 8},
                             Shape{.hidden = 6, .heads = 3, .kv_heads = 1, .head_dim = 3, .v_head_dim = 17}}) {
    const auto layer = this->layer(shape);
    for (const Index tokens : {1, 15, 17, 255, 257, 300}) {
      SCOPED_TRACE(shape.name() + ", tokens " + std::to_string(tokens));
      const auto x = numbers<Number>(tokens * layer.hidden(), 41);
      const auto clean = run(layer, x, {tokens});
      for (const Number garbage : {nan<Number>(), infinity<Number>()})
        for (const auto& plan : {std::vector<Index>{tokens}, steps(tokens, 13)})
          expect_same_outcome(layer, clean, run(layer, x, plan, {}, [&](auto& cache) { poison(cache, garbage); }));
    }
  }
}

TYPED_TEST(Garbage, OfTruncatedTokensLeavesNoTrace) {
  using Number = typename TypeParam::Element;
  const auto layer = this->layer({.hidden = 6, .heads = 2, .kv_heads = 1, .head_dim = 4});
  const Index hidden = layer.hidden(), tokens = 40;
  const auto x = numbers<Number>(tokens * hidden, 42);
  const auto clean = run(layer, x, {tokens});
  auto cache = layer.make_cache(tokens);
  std::vector<Number> y(x.size());
  layer.forward(rows_of(x, 0, 20, hidden), cache, rows_of(y, 0, 20, hidden));
  const std::vector<Number> wrong(at(20 * hidden), nan<Number>());
  std::vector<Number> ignored(wrong.size());
  layer.forward(rows_of(wrong, 0, 20, hidden), cache, rows_of(ignored, 0, 20, hidden));
  cache.truncate(20);
  layer.forward(rows_of(x, 20, 20, hidden), cache, rows_of(y, 20, 20, hidden));
  EXPECT_TRUE(same_bits(clean.y, y, hidden));
}

TYPED_TEST(Garbage, OfAnEarlierCallLeavesNoTrace) {
  using Number = typename TypeParam::Element;
  const auto layer = this->layer({.hidden = 6, .heads = 2, .kv_heads = 1, .head_dim = 4});
  const auto x = numbers<Number>(50 * layer.hidden(), 43);
  const auto clean = full(layer, x);
  full(layer, std::vector<Number>(at(300 * layer.hidden()), nan<Number>()));
  expect_same_outputs(layer, clean, full(layer, x));
}

TYPED_TEST(Garbage, OfALaterTokenLeavesNoTraceInEarlierRows) {
  using Number = typename TypeParam::Element;
  const auto layer = this->layer({.hidden = 6, .heads = 2, .kv_heads = 1, .head_dim = 4});
  const Index hidden = layer.hidden(), tokens = 70, bad = 33;
  auto x = numbers<Number>(tokens * hidden, 44);
  const auto clean = full(layer, x);
  for (const Number garbage : {nan<Number>(), infinity<Number>()}) {
    x[at(bad * hidden)] = garbage;
    EXPECT_TRUE(same_bits(part(clean.y, 0, bad * hidden), part(full(layer, x).y, 0, bad * hidden), hidden));
  }
}

// Infinities of opposite signs meet in the projections: x86 makes a negative NaN of them, ARM a positive one.
TYPED_TEST(Garbage, ComesOutAsThePositiveQuietNan) {
  using Number = typename TypeParam::Element;
  const auto layer = this->layer({.hidden = 6, .heads = 2, .kv_heads = 1, .head_dim = 4});
  auto x = numbers<Number>(3 * layer.hidden(), 45);
  x[0] = infinity<Number>();
  x[at(layer.hidden())] = number<Number>(-std::numeric_limits<double>::quiet_NaN());
  const auto result = run(layer, x, {3});
  const Number canonical = ls::narrow<Number>(std::numeric_limits<ls::compute_t<Number>>::quiet_NaN());
  for (const auto* stored : {&result.y, &result.keys, &result.values}) {
    Index found = 0;
    for (const Number value : *stored)
      if (!(value == value)) {
        ++found;
        EXPECT_EQ(std::memcmp(&value, &canonical, sizeof(Number)), 0);
      }
    EXPECT_GT(found, 0);
  }
}

}  // namespace
