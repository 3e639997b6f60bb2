// Kernels of the contract equal Specification bit for bit under masks, logit transforms, dropout, head sharings and
// threads.
#include "attend/contract_kernels.hpp"
#include "attend/problem.hpp"
#include "attention/hook.hpp"

namespace {

using namespace fixture;

/// A soft cap and a penalty for distance, in the same roundings for one logit and for many.
struct Penalty {
  static constexpr ls::PolicyKind policy_kind = ls::PolicyKind::logits;
  double scale(Index) const noexcept { return 0.3; }
  float apply(float logit, ls::QueryRow q, Index key) const noexcept {
    return std::fma(-0.0625F * static_cast<float>(q.head), static_cast<float>(q.place - key), logit * 0.5F);
  }
  void apply(float* block, ls::QueryRow q, ls::KeyRange keys) const noexcept {
    for (Index i = 0; i < keys.size(); ++i) block[i] = apply(block[i], q, keys.first + i);
  }
};

/// Heads of unequal groups, and a kv head that nobody reads.
struct Uneven {
  static constexpr ls::PolicyKind policy_kind = ls::PolicyKind::heads;
  Index kv_head(Index head, Index, Index kv_heads) const noexcept {
    return head == 0 ? kv_heads - 1 : head % 3 == 0 ? 1 : 0;
  }
};

template <class Case>
class ContractKernelUnder : public ::testing::Test {
 protected:
  using Kernel = typename Case::Kernel;

