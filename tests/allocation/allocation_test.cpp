// Once a call of some size has been made, calls of that size take nothing from the heap.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "allocation/counter.hpp"
#include "lockstep/executor/thread_pool.hpp"
#include "lockstep/lockstep.hpp"

namespace ls = lockstep;
using allocation::taken_by;
using ls::Index;
using ls::View;
using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

namespace {

constexpr Index hidden = 24;

template <class L, class... Values>
L make_layer(Values&&... values) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.2F);
  std::vector<typename L::Scalar> numbers(static_cast<std::size_t>(48 * hidden));
  for (auto& x : numbers) x = static_cast<typename L::Scalar>(normal(random));
  const auto matrix = [&](Index out, Index in) {
    return View<const typename L::Scalar, 2>::contiguous(numbers.data(), {out, in});
  };
  return L({.hidden = hidden, .head_dim = 8, .heads = 6, .kv_heads = 2},
           {.query = matrix(48, hidden),
            .key = matrix(16, hidden),
            .value = matrix(16, hidden),
            .output = matrix(hidden, 48)},
           std::forward<Values>(values)...);
}

// A list of everything that a layer is used for; the tests go over it for several layers.
template <class L>
class SteadyCalls : public testing::Test {
 protected:
  using T = typename L::Scalar;
  SteadyCalls()
      : layer(make_layer<L>()), x(static_cast<std::size_t>(rows * hidden), static_cast<T>(0.25F)), y(x.size()) {}
  View<const T, 3> in(Index batch, Index q_len) const {
    return View<const T, 3>::contiguous(x.data(), {batch, q_len, hidden});
  }
  View<T, 3> out(Index batch, Index q_len) { return View<T, 3>::contiguous(y.data(), {batch, q_len, hidden}); }
  static constexpr Index rows = 700;

  L layer;
  std::vector<T> x, y;
};

using Layers =
    testing::Types<ls::Attention<float, 6, 2, ls::Rope<ls::HalfSplit>>,
                   ls::Attention<Eigen::bfloat16, ls::Dynamic, ls::Dynamic, ls::Rope<ls::Interleaved>>,
                   ls::Attention<double, 6, 2>, ls::Attention<float, 6, 2, ls::Hook, ls::ContiguousCache<Eigen::half>>,
                   ls::Attention<float, 6, 2, ls::Materialized>>;
TYPED_TEST_SUITE(SteadyCalls, Layers);

TYPED_TEST(SteadyCalls, DecodeTakesNothing) {
  auto cache = this->layer.make_cache(400);
  this->layer.forward(this->in(1, 300), cache, this->out(1, 300));
  cache.truncate(250);
  for (int step = 0; step < 50; ++step)
    EXPECT_EQ(taken_by([&] { this->layer.forward(this->in(1, 1), cache, this->out(1, 1)); }), 0)
        << "at length " << cache.length();
}

TYPED_TEST(SteadyCalls, PrefillTakesNothing) {
  auto cache = this->layer.make_cache(700);
  for (int time = 0; time < 3; ++time) {
    cache.truncate(0);
    const long taken = taken_by([&] { this->layer.forward(this->in(1, 300), cache, this->out(1, 300)); }) +
                       taken_by([&] { this->layer.forward(this->in(1, 290), cache, this->out(1, 290)); });
    if (time > 0) {
      EXPECT_EQ(taken, 0);
    }
  }
}

TYPED_TEST(SteadyCalls, AForwardWithoutACacheTakesNothing) {
  this->layer.forward(this->in(2, 300), this->out(2, 300));
  EXPECT_EQ(taken_by([&] { this->layer.forward(this->in(2, 300), this->out(2, 300)); }), 0);
  EXPECT_EQ(taken_by([&] { this->layer.forward(this->in(1, 17), this->out(1, 17)); }), 0);
}

TYPED_TEST(SteadyCalls, ABatchTakesNothing) {
  std::vector<typename TypeParam::Cache> caches;
  for (const Index length : {3, 290, 0}) {
    caches.push_back(this->layer.make_cache(400));
    if (length > 0) this->layer.forward(this->in(1, length), caches.back(), this->out(1, length));
  }
  this->layer.forward(this->in(3, 10), caches, this->out(3, 10));
  for (auto& cache : caches) cache.truncate(cache.length() - 10);
  for (int step = 0; step < 10; ++step)
    EXPECT_EQ(taken_by([&] { this->layer.forward(this->in(3, 1), caches, this->out(3, 1)); }), 0);
}

