// Whatever fails in the middle, memory or an executor: the call fails with that error, caches are as before, nothing
// leaks, and the same call succeeds afterwards with the bits it has anyway.
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <new>
#include <optional>
#include <span>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "allocation/counter.hpp"
#include "fixture.hpp"
#include "lockstep/executor/thread_pool.hpp"

namespace {

using namespace fixture;
using ls::View;

constexpr Shape shape{.hidden = 12, .heads = 4, .kv_heads = 2, .head_dim = 6, .v_head_dim = 4};
constexpr ls::CacheShape cache_shape{2, 6, 4};

// Few types for all tests, since each costs seconds to compile.
using Plain = ls::Attention<float, ls::Dynamic, ls::Dynamic, ls::Rope<ls::HalfSplit>, ls::Hook>;
using Paged = ls::Attention<float, ls::Dynamic, ls::Dynamic, ls::Specification, ls::PagedCache<>>;
using Ring =
    ls::Attention<float, ls::Dynamic, ls::Dynamic, ls::Specification, ls::SlidingWindow, ls::RingCache<>, ls::Hook>;

const std::vector<float>& input() {
  static const std::vector<float> x = numbers<float>(1300 * shape.hidden, 5);
  return x;
}
const Weights<float>& weights() {
  static const Weights<float> made(shape);
  return made;
}
template <class Cache>
std::string content(const Cache& cache) {
  std::ostringstream out;
  ls::save_cache(cache, out);
  return out.str();
}
std::string bytes_of(const std::vector<float>& v) {
  return {reinterpret_cast<const char*>(v.data()), v.size() * sizeof(float)};
}
View<const float, 3> rows(Index tokens, Index dim) {
  return View<const float, 3>::contiguous(input().data(), {tokens, 2, dim});
}
template <class Cache>
void fill(Cache& cache, Index tokens) {
  for (Index done = 0; done < tokens;) {
    const Index limit = ls::detail::append_limit(cache), n = tokens - done < limit ? tokens - done : limit;
    cache.append(rows(n, 6), rows(n, 4));
    done += n;
  }
}

/// Runs `call(scene)` on fresh scenes, failing its first, second, ... allocation until none is left. A scene has
/// `state()`, what must not change; `result()`, what a call leaves in the end.
template <class Make, class Call>
void survives(Make&& make, Call&& call) {
  if (!allocation::counts()) GTEST_SKIP() << "this platform's heap cannot be counted here";
  std::string expected;
  {
    auto scene = make();
    call(*scene);
    expected = scene->state() + scene->result();
  }
  bool more = true;
  for (long n = 0; more; ++n) {
    ASSERT_LT(n, 500);
    SCOPED_TRACE("allocation " + std::to_string(n) + " fails");
    const long live = allocation::live();
    bool changed = false, raised = false, differs = false;
    {
      auto scene = make();
      const std::string before = scene->state();
      allocation::fail_at(n);
      try {
        call(*scene);
      } catch (const std::exception&) {
        raised = true;
      }
      more = allocation::stop_failing();
      if (more) {
        changed = scene->state() != before;
        call(*scene);
      }
      differs = scene->state() + scene->result() != expected;
    }
    EXPECT_EQ(raised, more);
    EXPECT_FALSE(changed) << "state";
    EXPECT_FALSE(differs) << "after the repetition";
    EXPECT_EQ(allocation::live(), live) << "pieces leaked";
    if (testing::Test::HasFailure()) return;
  }
}

// A layer with caches, and where the results go.
template <class Layer>
struct Scene {
  std::optional<Layer> layer;
  std::vector<typename Layer::Cache> caches;
  std::vector<float> y = std::vector<float>(input().size());
  std::function<std::string()> besides = [] { return std::string(); };

