// Many sequences at once: several of the caller's threads, each with a batch of its own, share one const layer, one
// table of positions, one pool of pages and one executor. What one thread does to another shows under the thread
// sanitizer (preset tsan), and in the bits.
#include <array>
#include <thread>

#include <lockstep/executor/thread_pool.hpp>

#include "fixture.hpp"

namespace {

using namespace fixture;

using Layer = ls::Attention<float, 6, 2, ls::Rope<ls::HalfSplit>, ls::PagedCache<>, ls::Hook>;
using Cache = Layer::Cache;
constexpr Shape shape{.hidden = 24, .heads = 6, .kv_heads = 2, .head_dim = 8};
constexpr Index hidden = shape.hidden;

// The prompt ends inside of a page: every fork of it writes into a page that it shares.
constexpr Index prompt = 300, users = 4, batch = 3, decoded = 4;
constexpr std::array<Index, 3> lengths{1, 9, 5};  // that the sequences of a batch append in one call, after decoding
constexpr Index appended = 15;

class ManySequences : public ::testing::Test {
 protected:
  ls::RopeTable<float> table = rope<float>(shape.head_dim, 2 * prompt);
  Layer serial = make_layer<Layer>(shape, table);
  ls::PagePool<float> pool{serial.cache_shape(), 2 + users* batch};
  Cache common{pool};

  ManySequences() {
    const auto x = numbers<float>(prompt * hidden, 7);
    std::vector<float> y(x.size());
    serial.forward(rows_of(x, 0, prompt, hidden), common, rows_of(y, 0, prompt, hidden));
  }

  /// The tokens of a user's batch: those decoded, [decoded, batch, hidden], then those appended, [appended, hidden].
  static std::vector<float> tokens_of(Index user) {
    return numbers<float>((decoded * batch + appended) * hidden, 100 + static_cast<std::uint64_t>(user));
  }
  /// Sequences of one user are of different lengths from the start.
  Cache fork(Index user, Index b) const { return common.fork(prompt - user - 10 * b); }

  /// A user's batch, all sequences in each call.
  std::vector<float> together(const Layer& layer, Index user) const {
    const auto x = tokens_of(user);
    std::vector<float> y(x.size());
    std::vector<Cache> caches;
    for (Index b = 0; b < batch; ++b) caches.push_back(fork(user, b));
    for (Index i = 0; i < decoded; ++i)
      layer.forward(ls::View<const float, 3>::contiguous(x.data() + i * batch * hidden, {batch, 1, hidden}), caches,
                    ls::View<float, 3>::contiguous(y.data() + i * batch * hidden, {batch, 1, hidden}));
    Layer::Options options;
    options.lengths = lengths;
    layer.forward(rows_of(x, decoded * batch, appended, hidden), caches, rows_of(y, decoded * batch, appended, hidden),
                  options);
    return y;
  }
  /// The same sequences one after the other, without other threads.
  std::vector<float> alone(Index user) const {
    const auto x = tokens_of(user);
    std::vector<float> y(x.size());
    Index first = decoded * batch;
    for (Index b = 0; b < batch; ++b) {
      Cache cache = fork(user, b);
      for (Index row = b; row < decoded * batch; row += batch)
        serial.forward(rows_of(x, row, 1, hidden), cache, rows_of(y, row, 1, hidden));
      const Index rows = lengths[at(b)];
      serial.forward(rows_of(x, first, rows, hidden), cache, rows_of(y, first, rows, hidden));
      first += rows;
    }
    return y;
  }
  /// A batch without caches: the layer's own serve it.
  static std::vector<float> without_caches(const Layer& layer, Index user) {
    const auto x = tokens_of(user);
    std::vector<float> y(x.size());
    const Index rows = decoded * batch + appended;
    layer.forward(rows_of(x, 0, rows, hidden), rows_of(y, 0, rows, hidden));
    return y;
  }

