// Soft-capped, biased logits and sinks in attend(): close to the reference, in the contract's order, the same bits from
// every fast kernel.
#include "attend/contract_kernels.hpp"
#include "attend/problem.hpp"

namespace {

using namespace fixture;

constexpr double cap = 3;

/// A learned logit for each head: ordinary ones, one that outweighs every key, one that is none.
template <class C>
std::vector<C> sink_logits(Index heads) {
  std::vector<C> logits = numbers<C>(heads, 9, 2);
  if (heads > 1) logits[1] = C(20);
  if (heads > 2) logits[2] = -std::numeric_limits<C>::infinity();
  return logits;
}

/// All that may happen to a logit.
template <class Kernel, class S, class Mask = ls::Causal>
struct Everything {
  using C = ls::compute_t<S>;
  using Options = ls::AttendOptions<C, Kernel, ls::SoftCap, ls::Alibi<>, ls::LearnedSinks<>, Mask>;
  static Options options(const Sizes& s) {
    Options o;
    const std::vector<C> logits = sink_logits<C>(s.heads);
    o.logits = {.cap = cap};
    o.bias = ls::Alibi<C>(s.heads);
    o.sinks = ls::LearnedSinks<C>(ls::View<const C, 1>(logits));
    return o;
  }
  static Attended<C> attend(const Problem<S>& problem, const ls::ContiguousCache<S>& cache, Options o) {
    return problem.template attend<Kernel, ls::SoftCap, ls::Alibi<>, ls::LearnedSinks<>, Mask>(cache, o);
  }
};

/// The same in double, each step from its definition.
template <class S>
reference::Problem everything(const Sizes& s, Index offset) {
  reference::Problem problem;
  problem.visible = reference::causal(offset);
  problem.transform = [slopes = reference::alibi_slopes(s.heads), offset](double logit, Index head, Index row,
                                                                          Index key) {
    return cap * std::tanh(logit / cap) + slopes[at(head)] * static_cast<double>(key - offset - row);
  };
  problem.sink = [logits = sink_logits<ls::compute_t<S>>(s.heads)](Index head) {
    return static_cast<double>(logits[at(head)]);
  };
  return problem;
}

template <class Case>
class TransformedLogits : public ::testing::Test {};
using Cases = Cross<Kernels, List<float, double>>;
TYPED_TEST_SUITE(TransformedLogits, Cases, CaseName);

TYPED_TEST(TransformedLogits, AreCloseToTheReference) {
  using Number = typename TypeParam::Element;
  using Run = Everything<typename TypeParam::Kernel, Number>;
  for (const Sizes& s : {Sizes{.q_len = 5, .kv_len = 5, .heads = 6, .kv_heads = 2, .head_dim = 8},
                         Sizes{.q_len = 3, .kv_len = 257, .heads = 12, .kv_heads = 4, .head_dim = 17},
                         Sizes{.q_len = 2, .kv_len = 1100, .heads = 8, .kv_heads = 8, .head_dim = 4}}) {
    const Problem<Number> problem(s);
    problem.expect_close(problem.expected(everything<Number>(s, s.kv_len - s.q_len)),
                         Run::attend(problem, problem.cache(), Run::options(s)));
  }
}

TYPED_TEST(TransformedLogits, GiveARowWithoutKeysZerosAndItsSink) {
  using Number = typename TypeParam::Element;
  using Run = Everything<typename TypeParam::Kernel, Number>;
  const Sizes s{.q_len = 4, .kv_len = 2, .heads = 3, .kv_heads = 1, .head_dim = 2};
  const Problem<Number> problem(s);
  auto options = Run::options(s);
  options.offset = -2;
  const auto got = Run::attend(problem, problem.cache(), options);
  const std::vector<Number> logits = sink_logits<Number>(3);
  for (Index row = 0; row < 2; ++row) {
    for (Index i = 0; i < 6; ++i) {
      EXPECT_EQ(got.context[at(row * 6 + i)], 0);
      EXPECT_FALSE(std::signbit(got.context[at(row * 6 + i)]));
    }
    for (Index h = 0; h < 3; ++h) EXPECT_EQ(got.lse[at(h * 4 + row)], logits[at(h)]);
  }
  EXPECT_NE(got.context[at(3 * 6)], 0);
  // The second head's sink leaves next to nothing for the keys; the third has none, so its weights sum to 1.
  double second = 0, third = 0;
  for (Index key = 0; key < 2; ++key) {
    second += static_cast<double>(got.weights[at((1 * 4 + 3) * 2 + key)]);
    third += static_cast<double>(got.weights[at((2 * 4 + 3) * 2 + key)]);
  }
  EXPECT_LT(second, 1e-6);
  EXPECT_NEAR(third, 1, 1e-6);
}

/// One query q over two keys of dimension 1; the second is hidden.
template <class Kernel, class Number, class Logits>
double first_of_two(Number q, std::vector<Number> k, std::vector<Number> v, const Logits& logits) {
  Problem<Number> problem({.q_len = 1, .kv_len = 2, .heads = 1, .kv_heads = 1, .head_dim = 1});
  problem.q = {q};
  problem.k = std::move(k);
  problem.v = std::move(v);
  ls::AttendOptions<Number, Kernel, Logits> options;
  options.offset = 0;
  options.logits = logits;
  return static_cast<double>(problem.template attend<Kernel, Logits>(problem.cache(), options).context[0]);
}

// onnx/onnx#7865, #7867; microsoft/onnxruntime#28379: the soft-cap after the mask lets hidden keys leak (12.80 here).
TYPED_TEST(TransformedLogits, AreCappedBeforeTheMask) {
  using Number = typename TypeParam::Element;
  const ls::SoftCap soft_cap{.cap = 2, .given = 1};
  EXPECT_EQ((first_of_two<typename TypeParam::Kernel, Number>(0, {1, 1}, {1, 100}, soft_cap)), 1);
}

// ohdearquant/lattice#361, flashinfer-ai/flashinfer#4401: a hidden key won against logits below the stand-in for -inf.
TYPED_TEST(TransformedLogits, OfHiddenKeysNeverWin) {
  using Number = typename TypeParam::Element;
  for (const Number q : {Number(-20000), Number(-1e30)}) {
    EXPECT_EQ((first_of_two<typename TypeParam::Kernel, Number>(q, {1, 0}, {1, 100}, ls::Scaled{1})), 1);
    EXPECT_EQ((first_of_two<typename TypeParam::Kernel, Number>(q, {1, 0}, {1, 100}, ls::SoftCap{1e6, 1})), 1);
  }
}

// pytorch/executorch#18407: a logit of 150 overflowed; with sinks the maximum may be the sink's.
TYPED_TEST(TransformedLogits, MayBeLargeAndRise) {
  using Number = typename TypeParam::Element;
  using Kernel = typename TypeParam::Kernel;
  const Index keys = 21;
  Problem<Number> problem({.q_len = 1, .kv_len = keys, .heads = 1, .kv_heads = 1, .head_dim = 1});
  problem.q = {1};
  for (Index j = 0; j < keys; ++j) problem.k[at(j)] = static_cast<Number>(50 * j);
  for (const double sink : {-1e30, 0.0, 999.0, 1000.0, 1001.0}) {
    ls::AttendOptions<Number, Kernel, ls::LearnedSinks<>> options;
    const std::vector<Number> logits{static_cast<Number>(sink)};
    options.logits = ls::Scaled{1};
    options.sinks = ls::LearnedSinks<Number>(ls::View<const Number, 1>(logits));
    reference::Problem expected;
    expected.scale = 1;
    expected.sink = [sink](Index) { return sink; };
    const auto got = problem.template attend<Kernel, ls::LearnedSinks<>>(problem.cache(), options);
    const auto wanted = problem.expected(expected);
    const double eps = std::numeric_limits<Number>::epsilon();
    EXPECT_LE(largest_difference(wanted.context, got.context), 16 * eps) << sink;
    EXPECT_LE(largest_difference(wanted.lse, got.lse), 2000 * eps) << sink;
  }
}

TYPED_TEST(TransformedLogits, TakeTheLearnedBiasOfTheirBucket) {
  using Number = typename TypeParam::Element;
  using Kernel = typename TypeParam::Kernel;
  const Sizes s{.q_len = 9, .kv_len = 300, .heads = 2, .kv_heads = 1, .head_dim = 6};
  const Problem<Number> problem(s);
  const ls::RelativeBuckets buckets{.bidirectional = true};
  const std::vector<Number> table = numbers<Number>(32 * 2, 5, 3);
  ls::AttendOptions<Number, Kernel, ls::RelativeBias<>, ls::NoMask> options;
  options.bias = {buckets, ls::View<const Number, 2>::contiguous(table.data(), {32, 2})};
  options.offset = 130;
  reference::Problem expected;
  expected.visible = [](Index, Index, Index) { return true; };
  expected.transform = [&](double logit, Index head, Index row, Index key) {
    return logit + static_cast<double>(table[at(buckets.bucket(key - 130 - row) * 2 + head)]);
  };
  problem.expect_close(problem.expected(expected),
                       problem.template attend<Kernel, ls::RelativeBias<>, ls::NoMask>(problem.cache(), options));
}

constexpr ls::LogitStage stages[] = {ls::LogitStage::scaled, ls::LogitStage::transformed, ls::LogitStage::masked};

/// Logits [heads, q_len, columns] of a run at a stage.
template <class Run, class S, class Options>
auto raw_logits(const Problem<S>& problem, ls::LogitStage stage, Options options) {
  using C = ls::compute_t<S>;
  const Sizes& s = problem.sizes;
  std::vector<C> logits(at(s.heads * s.q_len * s.kv_len), nan<C>());
  options.logit_stage = stage;
  options.raw_logits = ls::View<C, 4>::contiguous(logits.data(), {1, s.heads, s.q_len, s.kv_len});
  Run::attend(problem, problem.cache(), options);
  return logits;
}

TYPED_TEST(TransformedLogits, AreGivenAtEachStage) {
  using Number = typename TypeParam::Element;
  using Run = Everything<typename TypeParam::Kernel, Number>;
  const Sizes s{.q_len = 7, .kv_len = 300, .heads = 6, .kv_heads = 2, .head_dim = 8};
  const Index offset = 150;
  const Problem<Number> problem(s);
  const auto keys = problem.by_token(problem.k, s.head_dim);
  const std::vector<double> slopes = reference::alibi_slopes(s.heads);
  auto options = Run::options(s);
  options.offset = offset;
  for (const ls::LogitStage stage : stages) {
    std::vector<double> expected;
    for (Index head = 0; head < s.heads; ++head)
      for (Index row = 0; row < s.q_len; ++row)
        for (Index key = 0; key < s.kv_len; ++key) {
          double logit = 0;
          for (Index d = 0; d < s.head_dim; ++d)
            logit += static_cast<double>(problem.query()(row, head, d)) *
                     keys[at((key * s.kv_heads + head / 3) * s.head_dim + d)];
          logit /= std::sqrt(8.0);
          if (stage != ls::LogitStage::scaled) logit = cap * std::tanh(logit / cap);
          if (stage == ls::LogitStage::masked)
            logit = key > offset + row ? -std::numeric_limits<double>::infinity()
                                       : logit + slopes[at(head)] * static_cast<double>(key - offset - row);
          expected.push_back(logit);
        }
    EXPECT_LE(largest_difference(expected, raw_logits<Run>(problem, stage, options)), problem.tolerance())
        << "stage " << static_cast<int>(stage);
  }
}

TYPED_TEST(TransformedLogits, AreRefusedWhereAPolicyDoesNotFit) {
  using Number = typename TypeParam::Element;
  using Run = Everything<typename TypeParam::Kernel, Number>;
  const Sizes s{.q_len = 1, .kv_len = 2, .heads = 4, .kv_heads = 2, .head_dim = 2};
  const Problem<Number> problem(s);
  const auto cache = problem.cache();
  const auto refused = [&](auto change, const char* argument) {
    auto options = Run::options(s);
    EXPECT_NO_THROW(Run::attend(problem, cache, options));
    change(options);
    try {
      Run::attend(problem, cache, options);
      ADD_FAILURE() << argument << " was taken";
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(argument), std::string::npos) << error.what();
    }
  };
  refused([](auto& o) { o.logits.cap = 0; }, "softcap");
  refused([](auto& o) { o.bias = ls::Alibi<Number>(2); }, "bias");
  refused([](auto& o) { o.bias = {}; }, "bias");
  refused([](auto& o) { o.sinks = {}; }, "sinks");
  Number one = 0;
  refused([&](auto& o) { o.raw_logits = ls::View<Number, 4>::contiguous(&one, {1, 1, 1, 1}); }, "raw_logits");
}

