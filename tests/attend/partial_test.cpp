// Attention over parts of the keys joins to the bits of attention over all of them, in any grouping.
#include "attend/contract_kernels.hpp"
#include "attend/problem.hpp"

namespace {

using namespace fixture;

template <class Case>
class PartialAttention : public ::testing::Test {
 protected:
  using S = typename Case::Element;
  using C = ls::compute_t<S>;
  using Kernel = typename Case::Kernel;
  using Mask = ls::And<ls::Causal, ls::KeyPadding>;
  using Part = ls::Partial<C>;
  using Cache = ls::ContiguousCache<S>;
  using Options = ls::PartialOptions<C, Kernel, ls::SoftCap, ls::Alibi<>, Mask>;

  struct Result {
    std::vector<C> context, lse;
  };

  explicit PartialAttention() = default;

  /// A problem whose keys in the second split are all hidden where there are more than two.
  struct Given {
    explicit Given(Index q_len, Index kv_len)
        : sizes{.q_len = q_len, .kv_len = kv_len, .heads = 6, .kv_heads = 2, .head_dim = 5, .v_head_dim = 18},
          problem(sizes),
          flags(1, kv_len),
          sinks(numbers<C>(6, 3, 2)) {
      for (Index key = 0; key < kv_len; ++key) flags(0, key) = key % 11 != 4 && (kv_len < 2049 || key / 1024 != 1);
    }
    Sizes sizes;
    Problem<S> problem;
    Flags flags;
    std::vector<C> sinks;

    ls::LearnedSinks<C> learned() const { return ls::LearnedSinks<C>(ls::View<const C, 1>(sinks)); }
    Cache cache_of(ls::KeyRange places) const {
      Cache cache({sizes.kv_heads, sizes.head_dim, sizes.value_dim()}, places.size());
      cache.import(problem.keys().part(1, places.first, places.size()),
                   problem.values().part(1, places.first, places.size()));
      return cache;
    }
    Options options(ls::KeyRange places) const {
      Options o;
      o.offset = sizes.kv_len - sizes.q_len;
      o.places = places;
      o.mask = ls::Causal{} & flags.mask();
      o.logits.cap = 4;
      o.bias = ls::Alibi<C>(sizes.heads);
      return o;
    }
    Part part_with(const Cache& cache, const Options& o) const {
      Part partial;
      ls::attend_partial<Kernel, ls::SoftCap, ls::Alibi<>, Mask>(problem.query(), cache, partial, o);
      return partial;
    }
    Part part_of(const Cache& cache, ls::KeyRange places) const { return part_with(cache, options(places)); }
    Result finished(const Part& partial) const {
      Result r{std::vector<C>(at(sizes.q_len * sizes.heads * sizes.value_dim()), nan<C>()),
               std::vector<C>(at(sizes.heads * sizes.q_len), nan<C>())};
      ls::finish(partial, ls::View<C, 3>::contiguous(r.context.data(), {sizes.q_len, sizes.heads, sizes.value_dim()}),
                 ls::View<C, 2>::contiguous(r.lse.data(), {sizes.heads, sizes.q_len}), learned());
      return r;
    }
    /// The unsplit run.
    Attended<C> whole(const Cache& cache) const {
      ls::AttendOptions<C, Kernel, ls::SoftCap, ls::Alibi<>, ls::LearnedSinks<>, Mask> o;
      o.mask = ls::Causal{} & flags.mask();
      o.logits.cap = 4;
      o.bias = ls::Alibi<C>(sizes.heads);
      o.sinks = learned();
      return problem.template attend<Kernel, ls::SoftCap, ls::Alibi<>, ls::LearnedSinks<>, Mask>(cache, o);
    }
  };

