// A suite for any kernel and element type: a sequence in one pass, in chunks and token by token has the same bits of
// outputs, log-sum-exp and cache.
#pragma once

#include "fixture.hpp"

namespace fixture {

template <class Case>
class Chunking : public ::testing::Test {
 protected:
  using T = typename Case::Element;
  using Layer = ls::Attention<T, ls::Dynamic, ls::Dynamic, ls::Rope<ls::HalfSplit>, typename Case::Kernel>;

  static Layer layer(const Shape& shape) { return make_layer<Layer>(shape, rope<ls::compute_t<T>>(shape.head_dim)); }
};
TYPED_TEST_SUITE_P(Chunking);

TYPED_TEST_P(Chunking, EveryPlanHasTheBitsOfOnePass) {
  const Index tokens = 700;
  const auto layer = this->layer({.hidden = 24, .heads = 4, .kv_heads = 2, .head_dim = 8});
  const auto x = numbers<typename TypeParam::Element>(tokens * layer.hidden(), 11);
  const auto one_pass = run(layer, x, {tokens});
  expect_same_outputs(layer, one_pass, full(layer, x));
  for (const auto& plan : {std::vector<Index>{512, 188},
                           {699, 1},
                           steps(tokens, 1),
                           steps(tokens, 7),
                           {63, 1, 64, 1, 571},
                           random_plan(tokens, 1),
                           random_plan(tokens, 2)}) {
    SCOPED_TRACE(plan_name(plan));
    expect_same_outcome(layer, one_pass, run(layer, x, plan));
  }
}

TYPED_TEST_P(Chunking, LengthsAroundEveryTileHaveTheBitsOfTokenByToken) {
  const auto layer = this->layer({.hidden = 8, .heads = 2, .kv_heads = 1, .head_dim = 4});
  const Index most = 1025;
  const auto all = numbers<typename TypeParam::Element>(most * layer.hidden(), 12);
  const auto longest = run(layer, all, {most});
  for (const Index tokens :
       {0, 1, 2, 3, 5, 7, 13, 15, 16, 17, 31, 63, 64, 65, 127, 255, 256, 257, 509, 1023, 1024, 1025}) {
    SCOPED_TRACE(tokens);
    const auto x = part(all, 0, tokens * layer.hidden());
    const auto one_pass = run(layer, x, {tokens});
    expect_same_outcome(layer, one_pass, run(layer, x, steps(tokens, 1)));
    expect_same_outcome(layer, one_pass, run(layer, x, random_plan(tokens, static_cast<std::uint64_t>(tokens))));
    expect_same_outputs(layer, one_pass, full(layer, x));
    EXPECT_TRUE(same_bits(one_pass.y, part(longest.y, 0, tokens * layer.hidden()), layer.hidden()))
        << "later tokens changed earlier rows";
  }
}

REGISTER_TYPED_TEST_SUITE_P(Chunking, EveryPlanHasTheBitsOfOnePass, LengthsAroundEveryTileHaveTheBitsOfTokenByToken);

}  // namespace fixture