template <class Case>
class ContractLogits : public ::testing::Test {
 protected:
  using S = typename Case::Element;
  template <class Mask>
  static void expect_bits(const Sizes& s, const Mask& mask, Index offset) {
    SCOPED_TRACE(::testing::PrintToString(s));
    const Problem<S> problem(s);
    const auto cache = problem.cache();
    auto plain = Everything<ls::Specification, S, Mask>::options(s);
    auto fast = Everything<typename Case::Kernel, S, Mask>::options(s);
    plain.mask = fast.mask = mask;
    plain.offset = fast.offset = offset;
    const auto expected = Everything<ls::Specification, S, Mask>::attend(problem, cache, plain);
    using Fast = Everything<typename Case::Kernel, S, Mask>;
    for_each_instruction_set([&] { expect_same(s, expected, Fast::attend(problem, cache, fast)); });
    if (s.q_len < 11) return;
    for (const ls::LogitStage stage : stages) {
      const auto logits = raw_logits<Everything<ls::Specification, S, Mask>>(problem, stage, plain);
      for_each_instruction_set([&] {
        EXPECT_TRUE(same_bits(logits, raw_logits<Fast>(problem, stage, fast), s.kv_len))
            << "logits of stage " << static_cast<int>(stage);
      });
    }
  }
};
using ContractCases = Cross<ContractKernels, Elements>;
TYPED_TEST_SUITE(ContractLogits, ContractCases, CaseName);

