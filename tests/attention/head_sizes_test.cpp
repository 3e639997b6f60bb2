// Heads of any size, also of values that differ from keys, decode with the bits of one pass.
#include "fixture.hpp"

namespace {

using namespace fixture;

template <class Case>
class HeadSizes : public ::testing::Test {
 protected:
  using T = typename Case::Element;
  using Layer = ls::Attention<T, ls::Dynamic, ls::Dynamic, typename Case::Kernel>;

  static void decode_with_the_bits_of_one_pass(const Shape& shape) {
    SCOPED_TRACE(shape);
    const Index tokens = 37;
    const auto layer = make_layer<Layer>(shape);
    const auto x = numbers<T>(tokens * layer.hidden(), 23);
    const auto one_pass = run(layer, x, {tokens});
    expect_same_outcome(layer, one_pass, run(layer, x, steps(tokens, 1)));
    expect_same_outcome(layer, one_pass, run(layer, x, random_plan(tokens, 24)));
    expect_same_outputs(layer, one_pass, full(layer, x));
  }
};
using Cases = Cross<Kernels, List<float, Eigen::half>>;
TYPED_TEST_SUITE(HeadSizes, Cases, CaseName);

TYPED_TEST(HeadSizes, FromOneTo256KeepTheBits) {
  for (const Index head_dim : {1, 3, 8, 12, 64, 80, 96, 112, 128, 256})
    this->decode_with_the_bits_of_one_pass({.hidden = 10, .heads = 2, .kv_heads = 1, .head_dim = head_dim});
}

TYPED_TEST(HeadSizes, OfValuesMayDifferFromThoseOfKeys) {
  this->decode_with_the_bits_of_one_pass({.hidden = 10, .heads = 4, .kv_heads = 2, .head_dim = 12, .v_head_dim = 5});
  this->decode_with_the_bits_of_one_pass({.hidden = 10, .heads = 4, .kv_heads = 2, .head_dim = 3, .v_head_dim = 40});
}

}  // namespace