  template <class... Values>
  explicit Scene(Values&&... values) {
    layer.emplace(shape.layer(), weights().views(), std::forward<Values>(values)...);
  }
  View<const float, 3> in(Index batch, Index q_len) const {
    return View<const float, 3>::contiguous(input().data(), {batch, q_len, shape.hidden});
  }
  View<float, 3> out(Index batch, Index q_len) {
    return View<float, 3>::contiguous(y.data(), {batch, q_len, shape.hidden});
  }
  std::string state() const {
    std::string all = besides();
    for (const auto& cache : caches) all += content(cache);
    return all;
  }
  std::string result() const { return bytes_of(y); }
};
ls::RopeTable<float> table() { return rope<float>(shape.head_dim, 1400); }

TEST(AllocationFails, InAForwardOfSequencesWhoseCachesGrow) {
  const auto make = [] {
    auto scene = std::make_unique<Scene<Plain>>(table());
    for (const Index length : {0, 256, 3}) {
      scene->caches.push_back(scene->layer->make_cache(600, ls::CacheMemory{.initial = 0}));
      fill(scene->caches.back(), length);
    }
    return scene;
  };
  survives(make, [](Scene<Plain>& s) { s.layer->forward(s.in(3, 7), s.caches, s.out(3, 7)); });
}

TEST(AllocationFails, InAPrefillAndInADecode) {
  for (const Index length : {0, 300}) {
    const auto make = [length] {
      auto scene = std::make_unique<Scene<Plain>>(table());
      scene->caches.push_back(scene->layer->make_cache(600));
      fill(scene->caches.back(), length);
      return scene;
    };
    const Index q_len = length == 0 ? 290 : 1;
    survives(make, [q_len](Scene<Plain>& s) { s.layer->forward(s.in(1, q_len), s.caches[0], s.out(1, q_len)); });
  }
}

TEST(AllocationFails, InAForwardWithoutACache) {
  survives([] { return std::make_unique<Scene<Plain>>(table()); },
           [](Scene<Plain>& s) { s.layer->forward(s.in(3, 5), s.out(3, 5)); });
}

TEST(AllocationFails, InARaggedBatchAndInATreeOnPages) {
  const auto make = [] {
    const ls::PagePool<float> pool(cache_shape, 8);
    auto scene = std::make_unique<Scene<Paged>>();
    for (const Index length : {0, 256, 300}) {
      scene->caches.push_back(scene->layer->make_cache(2000, pool));
      fill(scene->caches.back(), length);
    }
    scene->caches.push_back(scene->caches[2].fork());  // the last page is shared
    scene->besides = [pool] { return std::to_string(pool.free_pages()); };
    return scene;
  };
  survives(make, [](Scene<Paged>& s) {
    const std::array<Index, 4> lengths{5, 1, 0, 7};
    s.layer->forward(s.in(1, 13), s.caches, s.out(1, 13), {.lengths = lengths});
  });
  survives(make, [](Scene<Paged>& s) {
    const std::array<Index, 3> parents{-1, 0, 0};
    s.layer->forward_tree(s.in(1, 3), parents, s.caches[3], s.out(1, 3));
  });
}

TEST(AllocationFails, InARingThatIsCopiedForALongForward) {
  const auto make = [] {
    auto scene = std::make_unique<Scene<Ring>>(ls::SlidingWindow{20});
    scene->caches.push_back(scene->layer->make_cache(20, 30));
    fill(scene->caches.back(), 700);
    return scene;
  };
  survives(make, [](Scene<Ring>& s) { s.layer->forward(s.in(1, 100), s.caches[0], s.out(1, 100)); });
}

TEST(AllocationFails, InABatchOfRingsOfWhichTheLastIsCopied) {
  const auto make = [] {
    auto scene = std::make_unique<Scene<Ring>>(ls::SlidingWindow{20});
    for (const Index length : {512, 767, 700}) {
      scene->caches.push_back(scene->layer->make_cache(20, 30));
      fill(scene->caches.back(), length);
    }
    return scene;
  };
  survives(make, [](Scene<Ring>& s) {
    const std::array<Index, 3> lengths{1, 31, 40};
    s.layer->forward(s.in(1, 72), s.caches, s.out(1, 72), {.lengths = lengths});
  });
}

TEST(AllocationFails, InTheConstructionOfALayerAndOfWhatItIsMadeOf) {
  struct Nothing {
    std::string state() const { return {}; }
    std::string result() const { return {}; }
  };
  const std::vector<float>& some = input();
  const auto matrix = View<const float, 2>::contiguous(some.data(), {4, 6});
  const auto vector = View<const float, 1>::contiguous(some.data(), {6});
  const std::vector<std::function<void()>> calls{
      [] { const Plain layer(shape.layer(), weights().views()); },
      [] { const Plain layer(shape.layer(), weights().views(), table()); },
      [&] { const ls::RopeTable<float> made(matrix, matrix); },
      [&] { (void)ls::RopeTable<float>::borrowed(matrix, matrix); },
      [] { const ls::Alibi<float> made(5); },
      [&] { const ls::Alibi<float> made(vector); },
      [&] { const ls::RelativeBias<float> made(matrix, -3); },
      [&] { const ls::LearnedSinks<float> made(vector); },
      [&] { const ls::QkNorm<ls::BeforeRope, ls::PerHead, float> made(vector, vector); },
      [&] { (void)ls::repeat_kv_heads(rows(3, 4), 2); },
      [] { (void)ls::causal_mask(3, 4, 1); },
      [] { const ls::PagePool<float> made(cache_shape, 3); },
      [] {
        ls::ModelCache<ls::ContiguousCache<float>> made;
        made.add(ls::ContiguousCache<float>(cache_shape, 5));
        made.add(ls::ContiguousCache<float>(cache_shape, 5));
      },
      [&] {
        ls::PackedWeights<float> packed(4, 6);
        packed.place(0, matrix, {});
        Eigen::Matrix<float, 2, 6> x = Eigen::Matrix<float, 2, 6>::Ones();  // gathered: its columns are not adjacent
        Eigen::Matrix<float, 2, 4> y;
        ls::project(x, packed, y, ls::Serial{});
      },
  };
  for (std::size_t i = 0; i < calls.size(); ++i) {
    SCOPED_TRACE("call " + std::to_string(i));
    survives([] { return std::make_unique<Nothing>(); }, [&](Nothing&) { calls[i](); });
  }
}

// A cache, and one that it shares pages with.
template <class Cache>
struct Stored {
  Cache cache;
  std::optional<Cache> other;
  std::function<std::string()> besides = [] { return std::string(); };
  std::string left;
  std::string state() const { return content(cache) + (other ? content(*other) : "") + besides(); }
  std::string result() const { return left; }
};

template <class Cache>
void operations_survive(const std::function<std::unique_ptr<Stored<Cache>>()>& make) {
  const std::string saved = [&] {
    auto s = make();
    s->cache.append(rows(7, 6), rows(7, 4));
    return content(s->cache);
  }();
  using S = Stored<Cache>;
  const std::vector<std::function<void(S&)>> calls{
      [](S& s) { s.cache.append(rows(9, 6), rows(9, 4)); },
      [](S& s) { s.cache.reserve(9); },
      [](S& s) { s.cache.write(s.cache.length() - 2, rows(9, 6), rows(9, 4)); },
      [](S& s) { s.cache.write_circular(s.cache.length() - 2, rows(2, 6), rows(2, 4)); },
      [](S& s) {
        const std::array<Index, 2> path{1, 3};
        s.cache.keep(s.cache.length() - 5, path);
      },
      [](S& s) { s.cache.truncate(s.cache.length() - 1); },
      [](S& s) {
        const Cache copy = s.cache;
        s.left = content(copy);
      },
      [](S& s) {
        Cache copy = s.cache.empty_like();
        copy = s.cache;
        s.left = content(copy);
      },
      [](S& s) { s.cache.import(View<const float, 3>(rows(2, 6)), View<const float, 3>(rows(2, 4))); },
      [](S& s) { s.left = content(s.cache); },
      [&](S& s) {
        std::istringstream in(saved);
        ls::restore_cache(s.cache, in);
      },
  };
  for (std::size_t i = 0; i < calls.size(); ++i) {
    SCOPED_TRACE("call " + std::to_string(i));
    survives(make, calls[i]);
  }
}

TEST(AllocationFails, InWhatContiguousCachesOffer) {
  using Cache = ls::ContiguousCache<float>;
  const auto make = [] {
    auto s = std::make_unique<Stored<Cache>>();
    s->cache = Cache(cache_shape, 600, {.initial = 0});
    fill(s->cache, 254);
    return s;
  };
  operations_survive<Cache>(make);
  const ls::Rope<ls::HalfSplit, float> rope(table());
  survives(make, [&](Stored<Cache>& s) { s.cache.drop_oldest(3, rope, 1); });
  survives(make, [&](Stored<Cache>& s) { s.cache = Cache(cache_shape, 700); });
}

TEST(AllocationFails, InWhatPagedCachesOffer) {
  using Cache = ls::PagedCache<float>;
  const auto make = [] {
    const ls::PagePool<float> pool(cache_shape, 6);
    auto s = std::make_unique<Stored<Cache>>();
    s->cache = Cache(pool);
    fill(s->cache, 254);
    s->other = s->cache.fork();
    s->besides = [pool] { return std::to_string(pool.free_pages()); };
    return s;
  };
  operations_survive<Cache>(make);
  const ls::Rope<ls::HalfSplit, float> rope(table());
  survives(make, [&](Stored<Cache>& s) { s.cache.drop_oldest(3, rope, 1); });
  survives(make, [&](Stored<Cache>& s) { s.left = content(s.cache.fork(100)); });
}

TEST(AllocationFails, InWhatRingsOffer) {
  using Cache = ls::RingCache<float>;
  operations_survive<Cache>([] {
    auto s = std::make_unique<Stored<Cache>>();
    s->cache = Cache(cache_shape, 20, 30);
    fill(s->cache, 254);
    return s;
  });
}

// Attention without a layer, which takes memory for its own time, and its partial results.
struct Query {
  ls::ContiguousCache<float> cache{cache_shape, 1100};
  std::vector<float> context = std::vector<float>(3 * 4 * 4);
  ls::Partial<float> partial, first, second;
  View<const float, 3> q = View<const float, 3>::contiguous(input().data(), {3, 4, 6});
  View<float, 3> out = View<float, 3>::contiguous(context.data(), {3, 4, 4});
  Query() {
    fill(cache, 1100);
    ls::attend_partial<ls::Specification>(q, cache, first, {.offset = 1097, .places = {0, 1024}});
    ls::attend_partial<ls::Specification>(q, cache, second, {.offset = 1097, .places = {1024, 1100}});
  }
  std::string state() const { return content(cache); }
  std::string result() const { return bytes_of(context); }
};

TEST(AllocationFails, InAttentionOverACacheAndOverPlainMemory) {
  const auto make = [] { return std::make_unique<Query>(); };
  survives(make, [](Query& s) { ls::attend<ls::Specification>(s.q, s.cache, s.out); });
  survives(make, [](Query& s) {
    ls::attend<ls::Specification>(s.q, ls::PlainKeyValues<float>{rows(5, 6), rows(5, 4)}, s.out);
  });
}

TEST(AllocationFails, InPartialResultsAndLeavesNoneThatLooksWhole) {
  const auto make = [] { return std::make_unique<Query>(); };
  survives(make, [](Query& s) {
    try {
      ls::attend_partial<ls::Specification>(s.q, s.cache, s.partial, {.offset = 1097});
    } catch (const std::bad_alloc&) {
      EXPECT_EQ(s.partial.q_len(), 0);
      EXPECT_TRUE(s.partial.splits().empty());
      throw;
    }
    ls::finish(s.partial, s.out);
  });
  survives(make, [](Query& s) {
    try {
      s.first.merge(s.second);
    } catch (const std::bad_alloc&) {
      EXPECT_EQ(s.first.splits().size(), 1);
      throw;
    }
    ls::finish(s.first, s.out);
  });
}

TEST(AllocationFails, InAPoolOfASizeThatNoMachineHas) {
  if (!allocation::counts()) GTEST_SKIP() << "this platform's heap cannot be counted here";
  EXPECT_THROW(const ls::PagePool<float> made(cache_shape, Index{1} << 40), std::bad_alloc);
}

TEST(AllocationFails, WhileTasksAreHandedToAThreadPool) {
  if (!allocation::counts()) GTEST_SKIP() << "this platform's heap cannot be counted here";
  Eigen::ThreadPool threads(2);
  const ls::ThreadPool pool(threads);
  std::atomic<int> begun{0}, ended{0};
  const auto task = [&](Index) {
    ++begun;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ++ended;
  };
  pool.run(9, task);
  const auto settled = [] {  // a thread gives a task's memory back after the task has said that it is done
    long now = allocation::live(), before = now + 1;
    for (; now != before; now = allocation::live()) {
      before = now;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return now;
  };
  const long live = settled();
  bool failed = true;
  for (long n = 0; failed; ++n) {
    ASSERT_LT(n, 100);
    begun = ended = 0;
    bool raised = false;
    allocation::fail_at(n);
    try {
      pool.run(9, task);
    } catch (const std::bad_alloc&) {
      raised = true;
    }
    const int still_running = begun - ended;
    failed = allocation::stop_failing();
    EXPECT_EQ(still_running, 0) << "when run() had returned";
    EXPECT_EQ(raised, failed);
    begun = ended = 0;
    pool.run(9, task);
    EXPECT_EQ(ended, 9);
    EXPECT_EQ(settled(), live);
  }
}

// A caller's pool that does not do what it should.
struct Faulty {
  enum What {
    orderly,
    throws_at_once,
    throws_half_way,
    throws_in_the_end,
    runs_each_twice,
    invents_numbers,
    runs_one,
    runs_none,
    on_another_thread,
    slowly
  };
  What what = orderly;
  Index orderly_calls = 0;  // before that
  bool once = false;        // orderly again afterwards

  ls::Hook hook() { return {&Faulty::run, this, 3, 0}; }
  static void run(void* self, Index n, ls::Hook::Task task, void* argument) {
    auto& pool = *static_cast<Faulty*>(self);
    const bool good = pool.orderly_calls-- > 0;
    const What what = good ? orderly : pool.what;
    if (!good && pool.once) pool.what = orderly;
    if (what == throws_at_once) throw std::runtime_error("no threads");
    if (what == runs_none) return;
    if (what == on_another_thread) {
      std::thread([=] {
        for (Index i = n; i-- > 0;) task(argument, i);
      }).join();
      return;
    }
    for (Index i = 0; i < (what == runs_one ? 1 : n); ++i) {
      if (what == throws_half_way && i == n / 2) throw std::runtime_error("a thread is gone");
      if (what == slowly) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      for (int times = 0; times < (what == runs_each_twice ? 2 : 1); ++times)
        task(argument, what == invents_numbers ? i * 1000 - 5 : i);
    }
    if (what == throws_in_the_end) throw std::runtime_error("the last thread is gone");
  }
};

// Prefill, decode over more than one split, and no cache; one after the other.
template <class Layer>
std::string used(const Layer& layer, std::vector<typename Layer::Cache>& caches, bool tolerant = false) {
  std::string all;
  std::vector<float> y(input().size());
  const auto call = [&](Index batch, Index q_len, auto&&... with_caches) {
    const auto in = View<const float, 3>::contiguous(input().data(), {batch, q_len, shape.hidden});
    const auto out = View<float, 3>::contiguous(y.data(), {batch, q_len, shape.hidden});
    for (bool done = false; !done;) {
      std::string before;
      for (const auto& cache : caches) before += content(cache);
#if defined(__SSE__)
      const unsigned host = _mm_getcsr();
#endif
      try {
        layer.forward(in, with_caches..., out);
        done = true;
      } catch (const std::exception&) {
        if (!tolerant) throw;
        std::string after;
        for (const auto& cache : caches) after += content(cache);
        EXPECT_TRUE(before == after) << "a forward that failed changed a cache";
      }
#if defined(__SSE__)
      EXPECT_EQ(_mm_getcsr() & 0xffc0u, host & 0xffc0u) << "the host's floating-point environment";
#endif
    }
    all += bytes_of(y);
  };
  call(1, 30, caches[0]);
  call(2, 1, caches);
  call(1, 1, caches[1]);
  if constexpr (!ls::detail::LimitsAppends<typename Layer::Cache>) call(2, 9);
  for (const auto& cache : caches) all += content(cache);
  return all;
}
std::vector<Plain::Cache> caches_of(const Plain& layer) {
  std::vector<Plain::Cache> caches;
  for (const Index length : {0, 1030}) {
    caches.push_back(layer.make_cache(1100));
    fill(caches.back(), length);
  }
  return caches;
}

TEST(AnExecutor, MayRunJobsTwiceOutOfOrderOnOneThreadOrOnlySomeOfThem) {
  Faulty pool;
  const Plain layer(shape.layer(), weights().views(), table(), pool.hook());
  const Plain serial(shape.layer(), weights().views(), table());
  auto caches = caches_of(serial);
  const std::string expected = used(serial, caches);
  for (const Faulty::What what : {Faulty::orderly, Faulty::runs_each_twice, Faulty::invents_numbers, Faulty::runs_one,
                                  Faulty::on_another_thread, Faulty::slowly}) {
    pool.what = what;
    caches = caches_of(layer);
    EXPECT_TRUE(used(layer, caches) == expected) << "fault " << what;
  }
}

TEST(AnExecutor, ThatThrowsOrRunsNothingFailsTheCallAndNoMore) {
  Faulty pool;
  const Plain layer(shape.layer(), weights().views(), table(), pool.hook());
  auto caches = caches_of(layer);
  const std::string expected = used(layer, caches);
  for (const Faulty::What what :
       {Faulty::throws_at_once, Faulty::throws_half_way, Faulty::throws_in_the_end, Faulty::runs_none}) {
    caches = caches_of(layer);
    const std::string before = content(caches[1]);
    pool.what = what;
    std::vector<float> y(at(shape.hidden));
    try {
      layer.forward(View<const float, 2>::contiguous(input().data(), {1, shape.hidden}), caches[1],
                    View<float, 2>::contiguous(y.data(), {1, shape.hidden}));
      ADD_FAILURE() << "no error";
    } catch (const std::invalid_argument& error) {
      EXPECT_EQ(what, Faulty::runs_none) << error.what();
      EXPECT_EQ(std::string(error.what()).rfind("lockstep: executor: given one that returned with 0 of", 0), 0U)
          << error.what();
    } catch (const std::runtime_error& error) {
      EXPECT_NE(what, Faulty::runs_none) << error.what();
    }
    EXPECT_TRUE(content(caches[1]) == before);
    // At the first, second, ... use of the executor, until there is none; the call that fails is repeated.
    Index good = 0;
    for (bool used_so_often = true; used_so_often; ++good) {
      ASSERT_LT(good, 100);
      pool = {.what = what, .orderly_calls = good, .once = true};
      caches = caches_of(layer);
      EXPECT_TRUE(used(layer, caches, true) == expected) << "fault " << what << " at use " << good;
      used_so_often = std::exchange(pool, {}).what == Faulty::orderly;
    }
    EXPECT_GT(good, 6);
  }
}

// Rings that wrap in the call: what can be read, where they may be cut off, and what comes next.
template <class Cache>
std::string seen(const Cache& cache) {
  std::string all = content(cache) + std::to_string(cache.first());
  for (Index n = 0; n <= cache.length(); ++n) all += cache.check_truncate(n).message();
  return all;
}

TEST(AnExecutor, ThatThrowsLeavesARingAsItWas) {
  Faulty pool;
  const Ring layer(shape.layer(), weights().views(), ls::SlidingWindow{20}, pool.hook());
  std::vector<float> y(input().size());
  int failures = 0;
  for (const ls::RingSize size : {ls::RingSize{20, 30}, ls::RingSize{20, 30, 4}, ls::RingSize{257, 256}})
    for (const Index length : {100, 500, 511, 512, 768, 1000})
      for (const Index q_len : {1, 30, 100, 257}) {
        Ring::Cache untouched(cache_shape, size);
        fill(untouched, length);
        const std::string before = seen(untouched);
        const auto forward = [&](Ring::Cache& cache) {
          layer.forward(View<const float, 2>::contiguous(input().data(), {q_len, shape.hidden}), cache,
                        View<float, 2>::contiguous(y.data(), {q_len, shape.hidden}));
          return bytes_of(y) + seen(cache);
        };
        Ring::Cache cache = untouched;
        pool = {};
        const std::string right = forward(untouched);
        for (Index good = 0;; good += 1 + good / 4) {
          pool = {.what = Faulty::throws_in_the_end, .orderly_calls = good, .once = true};
          SCOPED_TRACE(testing::Message() << "length " << length << ", " << q_len << " rows, use " << good);
          try {
            ASSERT_TRUE(forward(cache) == right);
            break;
          } catch (const std::runtime_error&) {
            ++failures;
          }
          ASSERT_TRUE(seen(cache) == before);
        }
      }
  EXPECT_GT(failures, 200);
}

/// How often call() fails with an executor that throws at its first, second, ... use; check() follows each failure.
template <class Call, class Check>
int failures_of(Faulty& pool, Call&& call, Check&& check) {
  for (int failures = 0;; ++failures) {
    pool = {.what = Faulty::throws_half_way, .orderly_calls = failures};
    try {
      call();
      pool = {};
      return failures;
    } catch (const std::runtime_error&) {
      check();
    }
  }
}

TEST(AnExecutor, ThatThrowsFailsTreesAttentionPartsAndProjectionsToo) {
  Faulty pool;
  const Plain layer(shape.layer(), weights().views(), table(), pool.hook());
  auto cache = layer.make_cache(1100);
  fill(cache, 1030);
  const std::vector<Index> parents{-1, 0, 0};
  std::vector<float> y(at(3 * shape.hidden)), expected = y;
  const auto tree = [&] {
    layer.forward_tree(rows_of(input(), 0, 3, shape.hidden), parents, cache, rows_of(y, 0, 3, shape.hidden));
  };
  tree();
  y.swap(expected);
  cache.truncate(1030);
  const std::string before = content(cache);
  const auto unchanged = [&] { EXPECT_TRUE(content(cache) == before); };
  EXPECT_GT(failures_of(pool, tree, unchanged), 2);
  EXPECT_EQ(y, expected);
  EXPECT_EQ(cache.length(), 1033);
  cache.truncate(1030);

  const auto q = View<const float, 3>::contiguous(input().data(), {3, shape.heads, shape.head_dim});
  std::vector<float> context(at(3 * shape.heads * 4)), alone = context;
  const auto view = [&](std::vector<float>& memory) {
    return View<float, 3>::contiguous(memory.data(), {3, shape.heads, 4});
  };
  ls::attend(q, cache, view(alone));
  const auto attend = [&] { ls::attend<ls::Hook>(q, cache, view(context), {.executor = pool.hook()}); };
  EXPECT_GT(failures_of(pool, attend, unchanged), 1);
  EXPECT_EQ(context, alone);

  ls::Partial<float> partial;
  const auto part = [&] { ls::attend_partial<ls::Hook>(q, cache, partial, {.offset = 1027, .executor = pool.hook()}); };
  EXPECT_GT(failures_of(pool, part, [&] { EXPECT_EQ(partial.q_len(), 0); }), 0);
  context.assign(context.size(), 0);
  ls::finish(partial, view(context));
  EXPECT_EQ(context, alone);

  ls::PackedWeights<float> packed(200, shape.hidden);
  packed.place(0, View<const float, 2>::contiguous(input().data(), {200, shape.hidden}), {});
  std::vector<float> product(at(3 * 200)), serial = product;
  const auto x = rows_of(input(), 0, 3, shape.hidden);
  ls::project(x, packed, rows_of(serial, 0, 3, 200), ls::Serial{});
  const auto project = [&] { ls::project(x, packed, rows_of(product, 0, 3, 200), pool.hook()); };
  EXPECT_GT(failures_of(pool, project, unchanged), 0);
  EXPECT_EQ(product, serial);
}

TEST(AnExecutor, ThatThrowsLeavesAForkAndWhatItWasForkedFromAsTheyWere) {
  using OnPages = ls::Attention<float, ls::Dynamic, ls::Dynamic, ls::Specification, ls::PagedCache<>, ls::Hook>;
  Faulty pool;
  const OnPages layer(shape.layer(), weights().views(), pool.hook());
  const ls::PagePool<float> pages(cache_shape, 6);
  OnPages::Cache parent(pages, 600);
  fill(parent, 300);
  OnPages::Cache fork = parent.fork();
  const std::string before = content(parent);
  std::vector<float> y(at(5 * shape.hidden));
  const auto forward = [&] {
    layer.forward(rows_of(input(), 0, 5, shape.hidden), fork, rows_of(y, 0, 5, shape.hidden));
  };
  EXPECT_GT(failures_of(pool, forward,
                        [&] {
                          EXPECT_TRUE(content(parent) == before);
                          EXPECT_TRUE(content(fork) == before);
                        }),
            1);
  EXPECT_TRUE(content(parent) == before);
  EXPECT_EQ(fork.length(), 305);
  fork.truncate(0);
  parent.truncate(0);
  EXPECT_EQ(pages.free_pages(), 6);
}

}  // namespace