  template <class... Policies, class S>
  static void expect_bits(const Problem<S>& problem,
                          const ls::AttendOptions<float, ls::Specification, Policies...>& options) {
    SCOPED_TRACE(::testing::PrintToString(problem.sizes));
    const auto cache = problem.cache();
    const auto expected = problem.template attend<ls::Specification, Policies...>(cache, options);
    for_each_instruction_set([&] {
      expect_same(problem.sizes, expected,
                  problem.template attend<Kernel, Policies...>(cache, {.offset = options.offset,
                                                                       .mask = options.mask,
                                                                       .logits = options.logits,
                                                                       .sharing = options.sharing,
                                                                       .dropout = options.dropout,
                                                                       .mode = options.mode,
                                                                       .dropout_streams = options.dropout_streams,
                                                                       .executor = options.executor}));
    });
  }
  template <class... Policies>
  using Options = ls::AttendOptions<float, ls::Specification, Policies...>;
};
using Cases = Cross<ContractKernels, List<float>>;
TYPED_TEST_SUITE(ContractKernelUnder, Cases, CaseName);

std::vector<char> table(const Sizes& s, Index one_in, std::uint64_t seed) {
  Random random(seed);
  std::vector<char> seen(at(s.q_len * s.kv_len));
  for (Index i = 0; i < s.q_len; ++i)
    for (Index j = 0; j < s.kv_len; ++j) {
      const bool whole = i % 4 == 1 && j / 64 % 3 == 0, hidden = i % 4 == 2 && j / 256 % 2 == 0;
      seen[at(i * s.kv_len + j)] = whole || (!hidden && random.below(one_in) == 0) ? 1 : 0;
    }
  return seen;
}

TYPED_TEST(ContractKernelUnder, AnyMaskEqualsSpecification) {
  for (const Sizes& s : {Sizes{13, 600, 4, 2, 8}, Sizes{5, 2100, 2, 1, 6}, Sizes{1, 1100, 8, 2, 5, 20}})
    for (const Index one_in : {1, 2, 30, 2000}) {
      const auto seen = table(s, one_in, 5);
      const Problem<float> problem(s);
      const ByTableInBlocks blocks(seen, s.kv_len);
      const ByTable pairs(seen, s.kv_len);
      this->template expect_bits<ByTableInBlocks>(
          problem, typename TestFixture::template Options<ByTableInBlocks>{.mask = blocks});
      this->template expect_bits<ByTable>(problem, typename TestFixture::template Options<ByTable>{.mask = pairs});
    }
}

TYPED_TEST(ContractKernelUnder, HiddenGarbageEqualsSpecification) {
  const Sizes s{.q_len = 20, .kv_len = 600, .heads = 4, .kv_heads = 2, .head_dim = 6};
  Flags flags(1, s.kv_len);
  Problem<Eigen::half> problem(s);
  Random random(6);
  for (Index key = 0; key < s.kv_len; ++key) flags(0, key) = random.below(3) > 0;
  const auto clean =
      problem.template attend<typename TypeParam::Kernel, ls::KeyPadding>(problem.cache(), {.mask = flags.mask()});
  for (Index key = 0; key < s.kv_len; ++key)
    for (Index g = 0; g < 2 && !flags(0, key); ++g)
      for (Index d = 0; d < 6; ++d)
        problem.k[at((g * s.kv_len + key) * 6 + d)] = problem.v[at((g * s.kv_len + key) * 6 + d)] =
            key % 2 == 0 ? nan<Eigen::half>() : infinity<Eigen::half>();
  this->template expect_bits<ls::KeyPadding>(
      problem, typename TestFixture::template Options<ls::KeyPadding>{.mask = flags.mask()});
  expect_same(
      s, clean,
      problem.template attend<typename TypeParam::Kernel, ls::KeyPadding>(problem.cache(), {.mask = flags.mask()}));
}

TYPED_TEST(ContractKernelUnder, VisibleGarbageAndHugeLogitsEqualSpecification) {
  const Sizes s{.q_len = 3, .kv_len = 1100, .heads = 2, .kv_heads = 2, .head_dim = 6};
  for (const float garbage : {nan<float>(), infinity<float>(), -infinity<float>(), 3e38F, -3e38F, 1e-40F, -0.0F})
    for (const Index key : {0, 700, 1098}) {
      Problem<float> in_key(s), in_value(s);
      in_key.k[at(key * 6 + 2)] = garbage;
      in_value.v[at(key * 6 + 2)] = garbage;
      this->template expect_bits<>(in_key, typename TestFixture::template Options<>{});
      this->template expect_bits<>(in_value, typename TestFixture::template Options<>{});
    }
  Problem<float> in_query(s);
  in_query.q[7] = nan<float>();
  in_query.q[20] = 1e30F;
  this->template expect_bits<>(in_query, typename TestFixture::template Options<>{});
}

TYPED_TEST(ContractKernelUnder, ALogitTransformEqualsSpecification) {
  for (const Sizes& s : {Sizes{11, 400, 4, 2, 8}, Sizes{2, 1100, 3, 1, 6}})
    this->template expect_bits<Penalty>(Problem<float>(s), typename TestFixture::template Options<Penalty>{});
}

TYPED_TEST(ContractKernelUnder, DropoutEqualsSpecification) {
  const std::uint32_t stream[] = {3};
  for (const double p : {0.0, 0.3, 0.999})
    for (const Sizes& s : {Sizes{11, 400, 4, 2, 8}, Sizes{2, 1100, 3, 1, 6}})
      this->template expect_bits<ls::Dropout>(
          Problem<float>(s), typename TestFixture::template Options<ls::Dropout>{
                                 .dropout = {p, 9}, .mode = ls::Mode::training, .dropout_streams = stream});
}

TYPED_TEST(ContractKernelUnder, AnyHeadSharingEqualsSpecification) {
  for (const Sizes& s : {Sizes{30, 300, 7, 4, 8}, Sizes{1, 2100, 7, 4, 8}})
    this->template expect_bits<Uneven>(Problem<float>(s), typename TestFixture::template Options<Uneven>{});
}

TYPED_TEST(ContractKernelUnder, ThreadsEqualSpecification) {
  for (const Index threads : {1, 2, 7})
    for (const Sizes& s :
         {Sizes{1, 3100, 4, 2, 8}, Sizes{3, 1025, 3, 1, 6}, Sizes{50, 1100, 1, 1, 6}, Sizes{1, 300, 4, 4, 8}}) {
      TestPool pool{TaskOrder::threads};
      this->template expect_bits<ls::Hook>(
          Problem<float>(s), typename TestFixture::template Options<ls::Hook>{.executor = pool.hook(threads)});
      this->template expect_bits<ls::Hook>(
          Problem<float>(s),
          typename TestFixture::template Options<ls::Hook>{.offset = s.kv_len / 2 - 1, .executor = pool.hook(threads)});
    }
}

}  // namespace
