// Faults that other attention code had, held against attend() by ramps (the mean of what was seen), extremes and
// poison.
#include "attend/problem.hpp"

namespace {

using namespace fixture;

/// All queries and keys zero, so that every output is the mean of the values seen; value t is t.
template <class S>
Problem<S> ramp(const Sizes& sizes) {
  Problem<S> problem(sizes);
  for (auto& q : problem.q) q = 0;
  for (S& k : problem.k) k = number<S>(0);
  for (Index g = 0; g < sizes.kv_heads; ++g)
    for (Index t = 0; t < sizes.kv_len; ++t)
      for (Index d = 0; d < sizes.value_dim(); ++d)
        problem.v[at((g * sizes.kv_len + t) * sizes.value_dim() + d)] = number<S>(static_cast<double>(t));
  return problem;
}

template <class Case>
class AttendReports : public ::testing::Test {};
using Cases = Cross<Kernels, List<float, double>>;
TYPED_TEST_SUITE(AttendReports, Cases, CaseName);

// hyprstream/hyprstream#1521: two queries over a filled cache saw two keys only, as if the cache were empty.
TYPED_TEST(AttendReports, QueriesAreAnchoredAtTheEndOfTheCache) {
  using Number = typename TypeParam::Element;
  for (const Index cached : {0, 6, 15, 16, 255, 1023, 1024})
    for (const Index queries : {1, 2, 40}) {
      const Sizes s{.q_len = queries, .kv_len = cached + queries, .heads = 2, .kv_heads = 1, .head_dim = 3};
      const auto problem = ramp<Number>(s);
      const auto result = problem.template attend<typename TypeParam::Kernel>(problem.cache());
      for (Index i = 0; i < queries; ++i)
        for (Index n = 0; n < 6; ++n)
          ASSERT_EQ(static_cast<double>(result.context[at(i * 6 + n)]), static_cast<double>(cached + i) / 2)
              << cached << " cached, row " << i;
    }
}

// pytorch/executorch#9105: only the last key block was masked, though a chunk may cross two partial ones.
TYPED_TEST(AttendReports, ChunksAcrossTwoPartialTilesSeeNoLaterKey) {
  using Number = typename TypeParam::Element;
  for (const Index tile : {8, 16, 32, 64, 128, 256, 512}) {
    const auto problem =
        ramp<Number>({.q_len = tile + 6, .kv_len = 2 * tile + 3, .heads = 1, .kv_heads = 1, .head_dim = 1});
    const auto result = problem.template attend<typename TypeParam::Kernel>(problem.cache());
    for (Index i = 0; i < tile + 6; ++i)
      ASSERT_EQ(static_cast<double>(result.context[at(i)]), static_cast<double>(tile - 3 + i) / 2)
          << "tile " << tile << ", row " << i;
  }
}

/// One query of size 1 over two keys.
template <class Kernel, class Number>
Attended<Number> over_two_keys(Number q, std::vector<Number> k, std::vector<Number> v, bool second_hidden) {
  Problem<Number> problem({.q_len = 1, .kv_len = 2, .heads = 1, .kv_heads = 1, .head_dim = 1});
  problem.q = {q};
  problem.k = std::move(k);
  problem.v = std::move(v);
  Flags flags(1, 2);
  flags(0, 1) = !second_hidden;
  return problem.template attend<Kernel, ls::KeyPadding>(problem.cache(),
                                                         {.mask = flags.mask(), .logits = {.given = 1}});
}

// ohdearquant/lattice#361, flashinfer-ai/flashinfer#4401: a very negative number stood in for minus infinity, and real
// scores went below it.
TYPED_TEST(AttendReports, AHiddenKeyNeverWinsHoweverLowTheOthersAre) {
  using Number = typename TypeParam::Element;
  for (const double q : {-20000.0, -1e9, -1e30, -3e38}) {
    const auto result =
        over_two_keys<typename TypeParam::Kernel, Number>(static_cast<Number>(q), {1, 0}, {1, 100}, true);
    EXPECT_EQ(result.context[0], Number(1)) << q;
    EXPECT_EQ(result.lse[0], static_cast<Number>(q)) << q;
    EXPECT_EQ(result.weights, (std::vector<Number>{1, 0})) << q;
  }
}

// pytorch/executorch#18407: exponentials without the maximum subtracted overflow from 88.72 on.
TYPED_TEST(AttendReports, LargeScoresDoNotOverflow) {
  using Number = typename TypeParam::Element;
  for (const double q : {151.0, -151.0, 800.0, 1e30, -1e30, 3e38}) {
    const auto result =
        over_two_keys<typename TypeParam::Kernel, Number>(static_cast<Number>(q), {1, 1}, {2, 4}, false);
    EXPECT_EQ(result.context[0], Number(3)) << q;
    EXPECT_NEAR(static_cast<double>(result.lse[0]), static_cast<double>(static_cast<Number>(q)) + std::log(2.0),
                std::abs(q) * std::numeric_limits<Number>::epsilon())
        << q;
  }
}

TYPED_TEST(AttendReports, RisingAndFallingScoresAreTheReferences) {
  using Number = typename TypeParam::Element;
  for (const Index keys : {21, 600, 2100})
    for (const bool rising : {true, false}) {
      Problem<Number> problem({.q_len = 1, .kv_len = keys, .heads = 1, .kv_heads = 1, .head_dim = 1});
      problem.q = {1};
      for (Index t = 0; t < keys; ++t)
        problem.k[at(t)] = static_cast<Number>(1000.0 / static_cast<double>(keys - 1) *
                                               static_cast<double>(rising ? t : keys - 1 - t));
      const auto result = problem.template attend<typename TypeParam::Kernel>(problem.cache());
      const auto expected = problem.expected();
      EXPECT_LE(largest_difference(expected.context, result.context), problem.tolerance());
      EXPECT_LE(largest_difference(expected.lse, result.lse), 1000 * std::numeric_limits<Number>::epsilon());
    }
}

// microsoft/onnxruntime#20521, #31726: one length was used for a whole batch, so that padding was read.
TYPED_TEST(AttendReports, SequencesOfABatchEndAtTheirOwnLengths) {
  using Number = typename TypeParam::Element;
  const std::vector<Index> lengths{5, 1, 3, 257};
  const Index batch = static_cast<Index>(lengths.size());
  for (const Number garbage : {Number(0), nan<Number>(), infinity<Number>()}) {
    std::vector<ls::ContiguousCache<Number>> caches;
    for (const Index length : lengths) {
      caches.push_back(
          ramp<Number>({.q_len = 1, .kv_len = length, .heads = 2, .kv_heads = 1, .head_dim = 3}).cache(300 - length));
      poison(caches.back(), garbage);
    }
    const std::vector<Number> q(at(batch * 6));
    std::vector<Number> context(q.size());
    ls::attend<typename TypeParam::Kernel>(ls::View<const Number, 4>::contiguous(q.data(), {batch, 1, 2, 3}), caches,
                                           ls::View<Number, 4>::contiguous(context.data(), {batch, 1, 2, 3}));
    for (Index b = 0; b < batch; ++b)
      for (Index n = 0; n < 6; ++n)
        EXPECT_EQ(static_cast<double>(context[at(b * 6 + n)]), static_cast<double>(lengths[at(b)] - 1) / 2)
            << "sequence " << b;
  }
}

// onnx/onnx#7274, apple/axlearn#842: query heads paired with the wrong kv heads; four heads over two must read 10, 10,
// 20, 20.
TYPED_TEST(AttendReports, QueryHeadsReadTheirGroupsValues) {
  using Number = typename TypeParam::Element;
  for (const auto& [heads, kv_heads] : {std::pair<Index, Index>{4, 2}, {6, 3}, {6, 2}, {14, 2}, {16, 8}, {5, 1}}) {
    auto problem = ramp<Number>({.q_len = 3, .kv_len = 9, .heads = heads, .kv_heads = kv_heads, .head_dim = 2});
    for (Index g = 0; g < kv_heads; ++g) std::fill_n(problem.v.begin() + g * 18, 18, static_cast<Number>(10 * (g + 1)));
    const auto result = problem.template attend<typename TypeParam::Kernel>(problem.cache());
    for (Index i = 0; i < 3; ++i)
      for (Index h = 0; h < heads; ++h)
        EXPECT_EQ(static_cast<double>(result.context[at((i * heads + h) * 2)]),
                  static_cast<double>(10 * (h / (heads / kv_heads) + 1)))
            << heads << "/" << kv_heads;
  }
}

// vllm-project/vllm#51902, pegainfer-project/pegainfer#613: the order of a sum was chosen from facts of the batch.
// Under values 1e8, 1, -1e8, 1 every other order shows.
TYPED_TEST(AttendReports, MatesNeverChangeTheOrderOfASum) {
  using Number = typename TypeParam::Element;
  const auto sequence = [](Index length, std::uint64_t seed) {
    Problem<Number> problem({.q_len = 1, .kv_len = length, .heads = 4, .kv_heads = 2, .head_dim = 4}, seed);
    const Number values[] = {Number(1e8), 1, Number(-1e8), 1};
    for (std::size_t i = 0; i < problem.v.size(); ++i) problem.v[i] = values[i / 4 % 4];
    return problem;
  };
  const auto subject = sequence(300, 1);
  const auto alone = subject.template attend<typename TypeParam::Kernel>(subject.cache());
  const auto expect_unchanged = [&](const std::vector<Index>& mates) {
    std::vector<ls::ContiguousCache<Number>> caches{subject.cache()};
    for (const Index length : mates) caches.push_back(sequence(length, 2).cache());
    const Index batch = static_cast<Index>(caches.size());
    std::vector<Number> q(at(batch * 16), Number(0.5)), context(q.size());
    std::copy(subject.q.begin(), subject.q.end(), q.begin());
    ls::attend<typename TypeParam::Kernel>(ls::View<const Number, 4>::contiguous(q.data(), {batch, 1, 4, 4}), caches,
                                           ls::View<Number, 4>::contiguous(context.data(), {batch, 1, 4, 4}));
    EXPECT_TRUE(same_bits(alone.context, part(context, 0, 16), 4))
        << mates.size() << " mates, the first of " << mates.front();
  };
  for (const std::size_t mates : {1U, 32U, 33U, 64U}) expect_unchanged(std::vector<Index>(mates, 20));
  expect_unchanged({9});
  expect_unchanged({10});
  expect_unchanged({2000, 1});
}

// Dao-AILab/flash-attention#772: 32-bit offsets overflowed for large strides.
TEST(LargeStrides, AreCountedIn64Bits) {
  const ls::View<float, 3> view(nullptr, {4, 2, 2}, {Index{1} << 30, Index{1} << 33, 1});
  EXPECT_EQ(view.offset(3, 0, 0), 3221225472);
  EXPECT_EQ(view.offset(3, 1, 1), 3221225472 + 8589934592 + 1);
}

// ikawrakow/ik_llama.cpp#1458, pytorch/pytorch#193728: keys and values of different lengths were read past the shorter
// one's end.
TEST(PlainKeyValues, OfDifferentLengthsAreRefused) {
  // Vectors of exactly these sizes, so that an address sanitiser sees any read beyond them.
  const std::vector<float> q(4), five(5 * 4), six(6 * 4);
  std::vector<float> context(4);
  const auto rows = [](const std::vector<float>& v) {
    return ls::View<const float, 3>::contiguous(v.data(), {static_cast<Index>(v.size()) / 4, 1, 4});
  };
  const auto attend = [&](const ls::PlainKeyValues<float>& plain) {
    ls::attend<>(ls::View<const float, 3>::contiguous(q.data(), {1, 1, 4}), plain,
                 ls::View<float, 3>::contiguous(context.data(), {1, 1, 4}));
  };
  EXPECT_THROW(attend({rows(five), rows(six)}), std::invalid_argument);
  EXPECT_THROW(attend({rows(six), rows(five)}), std::invalid_argument);
  EXPECT_NO_THROW(attend({rows(five), rows(five)}));
  ls::ContiguousCache<float> cache({1, 4, 4}, 20);
  EXPECT_THROW(cache.append(rows(five), rows(six)), std::invalid_argument);
  EXPECT_THROW(cache.append(rows(six), rows(five)), std::invalid_argument);
  EXPECT_EQ(cache.length(), 0);
}

}  // namespace
