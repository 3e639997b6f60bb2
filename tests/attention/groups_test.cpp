// Multi-head, grouped-query and multi-query layers decode with the bits of one pass.
#include "fixture.hpp"

namespace {

using namespace fixture;

template <class Case>
class Groups : public ::testing::Test {
 protected:
  using T = typename Case::Element;
  using Layer = ls::Attention<T, ls::Dynamic, ls::Dynamic, ls::Rope<ls::Interleaved>, typename Case::Kernel>;

  static void decode_with_the_bits_of_one_pass(const Shape& shape, Index tokens) {
    SCOPED_TRACE(shape);
    const auto layer = make_layer<Layer>(shape, rope<ls::compute_t<T>>(shape.head_dim));
    const auto x = numbers<T>(tokens * layer.hidden(), 21);
    const auto one_pass = run(layer, x, {tokens});
    expect_same_outcome(layer, one_pass, run(layer, x, steps(tokens, 1)));
    expect_same_outcome(layer, one_pass, run(layer, x, random_plan(tokens, 22)));
    expect_same_outputs(layer, one_pass, full(layer, x));
  }
};
using Cases = Cross<Kernels, List<double, Eigen::bfloat16>>;
TYPED_TEST_SUITE(Groups, Cases, CaseName);

TYPED_TEST(Groups, OfEverySizeKeepTheBits) {
  for (const auto& [heads, kv_heads] :
       {std::pair<Index, Index>{1, 1}, {4, 4}, {4, 2}, {6, 2}, {7, 1}, {14, 2}, {16, 2}, {5, 1}})
    this->decode_with_the_bits_of_one_pass({.hidden = 12, .heads = heads, .kv_heads = kv_heads, .head_dim = 6}, 67);
}

// The projections' inner index runs over several blocks here, with a rest.
TYPED_TEST(Groups, OfAWideLayerKeepTheBits) {
  for (const Index hidden : {255, 256, 257, 600})
    this->decode_with_the_bits_of_one_pass({.hidden = hidden, .heads = 2, .kv_heads = 2, .head_dim = 4}, 19);
}

}  // namespace