TYPED_TEST(SteadyCalls, ResultsAndChecksTakeNothing) {
  using C = typename TypeParam::Compute;
  std::vector<C> lse(6 * 5), weights(6 * 5 * 5), context(5 * 48);
  typename TypeParam::Options options;
  options.lse = View<C, 3>::contiguous(lse.data(), {1, 6, 5});
  options.weights = View<C, 4>::contiguous(weights.data(), {1, 6, 5, 5});
  options.context = View<C, 3>::contiguous(context.data(), {1, 5, 48});
  auto cache = this->layer.make_cache(5);
  this->layer.forward(this->in(1, 5), cache, this->out(1, 5), options);
  cache.truncate(0);
  EXPECT_EQ(taken_by([&] { this->layer.forward(this->in(1, 5), cache, this->out(1, 5), options); }), 0);
  ls::Status status;
  EXPECT_EQ(taken_by([&] { status = this->layer.check(this->in(1, 5), cache, this->out(1, 5), options); }), 0);
  EXPECT_FALSE(status.ok());
}

TYPED_TEST(SteadyCalls, AWorkspaceOfTheStatedSizeIsEnoughAndOneByteLessIsNot) {
  struct Size {
    Index batch, q_len, length;
  };
  for (const Size size : {Size{1, 1, 0}, {1, 1, 300}, {1, 300, 0}, {2, 7, 30}, {3, 1, 280}, {2, 300, 5}}) {
    std::vector<typename TypeParam::Cache> caches;
    for (Index b = 0; b < size.batch; ++b) {
      caches.push_back(this->layer.make_cache(700));
      if (size.length > 0) this->layer.forward(this->in(1, size.length), caches.back(), this->out(1, size.length));
    }
    const Index bytes = this->layer.workspace_bytes(size.batch, size.q_len, size.length + size.q_len);
    // Surrounded by a pattern, at an address that is not aligned: nothing beside it is touched.
    std::vector<unsigned char> memory(static_cast<std::size_t>(bytes) + 200, 0xa5);
    ls::Workspace exact(memory.data() + 101, bytes), short_of(memory.data() + 101, bytes - 1);
    typename TypeParam::Options options;
    options.workspace = &short_of;
    EXPECT_EQ(
        this->layer.check(this->in(size.batch, size.q_len), caches, this->out(size.batch, size.q_len), options).code(),
        ls::StatusCode::length_error);
    EXPECT_THROW(
        this->layer.forward(this->in(size.batch, size.q_len), caches, this->out(size.batch, size.q_len), options),
        std::length_error);
    EXPECT_EQ(caches[0].length(), size.length);
    options.workspace = &exact;
    this->layer.forward(this->in(size.batch, size.q_len), caches, this->out(size.batch, size.q_len), options);
    EXPECT_EQ(caches[0].length(), size.length + size.q_len);
    for (std::size_t i = 0; i < memory.size(); ++i)
      if (i < 101 || i >= 101 + static_cast<std::size_t>(bytes)) {
        ASSERT_EQ(memory[i], 0xa5) << "byte " << i << " of " << bytes;
      }
  }
}

template <class C, class... Policies>
void attend_keeps_to_its_workspace() {
  ls::ContiguousCache<C> cache({2, 8, 5}, 600);
  const std::vector<C> numbers(600 * 64, C(0.1));
  cache.append(View<const C, 3>::contiguous(numbers.data(), {600, 2, 8}),
               View<const C, 3>::contiguous(numbers.data(), {600, 2, 5}));
  std::vector<C> out(40 * 6 * 5);
  for (const Index q_len : {1, 40}) {
    const auto q = View<const C, 3>::contiguous(numbers.data(), {q_len, 6, 8});
    const auto context = View<C, 3>::contiguous(out.data(), {q_len, 6, 5});
    const Index bytes = ls::attend_workspace_bytes<Policies...>(q, cache);
    std::vector<unsigned char> memory(static_cast<std::size_t>(bytes) + 200, 0xa5);
    ls::Workspace exact(memory.data() + 77, bytes), short_of(memory.data() + 77, bytes - 1), growing;
    ls::AttendOptions<C, Policies...> options;
    options.workspace = &short_of;
    EXPECT_EQ(ls::check_attend<Policies...>(q, cache, context, options).code(), ls::StatusCode::length_error);
    EXPECT_THROW(ls::attend<Policies...>(q, cache, context, options), std::length_error);
    options.workspace = &exact;
    EXPECT_EQ(taken_by([&] { ls::attend<Policies...>(q, cache, context, options); }), 0);
    for (std::size_t i = 0; i < memory.size(); ++i)
      if (i < 77 || i >= 77 + static_cast<std::size_t>(bytes)) {
        ASSERT_EQ(memory[i], 0xa5) << "byte " << i << " of " << bytes;
      }
    options.workspace = &growing;
    ls::attend<Policies...>(q, cache, context, options);
    EXPECT_EQ(taken_by([&] { ls::attend<Policies...>(q, cache, context, options); }), 0);
  }
}

