// attend() gives a row the same bits whatever stands around it: chunks, batch, capacity, strides, order of plain
// memory, garbage.
#include "attend/problem.hpp"

namespace {

using namespace fixture;

template <class Case>
class AttendBits : public ::testing::Test {
 protected:
  using S = typename Case::Element;
  using C = ls::compute_t<S>;
  static constexpr Sizes sizes{.q_len = 70, .kv_len = 330, .heads = 6, .kv_heads = 2, .head_dim = 5, .v_head_dim = 18};
  Problem<S> problem = Problem<S>(sizes);
  Attended<C> expected = problem.template attend<typename Case::Kernel>(problem.cache());
};
using Cases = Cross<Kernels, List<float, Eigen::half>>;
TYPED_TEST_SUITE(AttendBits, Cases, CaseName);

TYPED_TEST(AttendBits, OfARowAreThoseOfTheRowAlone) {
  using Kernel = typename TypeParam::Kernel;
  const Sizes& s = this->sizes;
  const Index width = s.heads * s.head_dim, out = s.heads * s.value_dim();
  for (Index row = 0; row < s.q_len; ++row) {
    Problem<typename TypeParam::Element> alone = this->problem;
    alone.sizes.q_len = 1;
    alone.q = part(this->problem.q, row * width, width);
    const auto a = alone.template attend<Kernel>(this->problem.cache(), {.offset = s.kv_len - s.q_len + row});
    ASSERT_TRUE(same_bits(part(this->expected.context, row * out, out), a.context, s.value_dim())) << "row " << row;
    for (Index h = 0; h < s.heads; ++h) ASSERT_EQ(this->expected.lse[at(h * s.q_len + row)], a.lse[at(h)]);
  }
}

TYPED_TEST(AttendBits, DoNotDependOnCapacityOrWhatLiesBeyondTheKeys) {
  using Number = typename TypeParam::Element;
  for (const Index spare : {0, 1, 200, 1000})
    for (const Number garbage : {nan<Number>(), infinity<Number>()}) {
      auto cache = this->problem.cache(spare);
      poison(cache, garbage);
      expect_same(this->sizes, this->expected, this->problem.template attend<typename TypeParam::Kernel>(cache));
    }
}

TYPED_TEST(AttendBits, OfPlainMemoryInEitherOrderAreThoseOfTheCache) {
  using Number = typename TypeParam::Element;
  const Sizes& s = this->sizes;
  const auto turned = [&](const std::vector<Number>& heads_first, Index dim, Index step) {
    std::vector<Number> result(at(s.kv_len * s.kv_heads * step), nan<Number>());
    for (Index t = 0; t < s.kv_len; ++t)
      for (Index g = 0; g < s.kv_heads; ++g)
        for (Index d = 0; d < dim; ++d)
          result[at((t * s.kv_heads + g) * step + d)] = heads_first[at((g * s.kv_len + t) * dim + d)];
    return result;
  };
  const auto k = turned(this->problem.k, s.head_dim, s.head_dim + 3),
             v = turned(this->problem.v, s.v_head_dim, s.v_head_dim);
  const ls::PlainKeyValues<Number> by_token{
      {k.data(), {s.kv_len, s.kv_heads, s.head_dim}, {s.kv_heads * (s.head_dim + 3), s.head_dim + 3, 1}},
      ls::View<const Number, 3>::contiguous(v.data(), {s.kv_len, s.kv_heads, s.v_head_dim})};
  const ls::PlainKeyValues<Number> by_head{this->problem.keys(), this->problem.values(), ls::Order::head_token_dim};
  expect_same(s, this->expected, this->problem.template attend<typename TypeParam::Kernel>(by_token));
  expect_same(s, this->expected, this->problem.template attend<typename TypeParam::Kernel>(by_head));
}

TYPED_TEST(AttendBits, OfStridedQueriesAndContextAreThoseOfContiguousOnes) {
  using Compute = typename TestFixture::C;
  const Sizes& s = this->sizes;
  const Index q_step = s.heads * s.head_dim + 11, out_step = 2 * s.heads * (s.v_head_dim + 1);
  std::vector<Compute> q(at(s.q_len * q_step), nan<Compute>()), context(at(s.q_len * out_step), 7),
      tight(this->expected.context.size());
  const ls::View<Compute, 3> q_view(q.data() + 4, {s.q_len, s.heads, s.head_dim}, {q_step, s.head_dim, 1});
  const ls::View<Compute, 3> out_view(context.data(), {s.q_len, s.heads, s.v_head_dim},
                                      {out_step, 2 * (s.v_head_dim + 1), 2});
  for (Index i = 0; i < s.q_len; ++i)
    for (Index h = 0; h < s.heads; ++h)
      for (Index d = 0; d < s.head_dim; ++d) q_view(i, h, d) = this->problem.query()(i, h, d);
  ls::attend<typename TypeParam::Kernel>(q_view, this->problem.cache(), out_view);
  Index canaries = 0;
  for (const Compute value : context) canaries += value == 7 ? 1 : 0;
  EXPECT_EQ(canaries, s.q_len * (out_step - s.heads * s.v_head_dim));
  for (Index i = 0; i < s.q_len; ++i)
    for (Index h = 0; h < s.heads; ++h)
      for (Index d = 0; d < s.v_head_dim; ++d) tight[at((i * s.heads + h) * s.v_head_dim + d)] = out_view(i, h, d);
  EXPECT_TRUE(same_bits(this->expected.context, tight, s.v_head_dim));
}

TYPED_TEST(AttendBits, OfASequenceInABatchAreThoseOfItAlone) {
  using Number = typename TypeParam::Element;
  using Compute = typename TestFixture::C;
  const Sizes one{.q_len = 3, .kv_len = 1, .heads = 4, .kv_heads = 2, .head_dim = 6};
  const Index lengths[] = {300, 3, 16, 1030, 256}, batch = 5, longest = 1030, each = 3 * 4 * 6;
  std::vector<Problem<Number>> problems;
  std::vector<ls::ContiguousCache<Number>> caches;
  std::vector<Compute> q, context(at(batch * each)), lse(at(batch * 12)),
      weights(at(batch * 12 * longest), nan<Compute>());
  for (const Index length : lengths) {
    Sizes s = one;
    s.kv_len = length;
    problems.emplace_back(s, static_cast<std::uint64_t>(length));
    caches.push_back(problems.back().cache(length % 7));
    q.insert(q.end(), problems.back().q.begin(), problems.back().q.end());
  }
  ls::attend<typename TypeParam::Kernel>(
      ls::View<const Compute, 4>::contiguous(q.data(), {batch, 3, 4, 6}), caches,
      ls::View<Compute, 4>::contiguous(context.data(), {batch, 3, 4, 6}),
      {.weights = ls::View<Compute, 4>::contiguous(weights.data(), {batch, 4, 3, longest}),
       .lse = ls::View<Compute, 3>::contiguous(lse.data(), {batch, 4, 3})});
  for (Index b = 0; b < batch; ++b) {
    const auto alone = problems[at(b)].template attend<typename TypeParam::Kernel>(caches[at(b)]);
    EXPECT_TRUE(same_bits(alone.context, part(context, b * each, each), 24));
    EXPECT_TRUE(same_bits(alone.lse, part(lse, b * 12, 12), 3));
    for (Index row = 0; row < 12; ++row) {
      auto padded = part(alone.weights, row * lengths[b], lengths[b]);
      padded.resize(at(longest));
      EXPECT_TRUE(same_bits(padded, part(weights, (b * 12 + row) * longest, longest), longest));
    }
  }
}

TYPED_TEST(AttendBits, DoNotDependOnWhoseWorkspaceItIs) {
  using Kernel = typename TypeParam::Kernel;
  const auto cache = this->problem.cache();
  // Weights and log-sum-exp take no workspace of their own.
  const Index bytes = ls::attend_workspace_bytes<Kernel>(this->problem.query(), cache);
  std::vector<unsigned char> memory(at(bytes + 1), 0xFF);
  ls::Workspace workspace(memory.data() + 1, bytes), small(memory.data(), bytes - 1), growing;
  for (int i = 0; i < 2; ++i) {
    expect_same(this->sizes, this->expected, this->problem.template attend<Kernel>(cache, {.workspace = &workspace}));
    expect_same(this->sizes, this->expected, this->problem.template attend<Kernel>(cache, {.workspace = &growing}));
  }
  EXPECT_THROW(this->problem.template attend<Kernel>(cache, {.workspace = &small}), std::length_error);
}

}  // namespace