  static void expect_bits(const Given& given, const Attended<C>& expected, const Part& partial) {
    const Result got = given.finished(partial);
    EXPECT_TRUE(same_bits(expected.context, got.context, given.sizes.heads * given.sizes.value_dim()));
    EXPECT_TRUE(same_bits(expected.lse, got.lse, given.sizes.q_len));
  }
  static Part merged(Part a, const Part& b) {
    a.merge(b);
    return a;
  }
};
using Cases = Cross<List<ls::Specification, ls::Tiled>, Elements>;
TYPED_TEST_SUITE(PartialAttention, Cases, CaseName);

TYPED_TEST(PartialAttention, OfAllSplitsInAnyGroupingHasTheBitsOfTheUnsplitRun) {
  for (const Index kv_len : {1, 1023, 1024, 1025, 2500})
    for (const Index q_len : {1, 3}) {
      if (q_len > kv_len) continue;
      SCOPED_TRACE(kv_len);
      const typename TestFixture::Given given(q_len, kv_len);
      const auto cache = given.cache_of({0, kv_len});
      const auto expected = given.whole(cache);
      for_each_instruction_set([&] {
        this->expect_bits(given, expected, given.part_of(cache, {0, kv_len}));
        if (kv_len <= 1024) return;
        const auto first = given.part_of(cache, {0, 1024}), second = given.part_of(cache, {1024, 2048});
        const auto rest = given.part_of(cache, {1024, kv_len});
        this->expect_bits(given, expected, this->merged(first, rest));
        this->expect_bits(given, expected, this->merged(rest, first));
        if (kv_len <= 2048) return;
        const auto third = given.part_of(cache, {2048, kv_len});
        this->expect_bits(given, expected, this->merged(this->merged(first, second), third));
        this->expect_bits(given, expected, this->merged(this->merged(third, first), second));
        this->expect_bits(given, expected, this->merged(first, this->merged(second, third)));
      });
    }
}

TYPED_TEST(PartialAttention, OfASharedPrefixAndTheCacheThatGoesOnFromItHasTheBitsOfOneCache) {
  const Index kv_len = 2200;
  const typename TestFixture::Given given(3, kv_len);
  const auto expected = given.whole(given.cache_of({0, kv_len}));
  for (const Index edge : {1024, 2048}) {
    const auto prefix = given.cache_of({0, edge}), own = given.cache_of({edge, kv_len});
    auto options = given.options({0, kv_len});
    auto partial = given.part_with(prefix, options);
    options.cache_place = edge;
    partial.merge(given.part_with(own, options));
    this->expect_bits(given, expected, partial);
  }
}

TYPED_TEST(PartialAttention, OfNoKeysGivesZerosAndTheSink) {
  const typename TestFixture::Given given(2, 40);
  const auto got = given.finished(given.part_of(given.cache_of({0, 40}), {0, 0}));
  for (const auto number : got.context) EXPECT_TRUE(number == 0 && !std::signbit(number));
  for (Index h = 0; h < 6; ++h)
    for (Index i = 0; i < 2; ++i) EXPECT_EQ(got.lse[at(h * 2 + i)], given.sinks[at(h)]);
}

TYPED_TEST(PartialAttention, RefusesPlacesAndPartsThatDoNotFit) {
  const typename TestFixture::Given given(2, 2100), other(1, 2100);
  const auto cache = given.cache_of({0, 2100});
  EXPECT_THROW(given.part_of(cache, {256, 2100}), std::invalid_argument);
  EXPECT_THROW(given.part_of(cache, {0, 1500}), std::invalid_argument);
  auto options = given.options({0, 2100});
  options.cache_place = 256;
  EXPECT_THROW(given.part_with(cache, options), std::invalid_argument);
  auto first = given.part_of(cache, {0, 1024});
  EXPECT_THROW(first.merge(first), std::invalid_argument);
  EXPECT_THROW(first.merge(other.part_of(other.cache_of({0, 2100}), {1024, 2100})), std::invalid_argument);
  // The split of a shorter cache ends early: nothing can follow it.
  const auto shorter = given.cache_of({0, 500});
  auto early = given.part_of(shorter, {0, 500});
  EXPECT_THROW(early.merge(given.part_of(cache, {1024, 2100})), std::invalid_argument);
  EXPECT_THROW(given.part_of(cache, {1024, 2100}).merge(early), std::invalid_argument);
  EXPECT_EQ(first.splits(), (std::vector<ls::KeyRange>{{0, 1024}}));
}

template <class C>
class MergeByLse : public ::testing::Test {};
using Computes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(MergeByLse, Computes);

TYPED_TEST(MergeByLse, ErrsByNoMoreThanItStates) {
  using C = TypeParam;
  const Sizes s{.q_len = 4, .kv_len = 300, .heads = 3, .kv_heads = 1, .head_dim = 6};
  for (const double size : {1.0, 60.0}) {
    Problem<C> problem(s);
    for (C& q : problem.q) q *= static_cast<C>(size);
    const auto expected = problem.expected();
    for (const Index cut : {1, 100, 297, 299}) {
      const auto over = [&](ls::KeyRange keys) {
        Flags flags(1, s.kv_len, false);
        for (Index key = keys.first; key < keys.last; ++key) flags(0, key) = true;
        ls::AttendOptions<C, ls::Specification, ls::And<ls::Causal, ls::KeyPadding>> options;
        options.mask = ls::Causal{} & flags.mask();
        return problem.template attend<ls::Specification, ls::And<ls::Causal, ls::KeyPadding>>(problem.cache(),
                                                                                               options);
      };
      auto a = over({0, cut});
      const auto b = over({cut, s.kv_len});
      const std::array<Index, 3> shape{s.q_len, s.heads, s.head_dim};
      const std::array<Index, 2> lse_shape{s.heads, s.q_len};
      double most_lse = 0, most = 0;
      for (const double lse : expected.lse) most_lse = std::max(most_lse, std::abs(lse));
      for (const C v : problem.v) most = std::max(most, std::abs(static_cast<double>(v)));
      ls::merge_by_lse<C>(ls::View<C, 3>::contiguous(a.context.data(), shape),
                          ls::View<C, 2>::contiguous(a.lse.data(), lse_shape),
                          ls::View<const C, 3>::contiguous(b.context.data(), shape),
                          ls::View<const C, 2>::contiguous(b.lse.data(), lse_shape));
      const double eps = std::numeric_limits<C>::epsilon() / 2;
      // The logits of the two runs themselves err by a rounding for each step of their chain.
      const double inputs = problem.tolerance() * (1 + size * 6);
      EXPECT_LE(largest_difference(expected.context, a.context), (most_lse + 6) * eps * most + inputs) << cut;
      EXPECT_LE(largest_difference(expected.lse, a.lse), (most_lse + 6) * eps + inputs) << cut;
    }
  }
}

TYPED_TEST(MergeByLse, LeavesOutRowsThatSawNoKey) {
  using C = TypeParam;
  constexpr C none = -std::numeric_limits<C>::infinity();
  std::vector<C> context{1, 2, nan<C>(), nan<C>(), 0, 0}, other{nan<C>(), nan<C>(), 3, 4, 0, 0};
  std::vector<C> lse{C(0.5), none, none}, other_lse{none, C(-7), none};
  ls::merge_by_lse<C>(ls::View<C, 3>::contiguous(context.data(), {3, 1, 2}),
                      ls::View<C, 2>::contiguous(lse.data(), {1, 3}),
                      ls::View<const C, 3>::contiguous(other.data(), {3, 1, 2}),
                      ls::View<const C, 2>::contiguous(other_lse.data(), {1, 3}));
  EXPECT_EQ(context, (std::vector<C>{1, 2, 3, 4, 0, 0}));
  EXPECT_EQ(lse, (std::vector<C>{C(0.5), C(-7), none}));
}

}  // namespace
