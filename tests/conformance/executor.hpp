// The laws of executors, for ours and for a user's own.
//
//     struct MyExecutorSubject {
//       static constexpr const char* name = "MyExecutor";
//       auto make() const { return MyExecutor{...}; }                   // may refer to threads that the subject owns
//     };
//     INSTANTIATE_TYPED_TEST_SUITE_P(Mine, ExecutorLaws, MyExecutorSubject, conformance::SubjectName);
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "conformance/report.hpp"
#include "lockstep/concepts.hpp"

namespace conformance {

using lockstep::Index;

/// At least one task may run at a time.
template <class E>
Report concurrency_is_at_least_one(const E& executor) {
  return executor.concurrency() >= 1 ? Report{} : said("concurrency() is ", executor.concurrency());
}

/// Each task runs once, and all have returned, and can be seen, when run() returns.
template <class E>
Report each_task_runs_once(const E& executor) {
  for (int repeat = 0; repeat < 20; ++repeat)
    for (const Index n : {Index{0}, Index{1}, Index{2}, Index{3}, Index{7}, executor.concurrency(),
                          executor.concurrency() + 1, Index{500}}) {
      std::vector<int> times(static_cast<std::size_t>(n));
      auto task = [&times](Index i) noexcept { ++times[static_cast<std::size_t>(i)]; };
      executor.run(n, task);
      for (Index i = 0; i < n; ++i)
        if (times[static_cast<std::size_t>(i)] != 1)
          return said("of ", n, " tasks, task ", i, " ran ", times[static_cast<std::size_t>(i)], " times");
    }
  return {};
}

/// Never more tasks at once than concurrency() says.
template <class E>
Report runs_no_more_at_once_than_said(const E& executor) {
  std::atomic<Index> running{0}, most{0};
  auto task = [&running, &most](Index) noexcept {
    const Index now = ++running;
    for (Index before = most.load(); before < now && !most.compare_exchange_weak(before, now);) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // long enough that others surely start meanwhile
    --running;
  };
  executor.run(24, task);
  return most.load() <= executor.concurrency()
             ? Report{}
             : said(most.load(), " tasks ran at once, concurrency() is ", executor.concurrency());
}

/// A copy runs tasks too.
template <class E>
Report copies_run_tasks(const E& executor) {
  const E copy = executor;
  return copy.concurrency() == executor.concurrency() ? each_task_runs_once(copy)
                                                      : said("a copy has another concurrency");
}

/// All laws.
template <class Subject>
Report executor_laws(const Subject& subject) {
  const auto executor = subject.make();
  static_assert(lockstep::Executor<std::remove_const_t<decltype(executor)>>);
  for (Report r : {concurrency_is_at_least_one(executor), each_task_runs_once(executor),
                   runs_no_more_at_once_than_said(executor), copies_run_tasks(executor)})
    if (!r.empty()) return r;
  return {};
}

}  // namespace conformance

template <class Subject>
class ExecutorLaws : public testing::Test {
 protected:
  Subject subject;
};
TYPED_TEST_SUITE_P(ExecutorLaws);
TYPED_TEST_P(ExecutorLaws, ConcurrencyIsAtLeastOne) {
  EXPECT_EQ(conformance::concurrency_is_at_least_one(this->subject.make()), "");
}
TYPED_TEST_P(ExecutorLaws, EachTaskRunsOnce) { EXPECT_EQ(conformance::each_task_runs_once(this->subject.make()), ""); }
TYPED_TEST_P(ExecutorLaws, RunsNoMoreAtOnceThanSaid) {
  EXPECT_EQ(conformance::runs_no_more_at_once_than_said(this->subject.make()), "");
}
TYPED_TEST_P(ExecutorLaws, CopiesRunTasks) { EXPECT_EQ(conformance::copies_run_tasks(this->subject.make()), ""); }
REGISTER_TYPED_TEST_SUITE_P(ExecutorLaws, ConcurrencyIsAtLeastOne, EachTaskRunsOnce, RunsNoMoreAtOnceThanSaid,
                            CopiesRunTasks);
