// The host's floating-point environment: changes no bit, and is as before after every call.
#include "attention/hook.hpp"

#if defined(__SSE__)
#include <xmmintrin.h>

namespace {

using namespace fixture;

constexpr unsigned usual = 0x1F80;          // nearest even, denormals kept, no traps
constexpr unsigned flush = usual | 0x8040;  // denormal results and operands are zero
constexpr unsigned upward = usual | 0x4000;
constexpr unsigned truncating = usual | 0x6000;
constexpr unsigned trapping = usual & ~0x0F80u;  // on all but inexact results
constexpr unsigned flags = 0x3F;                 // what happened so far; not a setting

class HostSets {
 public:
  explicit HostSets(unsigned state) : before_(_mm_getcsr()) { _mm_setcsr(state); }
  ~HostSets() { _mm_setcsr(before_); }
  HostSets(const HostSets&) = delete;
  HostSets& operator=(const HostSets&) = delete;

 private:
  unsigned before_;
};
unsigned state() { return _mm_getcsr() & ~flags; }

constexpr Shape shape{.hidden = 12, .heads = 4, .kv_heads = 2, .head_dim = 6};
constexpr Index tokens = 70;

template <class Case>
class Environment : public ::testing::Test {
 protected:
  using T = typename Case::Element;
  template <class... Policies>
  using LayerOf =
      ls::Attention<T, ls::Dynamic, ls::Dynamic, ls::Rope<ls::HalfSplit>, typename Case::Kernel, Policies...>;

  /// Queries so long that weights reach down to zero, values so small that their products are denormal.
  static Weights<T> weights() {
    Weights<T> w(shape);
    for (T& q : w.query) q = number<T>(60 * static_cast<double>(q));
    const double tiny = std::is_same_v<T, float> ? 1e-39 : 1e-7;
    for (auto* values : {&w.value, &w.value_bias})
      for (T& v : *values) v = number<T>(tiny * static_cast<double>(v));
    return w;
  }
  std::vector<T> x = numbers<T>(tokens * shape.hidden, 171);
};
using Cases = Cross<Kernels, List<float, Eigen::half>>;
TYPED_TEST_SUITE(Environment, Cases, CaseName);

TYPED_TEST(Environment, OfTheHostChangesNoBitAndIsRestored) {
  using Layer = typename TestFixture::template LayerOf<>;
  const auto w = this->weights();
  const auto table = rope<float>(shape.head_dim);
  const auto expected = run(Layer(shape.layer(), w.views(), table), this->x, {tokens});
  for (const unsigned host : {flush, upward, truncating, flush | upward, trapping}) {
    SCOPED_TRACE(host);
    const HostSets sets(host);
    const Layer layer(shape.layer(), w.views(), table);
    EXPECT_EQ(state(), host);
    const auto result = run(layer, this->x, {40, 1, 29}), cacheless = full(layer, this->x);
    EXPECT_EQ(state(), host);
    std::vector<typename TypeParam::Element> y(this->x.size());
    auto cache = layer.make_cache(tokens - 1);
    EXPECT_THROW(layer.forward(rows_of(this->x, 0, tokens, shape.hidden), cache, rows_of(y, 0, tokens, shape.hidden)),
                 std::length_error);
    EXPECT_EQ(state(), host) << "after a refusal";
    const HostSets back(usual);
    expect_same_outcome(layer, expected, result);
    expect_same_outputs(layer, expected, cacheless);
  }
}

TYPED_TEST(Environment, OfThreadsChangesNoBit) {
  using Layer = typename TestFixture::template LayerOf<>;
  using Threaded = typename TestFixture::template LayerOf<ls::Hook>;
  const auto w = this->weights();
  const Layer layer(shape.layer(), w.views());
  TestPool pool{TaskOrder::threads, [] { _mm_setcsr(flush | upward); }};
  const Threaded threaded(shape.layer(), w.views(), pool.hook(3));
  expect_same_outcome(layer, run(layer, this->x, {tokens}), run(threaded, this->x, {40, 30}));
  EXPECT_EQ(state(), usual);
}

TEST(RopeTable, BuiltInAnyEnvironmentHasTheSameBits) {
  const ls::RopeConfig config{.rotary_dim = 16, .base = 10000, .positions = 300};
  const auto bits = [](const ls::RopeTable<float>& table) {
    std::vector<float> all(table.cos(0), table.cos(0) + 300 * 8);
    all.insert(all.end(), table.sin(0), table.sin(0) + 300 * 8);
    return all;
  };
  const auto expected = bits(ls::RopeTable<float>(config));
  for (const unsigned host : {flush, upward, truncating}) {
    const HostSets sets(host);
    const auto built = bits(ls::RopeTable<float>(config));
    EXPECT_EQ(state(), host);
    const HostSets back(usual);
    EXPECT_TRUE(same_bits(expected, built, 8)) << host;
  }
}

}  // namespace
#endif