TYPED_TEST(ContractLogits, EqualSpecification) {
  for (const Index kv_len : {1, 15, 16, 17, 255, 256, 257, 1024, 1025})
    for (const Index q_len : {1, 3})
      this->expect_bits(Sizes{.q_len = q_len, .kv_len = kv_len, .heads = 3, .kv_heads = 1, .head_dim = 9}, ls::Causal{},
                        kv_len - q_len);
  this->expect_bits(Sizes{.q_len = 37, .kv_len = 300, .heads = 4, .kv_heads = 2, .head_dim = 16}, ls::Causal{}, -20);
  this->expect_bits(Sizes{.q_len = 3, .kv_len = 0, .heads = 3, .kv_heads = 1, .head_dim = 2}, ls::Causal{}, 0);
}

TYPED_TEST(ContractLogits, EqualSpecificationUnderAMaskWithHoles) {
  const Sizes s{.q_len = 11, .kv_len = 530, .heads = 3, .kv_heads = 1, .head_dim = 5};
  Flags flags(1, s.kv_len);
  for (Index key = 0; key < s.kv_len; ++key) flags(0, key) = key % 7 != 3 && (key < 256 || key > 511);
  const auto mask = ls::Causal{} & flags.mask();
  this->expect_bits(s, mask, s.kv_len - s.q_len);
}

}  // namespace