TEST(Attend, KeepsToItsWorkspace) {
  attend_keeps_to_its_workspace<float>();
  attend_keeps_to_its_workspace<double>();
  attend_keeps_to_its_workspace<float, ls::Materialized>();
  attend_keeps_to_its_workspace<float, ls::Materialized, ls::RepeatedHeads>();
  attend_keeps_to_its_workspace<float, ls::OffsetCausal, ls::Dropout>();
}

struct Window {
  static constexpr ls::PolicyKind policy_kind = ls::PolicyKind::mask;
  ls::KeyRange range(ls::QueryRow q, Index kv_len) const noexcept {
    return ls::intersection({q.place - 19, q.place + 1}, {0, kv_len});
  }
  ls::Visibility block(ls::QueryRow, ls::KeyRange) const noexcept { return ls::Visibility::all; }
  bool visible(ls::QueryRow q, Index key) const noexcept { return key <= q.place && key > q.place - 20; }
  Index keys_needed(ls::QueryRow q) const noexcept { return q.place + 1; }
};

/// Decode with a cache that splits, prefill and a batch on threads, once each has been done.
template <class L>
void expect_that_threads_take_nothing(const L& layer) {
  constexpr Index rows = 700, past = 1300;
  const std::vector<float> x(static_cast<std::size_t>(past * hidden), 0.25F);
  std::vector<float> y(x.size());
  std::vector<typename L::Cache> caches;
  for (int b = 0; b < 2; ++b) caches.push_back(layer.make_cache(past + rows));
  const auto forward = [&](std::span<typename L::Cache> some, Index q_len, Index length) {
    for (auto& cache : some) cache.truncate(length);
    const Index batch = static_cast<Index>(some.size());
    layer.forward(View<const float, 3>::contiguous(x.data(), {batch, q_len, hidden}), some,
                  View<float, 3>::contiguous(y.data(), {batch, q_len, hidden}));
  };
  for (auto& cache : caches) forward({&cache, 1}, past, 0);
  for (const auto& [batch, q_len] : {std::pair<std::size_t, Index>{1, 1}, {2, 1}, {1, rows}, {2, 300}}) {
    const std::span<typename L::Cache> some(caches.data(), batch);
    forward(some, q_len, past);
    for (int time = 0; time < 20; ++time)
      EXPECT_EQ(taken_by([&] { forward(some, q_len, past); }), 0) << batch << " sequences, " << q_len << " tokens each";
  }
}

TEST(SteadyCallsOnThreads, OfAThreadPoolTakeNothing) {
  if (!allocation::counts()) GTEST_SKIP() << "this platform's heap cannot be counted here";
  for (const int threads : {1, 3}) {
    Eigen::ThreadPool pool(threads);
    expect_that_threads_take_nothing(make_layer<ls::Attention<float, 6, 2, ls::ThreadPool>>(ls::ThreadPool(pool, 0)));
  }
}

TEST(SteadyCallsOnThreads, OfTheCallersHookTakeNothing) {
  // In the order that lets slots meet the tasks that they would have on threads.
  const auto backwards = [](void*, Index n, ls::Hook::Task task, void* argument) {
    for (Index i = n; i-- > 0;) task(argument, i);
  };
  for (const Index threads : {2, 16})
    expect_that_threads_take_nothing(
        make_layer<ls::Attention<float, 6, 2, ls::Hook>>(ls::Hook(backwards, nullptr, threads, 0)));
}

/// Bytes that kernel and layer may take, whatever the number of keys: threads times rows of a task times their numbers;
/// of a chunk of rows what goes in and out of the kernel; and what is kept of each row and split where these are shared
/// out, of four tasks of 84 rows a thread at most.
double bound(double threads, double head_dim, double heads, double kv_heads, double rows, double splits) {
  const double chunk = std::min(rows, 256.0), kept = threads < 2 ? 0 : std::min(chunk * heads, threads * 4 * 84);
  return sizeof(float) * (threads * (84 + 14) * (272 * std::ceil(head_dim / 256) + 2 * (head_dim + 32)) +
                          chunk * (3 * heads + 2 * kv_heads) * (head_dim + 16) + kept * splits * (head_dim + 16 + 8)) +
         65536;
}

