// The host's floating-point environment: changes no bit, and is as before after every call.
#include <atomic>
#include <lockstep/executor/thread_pool.hpp>

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
using Cases = Cross<List<ls::Specification, ls::Materialized, ls::Tiled>, List<float, Eigen::half>>;
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

/// f() once on each of the pool's threads.
template <class F>
void on_each_thread(Eigen::ThreadPool& pool, F&& f) {
  const int threads = pool.NumThreads();
  std::atomic<int> there{0}, done{0};
  for (int i = 0; i < threads; ++i)
    pool.Schedule([&] {
      for (++there; there < threads;) std::this_thread::yield();
      f();
      ++done;
    });
  while (done < threads) std::this_thread::yield();
}

TYPED_TEST(Environment, OfAThreadPoolsThreadsChangesNoBitAndIsRestored) {
  using Layer = typename TestFixture::template LayerOf<>;
  using Pooled = typename TestFixture::template LayerOf<ls::ThreadPool>;
  static constexpr unsigned host = flush | upward;
  const auto w = this->weights();
  const Layer layer(shape.layer(), w.views());
  const auto expected = run(layer, this->x, {tokens});
  for (const bool before_they_start : {true, false}) {
    SCOPED_TRACE(before_they_start ? "inherited" : "set later");
    const HostSets sets(before_they_start ? host : usual);
    Eigen::ThreadPool pool(3);
    on_each_thread(pool, [&] {
      if (before_they_start)
        EXPECT_EQ(state(), host);
      else
        _mm_setcsr(host);
    });
    const Pooled pooled(shape.layer(), w.views(), ls::ThreadPool(pool, 0));
    const auto result = run(pooled, this->x, {40, 1, 29});
    on_each_thread(pool, [] { EXPECT_EQ(state(), host); });
    EXPECT_EQ(state(), before_they_start ? host : usual);
    const HostSets back(usual);
    expect_same_outcome(layer, expected, result);
  }
}

/// What every entry beside a layer's gives, called in the host's environment, which must be as before after each.
std::vector<float> results_of_every_entry() {
  const unsigned host = state();
  const auto check = [&](const char* what) { EXPECT_EQ(state(), host) << "after " << what; };
  std::vector<float> all;
  const auto keep = [&](const std::vector<float>& some) { all.insert(all.end(), some.begin(), some.end()); };
  std::vector<float> tiny(3000), plain(3000);
  for (std::size_t i = 0; i < tiny.size(); ++i) {
    plain[i] = static_cast<float>(i % 37) / 8 - 2;
    tiny[i] = plain[i] * 1e-7F;  // halves that are denormal
  }
  const auto tokens_of = [&](const std::vector<float>& from, Index n) {
    return ls::View<const float, 3>::contiguous(from.data(), {n, 2, 6});
  };
  const ls::Rope<ls::HalfSplit, float> rotation(ls::RopeTable<float>({.rotary_dim = 6, .base = 1e4, .positions = 99}));
  check("a rotary table");
  ls::ContiguousCache<Eigen::half> cache({2, 6, 6}, 300);
  cache.append(tokens_of(plain, 40), tokens_of(tiny, 40));
  check("append");
  cache.write(3, tokens_of(tiny, 5), tokens_of(plain, 5));
  check("write");
  cache.drop_oldest(2, rotation, 1);
  check("drop_oldest");
  std::vector<Eigen::half> halves(2 * 38 * 6);
  cache.export_keys(ls::View<Eigen::half, 3>::contiguous(halves.data(), {2, 38, 6}));
  check("export_keys");
  for (const Eigen::half h : halves) all.push_back(static_cast<float>(Eigen::numext::bit_cast<std::uint16_t>(h)));
  ls::ContiguousCache<std::int8_t> codes({2, 6, 6}, 300);
  codes.import(tokens_of(plain, 30), tokens_of(plain, 30), ls::Order::token_head_dim);
  check("import");
  std::vector<float> out(2 * 30 * 6);
  codes.export_values(ls::View<float, 3>::contiguous(out.data(), {2, 30, 6}));
  check("export_values");
  keep(out);

  const auto q = ls::View<const float, 3>::contiguous(plain.data() + 11, {4, 4, 6});
  std::vector<float> context(4 * 4 * 6), other = context, lse(4 * 4), other_lse = lse;
  const auto shaped = [](std::vector<float>& v) { return ls::View<float, 3>::contiguous(v.data(), {4, 4, 6}); };
  const auto row_of = [](std::vector<float>& v) { return ls::View<float, 2>::contiguous(v.data(), {4, 4}); };
  ls::attend<ls::SoftCap, ls::Specification>(q, cache, shaped(context), {.logits = {.cap = 7}});
  check("attend");
  keep(context);
  ls::Partial<float> partial;
  ls::attend_partial<ls::Specification>(q, cache, partial, {.offset = 34});
  check("attend_partial");
  ls::finish(partial, shaped(context), row_of(lse));
  check("finish");
  keep(context);
  ls::attend_partial<ls::Specification>(q, codes, partial, {.offset = 26});
  ls::finish(partial, shaped(other), row_of(other_lse));
  ls::merge_by_lse<float>(shaped(context), row_of(lse), ls::View<const float, 3>(shaped(other)),
                          ls::View<const float, 2>(row_of(other_lse)));
  check("merge_by_lse");
  keep(context);
  ls::PackedWeights<Eigen::half> packed(70, 50);
  packed.place(0, ls::View<const float, 2>::contiguous(tiny.data() + 3, {35, 50}), {});
  check("packing");
  std::vector<float> y(3 * 70);
  ls::project(ls::View<const float, 2>::contiguous(plain.data(), {3, 50}), packed,
              ls::View<float, 2>::contiguous(y.data(), {3, 70}), ls::Serial{});
  check("project");
  keep(y);
  return all;
}

TEST(EveryEntry, GivesTheSameBitsInAnyEnvironmentAndRestoresIt) {
  const auto expected = results_of_every_entry();
  for (const unsigned host : {flush, upward, truncating, flush | upward, trapping}) {
    SCOPED_TRACE(host);
    const HostSets sets(host);
    const auto results = results_of_every_entry();
    const HostSets back(usual);
    EXPECT_TRUE(same_bits(expected, results, static_cast<Index>(expected.size())));
  }
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
