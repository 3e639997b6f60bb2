// Attention over int8 codes: Tiled has Specification's bits, both are right for the numbers that the codes stand for,
// and near attention over float within the stated bound.
#include <lockstep/cache/ring.hpp>
#include <lockstep/plain.hpp>

#include "attend/contract_kernels.hpp"
#include "attend/problem.hpp"

namespace {

using namespace fixture;
using Codes = ls::ContiguousCache<std::int8_t>;

/// Each row sees the `window` keys up to its own.
struct Window {
  static constexpr ls::PolicyKind policy_kind = ls::PolicyKind::mask;
  Index window = 1;
  ls::KeyRange range(ls::QueryRow q, Index kv_len) const noexcept {
    return ls::intersection({q.place - window + 1, q.place + 1}, {0, kv_len});
  }
  ls::Visibility block(ls::QueryRow, ls::KeyRange) const noexcept { return ls::Visibility::all; }
  bool visible(ls::QueryRow q, Index key) const noexcept { return key <= q.place && key > q.place - window; }
  Index keys_needed(ls::QueryRow q) const noexcept { return q.place + 1; }
};
/// A logit that knows its key: tanh-like bends come after the scale of the key.
struct Bent : ls::Scaled {
  template <class C>
  C apply(C logit, ls::QueryRow, Index key) const noexcept {
    return ls::rounded(logit * static_cast<C>(key % 3 == 0 ? 0.5 : 1.0)) - static_cast<C>(key % 5);
  }
  template <class C>
  void apply(C* logit, ls::QueryRow q, ls::KeyRange keys) const noexcept {
    for (Index k = keys.first; k < keys.last; ++k) logit[k - keys.first] = apply(logit[k - keys.first], q, k);
  }
};

Codes codes_of(const Problem<float>& problem, Index spare = 0) {
  const Sizes& s = problem.sizes;
  Codes cache({s.kv_heads, s.head_dim, s.value_dim()}, s.kv_len + spare);
  cache.import(problem.keys(), problem.values());
  return cache;
}
/// The numbers that the codes stand for.
Problem<float> decoded(const Problem<float>& problem) {
  Problem<float> result = problem;
  const Sizes& s = problem.sizes;
  const Codes cache = codes_of(problem);
  cache.export_keys(ls::View<float, 3>::contiguous(result.k.data(), {s.kv_heads, s.kv_len, s.head_dim}));
  cache.export_values(ls::View<float, 3>::contiguous(result.v.data(), {s.kv_heads, s.kv_len, s.value_dim()}));
  return result;
}

const Sizes all_sizes[] = {
    {.q_len = 1, .kv_len = 1, .heads = 1, .kv_heads = 1, .head_dim = 1},
    {.q_len = 1, .kv_len = 300, .heads = 8, .kv_heads = 2, .head_dim = 64},
    {.q_len = 1, .kv_len = 1030, .heads = 8, .kv_heads = 1, .head_dim = 7, .v_head_dim = 33},
    {.q_len = 5, .kv_len = 257, .heads = 3, .kv_heads = 3, .head_dim = 18, .v_head_dim = 5},
    {.q_len = 70, .kv_len = 331, .heads = 6, .kv_heads = 2, .head_dim = 5, .v_head_dim = 18},
    {.q_len = 33, .kv_len = 33, .heads = 2, .kv_heads = 1, .head_dim = 32},
};

/// Scales of places that hold no token may be anything.
void poison_codes(Codes& cache) {
  poison(cache, static_cast<std::int8_t>(-128));
  for (Index g = 0; g < cache.shape().kv_heads; ++g)
    for (Index place = cache.length(); place < ls::round_up(cache.capacity(), ls::block_keys); ++place) {
      const auto block = cache.block(g, place / ls::block_keys);
      const_cast<float*>(block.key_scales)[place % ls::block_keys] = nan<float>();
      const_cast<float*>(block.value_scales)[place % ls::block_keys] = infinity<float>();
    }
}

TEST(Int8Attention, TiledHasTheBitsOfTheSpecificationOnEverySet) {
  for (const Sizes& s : all_sizes) {
    SCOPED_TRACE(::testing::PrintToString(s));
    const Problem<float> problem(s, 5);
    Codes cache = codes_of(problem, 3);
    poison_codes(cache);
    const auto causal = problem.template attend<ls::Specification>(cache);
    const auto window = problem.template attend<ls::Specification, Window>(cache, {.mask = {19}});
    const auto bent = problem.template attend<ls::Specification, Bent>(cache);
    for (const float number : causal.context) ASSERT_TRUE(std::isfinite(number));
    for_each_instruction_set([&] {
      expect_same(s, causal, problem.template attend<ls::Tiled>(cache));
      expect_same(s, window, problem.template attend<ls::Tiled, Window>(cache, {.mask = {19}}));
      expect_same(s, bent, problem.template attend<ls::Tiled, Bent>(cache));
    });
  }
}

TEST(Int8Attention, HidesKeysOneByOne) {
  const Sizes s{.q_len = 3, .kv_len = 530, .heads = 4, .kv_heads = 2, .head_dim = 9, .v_head_dim = 20};
  const Problem<float> problem(s, 8);
  Random random(3);
  std::vector<char> table(at(s.q_len * s.kv_len));
  for (char& sees : table) sees = random.below(3) == 0;
  const Codes cache = codes_of(problem);
  const auto expected = problem.template attend<ls::Specification, ByTable>(cache, {.mask = {table, s.kv_len}});
  for_each_instruction_set([&] {
    expect_same(s, expected, problem.template attend<ls::Tiled, ByTable>(cache, {.mask = {table, s.kv_len}}));
  });
  const Problem<float> numbers = decoded(problem);
  numbers.expect_close(
      numbers.expected({.visible = [&](Index, Index i, Index j) { return table[at(i * s.kv_len + j)] != 0; }}),
      expected);
}

TEST(Int8Attention, IsRightForTheNumbersThatTheCodesStandFor) {
  for (const Sizes& s : all_sizes) {
    SCOPED_TRACE(::testing::PrintToString(s));
    const Problem<float> problem(s, 6), numbers = decoded(problem);
    const Codes cache = codes_of(problem);
    numbers.expect_close(numbers.expected(), problem.template attend<ls::Specification>(cache));
    numbers.expect_close(numbers.expected(), problem.template attend<ls::Materialized>(cache));
  }
}

// A key errs by scale/2 at most, so a logit by e = |q'|_1 scale/2, and a weight by a factor within exp(+-2e); a value
// errs by its scale/2. Hence |context - float's| <= (exp(2e) - 1) max|v| + scale_v/2, up to rounding.
TEST(Int8Attention, ErrsAgainstFloatWithinTheStatedBound) {
  for (const Sizes& s : all_sizes) {
    SCOPED_TRACE(::testing::PrintToString(s));
    const Problem<float> problem(s, 7);
    const Codes cache = codes_of(problem);
    const auto exact = problem.expected();
    const auto coded = problem.template attend<ls::Tiled>(cache);
    double key_scale = 0, value_scale = 0, largest = 0, query = 0;
    for (Index g = 0; g < s.kv_heads; ++g)
      for (Index t = 0; t < s.kv_len; ++t) {
        const auto block = cache.block(g, t / 256);
        key_scale = std::max(key_scale, static_cast<double>(block.key_scales[t % 256]));
        value_scale = std::max(value_scale, static_cast<double>(block.value_scales[t % 256]));
      }
    for (const float v : problem.v) largest = std::max(largest, std::abs(static_cast<double>(v)));
    for (Index row = 0; row < s.q_len * s.heads; ++row) {
      double sum = 0;
      for (Index d = 0; d < s.head_dim; ++d) sum += std::abs(static_cast<double>(problem.q[at(row * s.head_dim + d)]));
      query = std::max(query, sum / std::sqrt(static_cast<double>(s.head_dim)));
    }
    const double e = query * key_scale * (0.5 + 0x1p-16);
    const double bound = std::expm1(2 * e) * largest + value_scale * (0.5 + 0x1p-16) + problem.tolerance();
    const double error = largest_difference(exact.context, coded.context);
    EXPECT_LE(error, bound);
    if (s.kv_len > 1) {
      EXPECT_GT(error, bound / 1e5) << "codes must show";
    }
  }
}

/// Tasks one after the other, as if there were threads: long caches are then split.
struct Slots {
  static constexpr ls::PolicyKind policy_kind = ls::PolicyKind::executor;
  Index concurrency() const noexcept { return 3; }
  Index parallel_from() const noexcept { return 0; }
  template <class F>
  void run(Index n, F&& f) const {
    for (Index i = n; i-- > 0;) f(i);
  }
};

TEST(Int8Attention, SplitsAndDropsWithTheSpecificationsBits) {
  const Sizes s{.q_len = 2, .kv_len = 2100, .heads = 4, .kv_heads = 2, .head_dim = 10, .v_head_dim = 20};
  const Problem<float> problem(s, 10);
  const Codes cache = codes_of(problem);
  const ls::Dropout dropout{.probability = 0.3, .seed = 4};
  const auto whole = problem.template attend<ls::Specification>(cache);
  const auto dropped =
      problem.template attend<ls::Specification, ls::Dropout>(cache, {.dropout = dropout, .mode = ls::Mode::training});
  EXPECT_FALSE(same_bits(whole.context, dropped.context, s.value_dim()));
  for_each_instruction_set([&] {
    expect_same(s, whole, problem.template attend<ls::Tiled, Slots>(cache));
    expect_same(s, dropped,
                problem.template attend<ls::Tiled, Slots, ls::Dropout>(
                    cache, {.dropout = dropout, .mode = ls::Mode::training}));
  });
}

// What the contract says, in so many words, against Specification's bits: one block, one key tile, no mask.
TEST(Int8Attention, FollowsTheRuleStepByStep) {
  const Sizes s{.q_len = 1, .kv_len = 9, .heads = 1, .kv_heads = 1, .head_dim = 7, .v_head_dim = 3};
  const Problem<float> problem(s, 11);
  const Codes cache = codes_of(problem);
  const auto block = cache.block(0, 0);
  using Layout = ls::BlockLayout<std::int8_t>;
  float logit[9], p[9], m = -infinity<float>(), lane[16] = {}, sum[3] = {};
  for (Index j = 0; j < 9; ++j) {
    float chain = 0;
    for (Index d = 0; d < 7; ++d) {
      const float q = ls::rounded(problem.q[at(d)] * static_cast<float>(1 / std::sqrt(7.0)));
      chain = std::fma(q, static_cast<float>(block.keys[Layout::key(j, d, 7)]), chain);
    }
    logit[j] = ls::rounded(chain * block.key_scales[j]);
    m = std::max(m, logit[j]);
  }
  for (Index j = 0; j < 9; ++j) {
    p[j] = ls::exp_nonpositive(ls::rounded(logit[j] - m));
    lane[j] = p[j];
    const float weight = ls::rounded(p[j] * block.value_scales[j]);
    for (Index d = 0; d < 3; ++d)
      sum[d] = std::fma(weight, static_cast<float>(block.values[Layout::value(j, d)]), sum[d]);
  }
  for (Index half = 8; half >= 1; half /= 2)
    for (Index i = 0; i < half; ++i) lane[i] = ls::rounded(lane[i] + lane[i + half]);
  const auto got = problem.template attend<ls::Specification>(cache);
  for (Index d = 0; d < 3; ++d) EXPECT_EQ(got.context[at(d)], sum[d] / lane[0]);
}

TEST(Int8Attention, ZeroKeysAndValuesAreOrdinary) {
  const Sizes s{.q_len = 2, .kv_len = 20, .heads = 2, .kv_heads = 1, .head_dim = 6};
  Problem<float> problem(s, 9);
  std::fill_n(problem.k.begin() + 6 * 4, 6 * 3, 0.0F);  // logits 0
  std::fill_n(problem.v.begin() + 6 * 10, 6 * 5, 0.0F);
  const Codes cache = codes_of(problem);
  const auto expected = problem.template attend<ls::Specification>(cache);
  decoded(problem).expect_close(decoded(problem).expected(), expected);
  for_each_instruction_set([&] { expect_same(s, expected, problem.template attend<ls::Tiled>(cache)); });
}

}  // namespace
