// Faults that other attention code had in its masks, held against attend() by ramps (the mean of what was seen) and
// poison.
#include <lockstep/kernel/tiled.hpp>

#include "attend/problem.hpp"

namespace {

using namespace fixture;

template <class Case>
class MaskReports : public ::testing::Test {};
using Cases = Cross<List<ls::Specification, ls::Materialized, ls::Tiled>, List<float>>;
TYPED_TEST_SUITE(MaskReports, Cases, CaseName);

/// Queries and keys of zero over values 0, 1, 2, ...: each output is the mean of the keys seen.
Problem<float> ramp(Index q_len, Index kv_len) {
  Problem<float> problem({.q_len = q_len, .kv_len = kv_len, .heads = 1, .kv_heads = 1, .head_dim = 1});
  std::fill(problem.q.begin(), problem.q.end(), 0.0F);
  std::fill(problem.k.begin(), problem.k.end(), 0.0F);
  for (Index t = 0; t < kv_len; ++t) problem.v[at(t)] = static_cast<float>(t);
  return problem;
}

/// Flags [q_len, kv_len].
struct Table {
  Index rows, keys;
  std::unique_ptr<bool[]> flags = std::make_unique<bool[]>(at(rows * keys));
  bool& operator()(Index row, Index key) { return flags[at(row * keys + key)]; }
  ls::BooleanMask mask() const {
    return ls::BooleanMask(ls::View<const bool, 2>::contiguous(flags.get(), {rows, keys}));
  }
};

template <class Kernel, class Mask>
std::vector<float> means(const Problem<float>& problem, const Mask& mask) {
  return problem.template attend<Kernel, Mask>(problem.cache(), {.mask = mask}).context;
}

// ml-explore/mlx-lm#390, huggingface/transformers#39408, microsoft/onnxruntime#25927, vllm-project/vllm#3385: a window
// of 128 attended 129 keys.
TYPED_TEST(MaskReports, AWindowCountsTheQuerysOwnKey) {
  const std::vector<float> expected{0, 0.5F, 1, 1.5F, 2.5F, 3.5F, 4.5F, 5.5F, 6.5F, 7.5F};
  EXPECT_EQ((means<typename TypeParam::Kernel>(ramp(10, 10), ls::SlidingWindow{4})), expected);
  EXPECT_EQ((means<typename TypeParam::Kernel>(ramp(201, 201), ls::SlidingWindow{128})[200]), 136.5F);
  for (const Index window : {1, 2, 15, 16, 17, 128, 255, 256, 257, 1023, 1024, 1025})
    for (const Index kv_len : {1, 16, 17, 256, 257, 700, 1025, 1500}) {
      const Index first = kv_len > window ? kv_len - window : 0;
      EXPECT_EQ((means<typename TypeParam::Kernel>(ramp(1, kv_len), ls::SlidingWindow{window})[0]),
                static_cast<float>(first + kv_len - 1) / 2)
          << "window " << window << " of " << kv_len;
    }
}

// PaddlePaddle/FastDeploy#3514, sgl-project/sglang-jax#1611: key tiles that lie wholly under the diagonal skipped the
// mask, so that draft tokens saw their siblings.
TYPED_TEST(MaskReports, TilesUnderTheDiagonalAreMaskedToo) {
  Table small{3, 5};
  for (Index row = 0; row < 3; ++row) small(row, 0) = small(row, 1) = small(row, 2 + row) = true;
  small(1, 2) = true;  // the second node is the child of the first, the third its sibling
  const auto nodes = means<typename TypeParam::Kernel>(ramp(3, 5), ls::Causal{} & small.mask());
  EXPECT_EQ(nodes[0], 1.0F);
  EXPECT_EQ(nodes[1], 1.5F);
  EXPECT_FLOAT_EQ(nodes[2], 5.0F / 3);
  for (const Index context : {64, 300}) {
    const Index siblings = 2 * context + 2, keys = context + siblings;
    Table large{siblings, keys};
    for (Index row = 0; row < siblings; ++row)
      for (Index key = 0; key < keys; ++key) large(row, key) = key < context || key == context + row;
    const auto result = means<typename TypeParam::Kernel>(ramp(siblings, keys), ls::Causal{} & large.mask());
    for (Index row = 0; row < siblings; ++row)
      EXPECT_FLOAT_EQ(result[at(row)], static_cast<float>(context * (context - 1) / 2 + context + row) /
                                           static_cast<float>(context + 1));
  }
}

// EricLBuehler/mistral.rs#246, karpathy/nanochat#452, goombalab/hnet#20: the prompt was windowed, the decode step was
// not.
TYPED_TEST(MaskReports, ADecodeStepHasTheWindowOfThePrompt) {
  for (Index kv_len = 7; kv_len <= 10; ++kv_len)
    EXPECT_EQ((means<typename TypeParam::Kernel>(ramp(1, kv_len), ls::SlidingWindow{4})[0]),
              static_cast<float>(kv_len) - 2.5F);
}

// pytorch/pytorch#103963, #103749, #163997: a row without visible keys gave NaN.
TYPED_TEST(MaskReports, ARowOfFalseFlagsGivesZeros) {
  using Kernel = typename TypeParam::Kernel;
  const Problem<float> problem({.q_len = 2, .kv_len = 3, .heads = 1, .kv_heads = 1, .head_dim = 4});
  Table table{2, 3};
  table(0, 0) = table(0, 2) = true;
  std::vector<float> addends{0, -infinity<float>(), 0, -infinity<float>(), -infinity<float>(), -infinity<float>()};
  const auto flagged = problem.template attend<Kernel, ls::BooleanMask>(problem.cache(), {.mask = table.mask()});
  const auto added = problem.template attend<Kernel, ls::AdditiveMask<>>(
      problem.cache(), {.mask = ls::AdditiveMask<>(ls::View<const float, 2>::contiguous(addends.data(), {2, 3}))});
  expect_same(problem.sizes, flagged, added);
  EXPECT_TRUE(same_bits(std::vector<float>(4), part(flagged.context, 4, 4), 4));
  EXPECT_EQ(flagged.lse[1], -infinity<float>());
  Problem<float> first = problem;
  first.sizes.q_len = 1;
  first.q.resize(4);
  Table row{1, 3};
  row(0, 0) = row(0, 2) = true;
  const auto alone = first.template attend<Kernel, ls::BooleanMask>(first.cache(), {.mask = row.mask()});
  EXPECT_TRUE(same_bits(alone.context, part(flagged.context, 0, 4), 4));
  EXPECT_EQ(alone.lse[0], flagged.lse[0]);
}

// NVIDIA/cudnn-frontend#624, sgl-project/sglang#32480: 0 NaN is NaN, and so is NaN minus infinity.
TYPED_TEST(MaskReports, NotANumberLeavesTheWindowWithItsKey) {
  Problem<float> problem = ramp(4, 4);
  problem.k[0] = problem.v[0] = nan<float>();
  const auto result = means<typename TypeParam::Kernel>(problem, ls::SlidingWindow{2});
  EXPECT_TRUE(std::isnan(result[0]) && std::isnan(result[1]));
  EXPECT_EQ(result[2], 1.5F);
  EXPECT_EQ(result[3], 2.5F);
  const std::vector<float> addends{-infinity<float>(), 0, 0, -infinity<float>()};
  problem.k[3] = problem.v[3] = infinity<float>();
  for (const float mean :
       means<typename TypeParam::Kernel>(problem, ls::AdditiveMask<>(ls::View<const float, 1>(addends))))
    EXPECT_EQ(mean, 1.5F);
}

/// Two keys, the second one hidden by flags and by an addend.
template <class Kernel, class Logits>
void expect_first_of_two(float q, std::vector<float> k, const Logits& logits) {
  Problem<float> problem({.q_len = 1, .kv_len = 2, .heads = 1, .kv_heads = 1, .head_dim = 1});
  problem.q = {q};
  problem.k = std::move(k);
  problem.v = {1, 100};
  Table table{1, 2};
  table(0, 0) = true;
  const std::vector<float> addends{0, -infinity<float>()};
  const auto flagged = problem.template attend<Kernel, ls::BooleanMask, Logits>(
      problem.cache(), {.mask = table.mask(), .logits = logits});
  const auto added = problem.template attend<Kernel, ls::AdditiveMask<>, Logits>(
      problem.cache(), {.mask = ls::AdditiveMask<>(ls::View<const float, 1>(addends)), .logits = logits});
  EXPECT_EQ(flagged.context[0], 1.0F) << q;
  EXPECT_EQ(added.context[0], 1.0F) << q;
}

// ohdearquant/lattice#361, flashinfer-ai/flashinfer#4401: a very negative number stood in for minus infinity.
TYPED_TEST(MaskReports, NoScoreIsLowerThanAHiddenOne) {
  for (const float q : {-20000.0F, -1e9F, -1e30F, -3e38F})
    expect_first_of_two<typename TypeParam::Kernel>(q, {1, 0}, ls::Scaled{1});
}

/// A user's soft cap at 2.
struct CapAtTwo {
  static constexpr ls::PolicyKind policy_kind = ls::PolicyKind::logits;
  double scale(Index) const noexcept { return 1; }
  float apply(float logit, ls::QueryRow, Index) const noexcept { return 2 * std::tanh(logit / 2); }
  void apply(float* block, ls::QueryRow q, ls::KeyRange keys) const noexcept {
    for (Index i = 0; i < keys.size(); ++i) block[i] = apply(block[i], q, keys.first + i);
  }
};

// onnx/onnx#7865, #7867, microsoft/onnxruntime#28379: a cap after the mask made minus infinity a score like others
// (12.8 here).
TYPED_TEST(MaskReports, ACapComesBeforeTheMask) {
  expect_first_of_two<typename TypeParam::Kernel>(0.0F, {1, 1}, CapAtTwo{});
}

TYPED_TEST(MaskReports, AddendsComeAfterTheCap) {
  Problem<float> problem({.q_len = 1, .kv_len = 2, .heads = 1, .kv_heads = 1, .head_dim = 1});
  problem.q = {0};
  const std::vector<float> addends{0, 10};
  const auto result = problem.template attend<typename TypeParam::Kernel, ls::AdditiveMask<>, CapAtTwo>(
      problem.cache(), {.mask = ls::AdditiveMask<>(ls::View<const float, 1>(addends))});
  EXPECT_NEAR(result.lse[0], 10.0000454, 2e-6) << "log(1 + e^10); a cap after the mask gives 2.13";
}

}  // namespace