TEST(Workspace, Of32768TokensGrowsWithThreadsAndRowsAndNotWithTheSquare) {
  constexpr Index heads = 32, kv_heads = 8, tokens = 32768;
  using Layer = ls::Attention<float, heads, kv_heads, ls::Hook>;
  const auto nobody = [](void*, Index, ls::Hook::Task, void*) {};
  for (const Index head_dim : {64, 128, 256})
    for (const Index threads : {1, 2, 16})
      for (const Index rows : {Index{1}, tokens}) {
        SCOPED_TRACE(testing::Message() << head_dim << " a head, " << threads << " threads, " << rows << " rows");
        const std::vector<float> w(static_cast<std::size_t>(heads * head_dim), 0.1F);
        const auto matrix = [&](Index out, Index in) { return View<const float, 2>::contiguous(w.data(), {out, in}); };
        const Layer layer({.hidden = 1, .head_dim = head_dim},
                          {.query = matrix(heads * head_dim, 1),
                           .key = matrix(kv_heads * head_dim, 1),
                           .value = matrix(kv_heads * head_dim, 1),
                           .output = matrix(1, heads * head_dim)},
                          ls::Hook(nobody, nullptr, threads));
        const double splits = static_cast<double>(tokens) / ls::split_keys;
        EXPECT_LT(static_cast<double>(layer.workspace_bytes(1, rows, tokens)),
                  bound(static_cast<double>(threads), static_cast<double>(head_dim), heads, kv_heads,
                        static_cast<double>(rows), splits));
      }
}

// Through a window, which takes the same workspace and less time.
TEST(Workspace, Of32768TokensIsAllThatAPrefillTakes) {
  constexpr Index tokens = 32768;
  const auto layer = make_layer<ls::Attention<float, 6, 2, ls::SlidingWindow>>(ls::SlidingWindow{20});
  auto cache = layer.make_cache(tokens);
  const std::vector<float> x(static_cast<std::size_t>(tokens * hidden), 0.25F);
  std::vector<float> y(x.size());
  layer.forward(View<const float, 3>::contiguous(x.data(), {1, 1, hidden}), cache,
                View<float, 3>::contiguous(y.data(), {1, 1, hidden}));
  cache.truncate(0);
  const Index bytes = layer.workspace_bytes(1, tokens, tokens);
  EXPECT_LT(bytes, Index{1} << 20);
  std::vector<std::byte> memory(static_cast<std::size_t>(bytes));
  ls::Workspace workspace(memory.data(), bytes);
  EXPECT_EQ(taken_by([&] {
              layer.forward(View<const float, 3>::contiguous(x.data(), {1, tokens, hidden}), cache,
                            View<float, 3>::contiguous(y.data(), {1, tokens, hidden}), {.workspace = &workspace});
            }),
            0);
  EXPECT_EQ(cache.length(), tokens);
}

TEST(Caches, OfARingAndInPagesTakeNothingWhileDecoding) {
  const auto layer = make_layer<ls::Attention<float, 6, 2, Window, ls::RingCache<std::int8_t>>>();
  auto ring = layer.make_cache(20, 30);
  const std::vector<float> x(static_cast<std::size_t>(31 * hidden), 0.25F);
  std::vector<float> y(x.size());
  const auto forward = [&](Index rows) {
    layer.forward(View<const float, 3>::contiguous(x.data(), {1, rows, hidden}), ring,
                  View<float, 3>::contiguous(y.data(), {1, rows, hidden}));
  };
  for (int step = 0; step < 9; ++step) forward(31);
  for (int step = 0; step < 300; ++step) ASSERT_EQ(taken_by([&] { forward(1); }), 0) << "at length " << ring.length();

  const ls::PagePool<float> pool({2, 8, 8}, 5);
  ls::PagedCache<float> paged(pool, 600);
  const auto keys = View<const float, 3>::contiguous(x.data(), {1, 2, 8});
  for (int step = 0; step < 300; ++step) ASSERT_EQ(taken_by([&] { paged.append(keys, keys); }), 0) << step;
  auto fork = paged.fork();
  for (int step = 0; step < 300; ++step) ASSERT_EQ(taken_by([&] { fork.append(keys, keys); }), 0) << step;
  EXPECT_EQ(taken_by([&] { fork.truncate(10); }), 0);
}

TEST(Caches, TakeNothingOnceTheyAreMade) {
  ls::ContiguousCache<float> cache({2, 8, 8}, 300);
  const std::vector<float> numbers(300 * 16);
  std::vector<float> out(300 * 16);
  const auto rows = View<const float, 3>::contiguous(numbers.data(), {300, 2, 8});
  EXPECT_EQ(taken_by([&] { cache.append(rows, rows); }), 0);
  EXPECT_EQ(taken_by([&] { cache.export_keys(View<float, 3>::contiguous(out.data(), {2, 300, 8})); }), 0);
  EXPECT_EQ(taken_by([&] {
              const auto all = View<const float, 3>::contiguous(out.data(), {2, 300, 8});
              cache.truncate(10);
              cache.import(all, all);
              cache.clear();
            }),
            0);
  EXPECT_EQ(taken_by([&] { const ls::ContiguousCache<float> moved = std::move(cache); }), 0);
}

}  // namespace