  /// All users at once on one layer, a few times over.
  void expect_bits_of_alone(const ls::Hook& executor) const {
    const Layer layer = make_layer<Layer>(shape, table, executor);
    std::vector<std::vector<float>> expected(at(users)), expected_full = expected, got = expected, got_full = expected;
    for (Index user = 0; user < users; ++user) {
      expected[at(user)] = alone(user);
      expected_full[at(user)] = without_caches(serial, user);
    }
    for (int round = 0; round < 3; ++round) {
      std::vector<std::thread> threads;
      for (Index user = 0; user < users; ++user)
        threads.emplace_back([&, user] {
          got[at(user)] = together(layer, user);
          got_full[at(user)] = without_caches(layer, user);
        });
      for (std::thread& thread : threads) thread.join();
      for (Index user = 0; user < users; ++user) {
        EXPECT_TRUE(same_bits(expected[at(user)], got[at(user)], hidden)) << "user " << user << ", round " << round;
        EXPECT_TRUE(same_bits(expected_full[at(user)], got_full[at(user)], hidden)) << "user " << user;
      }
    }
    EXPECT_EQ(pool.free_pages(), users * batch) << "pages that were not given back";
  }
};

// The layer is compiled once, for hooks; through them the tasks reach each of the library's executors.
template <class Executor>
ls::Hook through_hook(const Executor& executor) {
  const auto run = [](void* context, Index n, ls::Hook::Task task, void* argument) {
    const auto one = [=](Index i) { task(argument, i); };
    static_cast<const Executor*>(context)->run(n, one);
  };
  return {run, const_cast<Executor*>(&executor), executor.concurrency(), 0};  // small work too
}

TEST_F(ManySequences, OnTheCallersThreadHaveTheBitsOfEachAlone) {
  const ls::Serial executor;
  expect_bits_of_alone(through_hook(executor));
}

TEST_F(ManySequences, OnEigensThreadPoolHaveTheBitsOfEachAlone) {
  Eigen::ThreadPool threads(2);
  const ls::ThreadPool executor(threads, 0);
  expect_bits_of_alone(through_hook(executor));
}

TEST_F(ManySequences, OnFreshThreadsHaveTheBitsOfEachAlone) {
  const auto run = [](void*, Index n, ls::Hook::Task task, void* argument) {
    std::vector<std::thread> threads;
    for (Index i = 1; i < n; ++i) threads.emplace_back(task, argument, i);
    task(argument, 0);
    for (std::thread& thread : threads) thread.join();
  };
  expect_bits_of_alone(ls::Hook(run, nullptr, 3, 0));
}

// Caches take and give back pages while other threads fork, write and drop theirs.
TEST_F(ManySequences, ShareThePagesOfOnePool) {
  std::vector<std::thread> threads;
  std::array<bool, users> right{};
  for (Index user = 0; user < users; ++user)
    threads.emplace_back([&, user] {
      bool all = true;
      const std::vector<float> row(at(shape.kv_heads * shape.head_dim), static_cast<float>(user));
      const auto rows = ls::View<const float, 3>::contiguous(row.data(), {1, shape.kv_heads, shape.head_dim});
      for (int i = 0; i < 50; ++i) {
        Cache cache = common.fork(prompt - user);
        Cache other = cache.fork(10);
        cache.append(rows, rows);
        other.append(rows, rows);
        cache.truncate(256);
        std::vector<float> keys(at(shape.kv_heads * other.length() * shape.head_dim));
        other.export_keys(
            ls::View<float, 3>::contiguous(keys.data(), {shape.kv_heads, other.length(), shape.head_dim}));
        all = all && keys[at(10 * shape.head_dim)] == static_cast<float>(user);
      }
      right[at(user)] = all;
    });
  for (std::thread& thread : threads) thread.join();
  for (Index user = 0; user < users; ++user) EXPECT_TRUE(right[at(user)]) << "user " << user;
  EXPECT_EQ(pool.free_pages(), users * batch);
}

}  // namespace
