// Whole layers against the plain double-precision reference.
#include "fixture.hpp"

namespace {

using namespace fixture;

struct Sizes {
  Shape shape;
  Index tokens, rotary_dim;
  friend std::ostream& operator<<(std::ostream& out, const Sizes& s) {
    return out << "q" << s.tokens << "_" << s.shape << "_r" << s.rotary_dim;
  }
};

class LayerAgainstReference : public ::testing::TestWithParam<Sizes> {
 protected:
  /// A stored number keeps this much of its size.
  template <class T>
  static double storage_error() {
    if constexpr (std::is_same_v<T, Eigen::half>)
      return 0x1p-11;
    else if constexpr (std::is_same_v<T, Eigen::bfloat16>)
      return 0x1p-8;
    else
      return 0;
  }

  /// All numbers are of size 1 (fixture::Weights). A chain of n products errs by at most n roundings of its running
  /// sum, which here stays below 4: the chains are hidden, head_dim, tokens and heads x v_head_dim long, one after the
  /// other. Keys, values and y are rounded to storage besides, and an error in a logit becomes a relative one of a
  /// weight.
  template <class T>
  static double tolerance(const Sizes& s) {
    const double eps = std::numeric_limits<ls::compute_t<T>>::epsilon() / 2;
    const double steps =
        static_cast<double>(s.shape.hidden + s.shape.head_dim + s.tokens + s.shape.heads * s.shape.value_dim());
    return 4 * eps * steps + 8 * storage_error<T>();
  }

  template <class T, class Kernel, class Style>
  static void expect_close(reference::Pairing pairing) {
    const Sizes& s = GetParam();
    using Layer = ls::Attention<T, ls::Dynamic, ls::Dynamic, ls::Rope<Style>, Kernel>;
    const Weights<T> weights(s.shape);
    const ls::RopeTable<ls::compute_t<T>> table({.rotary_dim = s.rotary_dim, .base = 500, .positions = 512});
    const Layer layer(s.shape.layer(), weights.views(), table);
    const auto x = numbers<T>(s.tokens * s.shape.hidden, 81);
    const auto result = run(layer, x, steps(s.tokens, 37));

    reference::Layer plain = weights.reference();
    plain.pairing = pairing;
    plain.rotary_dim = s.rotary_dim;
    plain.base = 500;
    const auto expected = reference::forward(plain, reference::widen(x));
    EXPECT_LE(largest_difference(expected.y, result.y), tolerance<T>(s)) << Kernel::name << element_name<T>();
    EXPECT_LE(largest_difference(expected.attention.lse, result.lse), tolerance<T>(s))
        << Kernel::name << element_name<T>();
  }
};

TEST_P(LayerAgainstReference, FloatIsClose) {
  expect_close<float, ls::Specification, ls::HalfSplit>(reference::Pairing::half_split);
  expect_close<float, ls::Materialized, ls::Interleaved>(reference::Pairing::interleaved);
}
TEST_P(LayerAgainstReference, DoubleIsClose) {
  expect_close<double, ls::Specification, ls::Interleaved>(reference::Pairing::interleaved);
}
TEST_P(LayerAgainstReference, HalfIsClose) {
  expect_close<Eigen::half, ls::Specification, ls::HalfSplit>(reference::Pairing::half_split);
}
TEST_P(LayerAgainstReference, Bfloat16IsClose) {
  expect_close<Eigen::bfloat16, ls::Specification, ls::HalfSplit>(reference::Pairing::half_split);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, LayerAgainstReference,
    ::testing::Values(Sizes{{.hidden = 16, .heads = 1, .kv_heads = 1, .head_dim = 2}, 1, 2},
                      Sizes{{.hidden = 20, .heads = 4, .kv_heads = 4, .head_dim = 12}, 17, 12},
                      Sizes{{.hidden = 64, .heads = 4, .kv_heads = 2, .head_dim = 64}, 65, 64},
                      Sizes{{.hidden = 33, .heads = 7, .kv_heads = 1, .head_dim = 8}, 101, 4},
                      Sizes{{.hidden = 300, .heads = 6, .kv_heads = 2, .head_dim = 10, .v_head_dim = 3}, 40, 10},
                      Sizes{{.hidden = 24, .heads = 2, .kv_heads = 1, .head_dim = 80}, 300, 40},
                      Sizes{{.hidden = 48, .heads = 2, .kv_heads = 2, .head_dim = 128}, 31, 128}),
    ::testing::PrintToStringParamName());

}  // namespace
