// The bits do not depend on who runs the tasks, on how many threads, in which order.
#include "attention/hook.hpp"

namespace {

using namespace fixture;

constexpr Shape shape{.hidden = 70, .heads = 6, .kv_heads = 2, .head_dim = 8};

/// Offers what concept Executor asks and nothing more: no default constructor, a thread for every task.
class ThreadEach {
 public:
  static constexpr ls::PolicyKind policy_kind = ls::PolicyKind::executor;
  explicit ThreadEach(Index threads) : threads_(threads) {}
  Index concurrency() const noexcept { return threads_; }
  Index parallel_from() const noexcept { return 0; }  // optional: small work is the test's
  template <class F>
  void run(Index n, F&& f) const {
    std::vector<std::thread> threads;
    for (Index i = n; i-- > 0;) threads.emplace_back([&f, i] { f(i); });
    for (std::thread& thread : threads) thread.join();
  }

 private:
  Index threads_;
};

template <class Case>
class Executors : public ::testing::Test {
 protected:
  template <class... Policies>
  using LayerOn =
      ls::Attention<float, ls::Dynamic, ls::Dynamic, ls::Rope<ls::HalfSplit>, typename Case::Kernel, Policies...>;

  ls::RopeTable<float> table = rope<float>(shape.head_dim, 290);
  std::vector<float> x = numbers<float>(290 * shape.hidden, 71);
  LayerOn<> serial = make_layer<LayerOn<>>(shape, table);
  Outcome<LayerOn<>> expected = run(serial, x, {290});

  template <class Layer>
  void expect_same_bits(const Layer& layer) const {
    for (const auto& plan : {std::vector<Index>{290}, std::vector<Index>{200, 1, 1, 88}})
      expect_same_outcome(serial, expected, run(layer, x, plan));
  }
};
TYPED_TEST_SUITE(Executors, FloatCases, CaseName);

TYPED_TEST(Executors, OfTheCallerMayRunTasksInAnyOrder) {
  using Layer = typename TestFixture::template LayerOn<ls::Hook>;
  using Pool = std::pair<TaskOrder, Index>;
  for (const auto& [order, threads] : {Pool{TaskOrder::forward, 3},
                                       {TaskOrder::reverse, 3},
                                       {TaskOrder::shuffled, 3},
                                       {TaskOrder::threads, 1},
                                       {TaskOrder::threads, 2},
                                       {TaskOrder::threads, 7}}) {
    SCOPED_TRACE("order " + std::to_string(static_cast<int>(order)) + ", threads " + std::to_string(threads));
    TestPool pool{order};
    this->expect_same_bits(make_layer<Layer>(shape, this->table, pool.hook(threads)));
    EXPECT_EQ(pool.calls > 0, threads > 1);
  }
  this->expect_same_bits(make_layer<Layer>(shape, this->table));
}

TYPED_TEST(Executors, OfAUserNeedOnlyOfferTheConcept) {
  using Layer = typename TestFixture::template LayerOn<ThreadEach>;
  for (const Index threads : {1, 2, 5})
    this->expect_same_bits(make_layer<Layer>(shape, this->table, ThreadEach(threads)));
}

TYPED_TEST(Executors, MayServeABatch) {
  using Layer = typename TestFixture::template LayerOn<ls::Hook>;
  const Index batch = 4, q_len = 9, each = q_len * shape.hidden;
  TestPool pool{TaskOrder::threads};
  const auto layer = make_layer<Layer>(shape, this->table, pool.hook(3));
  std::vector<float> y(at(batch * each));
  layer.forward(ls::View<const float, 3>::contiguous(this->x.data(), {batch, q_len, shape.hidden}),
                ls::View<float, 3>::contiguous(y.data(), {batch, q_len, shape.hidden}));
  for (Index b = 0; b < batch; ++b) {
    const auto one = part(this->x, b * each, each);
    EXPECT_TRUE(same_bits(full(this->serial, one).y, part(y, b * each, each), shape.hidden));
  }
}

TYPED_TEST(Executors, AConstLayerServesManyThreadsAtOnce) {
  const auto& layer = this->serial;
  std::vector<Outcome<typename TestFixture::template LayerOn<>>> with_cache(4), without(4);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      with_cache[i] = run(layer, this->x, random_plan(290, i));
      without[i] = full(layer, this->x);
    });
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < 4; ++i) {
    expect_same_outcome(layer, this->expected, with_cache[i]);
    expect_same_outputs(layer, this->expected, without[i]);
  }
}

TEST(SmallWork, StaysOnTheCallerWithTheBitsOfThreads) {
  using Serial = ls::Attention<float, 6, 2, ls::Rope<ls::HalfSplit>>;
  using Hooked = ls::Attention<float, 6, 2, ls::Rope<ls::HalfSplit>, ls::Hook>;
  const auto table = rope<float>(shape.head_dim, 900);
  const auto x = numbers<float>(900 * shape.hidden, 73);
  TestPool pool{TaskOrder::threads};
  const auto layer = make_layer<Hooked>(shape, table, pool.hook(3, ls::parallel_from_nanoseconds));
  auto cache = layer.make_cache(900);
  std::vector<float> y(x.size());
  const auto forward = [&](Index first, Index rows) {
    pool.calls = 0;
    layer.forward(rows_of(x, first, rows, shape.hidden), cache, rows_of(y, first, rows, shape.hidden));
    return pool.calls;
  };
  for (Index i = 0; i < 4; ++i) EXPECT_EQ(forward(i, 1), 0) << i;
  EXPECT_GT(forward(4, 896), 0);
  EXPECT_TRUE(same_bits(full(make_layer<Serial>(shape, table), x).y, y, shape.hidden));
}

// One row goes through four panels of 64 outputs at a time; what is left over goes with neighbours that are another
// thread's. That none is written twice, with the same numbers, is what the thread sanitizer sees.
TEST(ProjectionOfOneRow, WritesEachNumberOnce) {
  const Index in = 300;
  for (const Index out : {1, 63, 256, 257, 320, 383, 385, 449, 896, 1000}) {
    const auto weights = numbers<float>(out * in, 5), bias = numbers<float>(out, 6), x = numbers<float>(in, 7);
    ls::PackedWeights<float> packed(out, in);
    packed.place<float>(0, ls::View<const float, 2>::contiguous(weights.data(), {out, in}),
                        ls::View<const float, 1>::contiguous(bias.data(), {out}));
    const auto row = ls::View<const float, 2>::contiguous(x.data(), {1, in});
    std::vector<float> many(at(3 * out)), threes;
    for (int i = 0; i < 3; ++i) threes.insert(threes.end(), x.begin(), x.end());
    ls::project(ls::View<const float, 2>::contiguous(threes.data(), {3, in}), packed,
                ls::View<float, 2>::contiguous(many.data(), {3, out}), ls::Serial{});
    for (int repeat = 0; repeat < 20; ++repeat) {
      std::vector<float> y(at(out));
      ls::project(row, packed, ls::View<float, 2>::contiguous(y.data(), {1, out}), ThreadEach(4));
      ASSERT_TRUE(same_bits(y, part(many, 0, out), out)) << out << " outputs";
    }
  }
}

}  // namespace
