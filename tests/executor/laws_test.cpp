// Every executor keeps the laws, and one that breaks a law is found.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "conformance/executor.hpp"
#include "lockstep/executor/hook.hpp"
#include "lockstep/executor/thread_pool.hpp"
#include "lockstep/plain.hpp"

namespace ls = lockstep;
using conformance::SubjectName;
using ls::Index;

namespace {

struct SerialSubject {
  static constexpr const char* name = "Serial";
  ls::Serial make() const { return {}; }
};

// A fresh thread for every other task, `threads` at a time: enough to show what a hook is for.
void run_on_threads(void* context, Index n, ls::Hook::Task task, void* argument) {
  const Index threads = *static_cast<const Index*>(context);
  for (Index first = 0; first < n; first += threads) {
    std::vector<std::thread> running;
    for (Index i = first + 1; i < n && i < first + threads; ++i) running.emplace_back(task, argument, i);
    task(argument, first);
    for (std::thread& t : running) t.join();
  }
}
struct HookSubject {
  static constexpr const char* name = "Hook";
  std::unique_ptr<Index> threads = std::make_unique<Index>(4);
  ls::Hook make() const { return {run_on_threads, threads.get(), *threads}; }
};
struct EmptyHookSubject {
  static constexpr const char* name = "HookWithoutFunction";
  ls::Hook make() const { return {}; }
};

template <int Threads>
struct ThreadPoolSubject {
  static constexpr const char* name = Threads == 1 ? "ThreadPoolOfOne" : "ThreadPoolOfThree";
  std::unique_ptr<Eigen::ThreadPool> pool = std::make_unique<Eigen::ThreadPool>(Threads);
  ls::ThreadPool make() const { return *pool; }
};
struct NoThreadPoolSubject {
  static constexpr const char* name = "ThreadPoolWithoutPool";
  ls::ThreadPool make() const { return {}; }
};

using Subjects = testing::Types<SerialSubject, HookSubject, EmptyHookSubject, ThreadPoolSubject<1>,
                                ThreadPoolSubject<3>, NoThreadPoolSubject>;

struct ForgetsTheLast : ls::Serial {
  template <class F>
  void run(Index n, F&& f) const {
    for (Index i = 0; i < (n > 3 ? n - 1 : n); ++i) f(i);
  }
};
struct SkipsEveryOther : ls::Serial {
  template <class F>
  void run(Index n, F&& f) const {
    for (Index i = 0; i < n; i += 2) f(i);
  }
};
struct MoreThanSaid : HookSubject {
  ls::Hook make() const { return {run_on_threads, threads.get(), 1}; }
};
struct SaysNone : ls::Serial {
  Index concurrency() const noexcept { return 0; }
};

TEST(Hook, HasAtLeastOneThread) {
  Index threads = 1;
  EXPECT_EQ(ls::Hook(run_on_threads, &threads, 0).concurrency(), 1);
  EXPECT_EQ(ls::Hook(run_on_threads, &threads, -5).concurrency(), 1);
  EXPECT_EQ(ls::Hook(nullptr, nullptr, 8).concurrency(), 1);
  EXPECT_EQ(ls::Hook(run_on_threads, &threads, 8).concurrency(), 8);
}

TEST(ThreadPool, CountsTheCallerToo) {
  Eigen::ThreadPool pool(3);
  EXPECT_EQ(ls::ThreadPool(pool).concurrency(), 4);
  EXPECT_EQ(ls::ThreadPool().concurrency(), 1);
}

// An engine that runs its sequences as tasks of the pool which its layers have.
TEST(ThreadPool, MayBeUsedByItsOwnThreads) {
  constexpr int threads = 3;
  std::array<std::vector<int>, threads> times;
  std::atomic<int> arrived{0};
  {
    Eigen::ThreadPool pool(threads);
    const ls::ThreadPool executor(pool);
    for (auto& mine : times)
      pool.Schedule([&mine, &arrived, executor] {
        mine.resize(50);
        ++arrived;
        while (arrived < threads) std::this_thread::yield();  // no thread of the pool is left
        executor.run(50, [&mine](Index i) { ++mine[static_cast<std::size_t>(i)]; });
      });
  }  // the pool waits for its tasks
  for (const auto& mine : times) EXPECT_EQ(mine, std::vector<int>(50, 1));
}

}  // namespace

INSTANTIATE_TYPED_TEST_SUITE_P(Library, ExecutorLaws, Subjects, SubjectName);

TEST(ExecutorConformance, FindsEachBrokenLaw) {
  EXPECT_EQ(conformance::executor_laws(SerialSubject{}), "");
  EXPECT_NE(conformance::each_task_runs_once(ForgetsTheLast{}), "");
  EXPECT_NE(conformance::each_task_runs_once(SkipsEveryOther{}), "");
  const MoreThanSaid more;
  EXPECT_NE(conformance::runs_no_more_at_once_than_said(more.make()), "");
  EXPECT_NE(conformance::concurrency_is_at_least_one(SaysNone{}), "");
}
