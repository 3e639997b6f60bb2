// Ways in which a caller's pool may run tasks: in order, in reverse, shuffled, or on threads that start in either
// order.
#pragma once

#include <algorithm>
#include <thread>

#include "fixture.hpp"

namespace fixture {

enum class TaskOrder { forward, reverse, shuffled, threads };

/// Runs tasks in its order; threads start with `prepare` if there is one.
struct TestPool {
  TaskOrder order = TaskOrder::forward;
  void (*prepare)() = nullptr;
  Index calls = 0;

  /// Takes small work too, unless told from how many nanoseconds on.
  ls::Hook hook(Index threads, Index parallel_from = 0) { return {&TestPool::run, this, threads, parallel_from}; }

 private:
  static void run(void* self, Index n, ls::Hook::Task task, void* argument) {
    auto& pool = *static_cast<TestPool*>(self);
    std::vector<Index> tasks;
    for (Index i = 0; i < n; ++i) tasks.push_back(i);
    ++pool.calls;
    if (pool.order == TaskOrder::reverse || (pool.order == TaskOrder::threads && pool.calls % 2 == 0))
      std::reverse(tasks.begin(), tasks.end());
    if (pool.order == TaskOrder::shuffled) {
      Random random(static_cast<std::uint64_t>(pool.calls));
      for (Index i = n - 1; i > 0; --i) std::swap(tasks[at(i)], tasks[at(random.below(i + 1))]);
    }
    if (pool.order != TaskOrder::threads) {
      for (const Index i : tasks) task(argument, i);
      return;
    }
    std::vector<std::thread> threads;
    for (const Index i : tasks)
      threads.emplace_back([=, &pool] {
        if (pool.prepare != nullptr) pool.prepare();
        task(argument, i);
      });
    for (std::thread& thread : threads) thread.join();
  }
};

}  // namespace fixture
