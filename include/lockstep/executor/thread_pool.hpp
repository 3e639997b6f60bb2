// Eigen's thread pool as executor.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>

#include <unsupported/Eigen/CXX11/ThreadPool>

#include "lockstep/plain.hpp"
#include "lockstep/tasks.hpp"

namespace lockstep {

/// Runs tasks on the pool's threads and on the caller; all of them on the caller where that is one of the pool's own
/// threads, which could wait for each other for ever. Borrows the pool, which must outlive every layer that has it.
/// `parallel_from`: nanoseconds of work from which on they are used.
class ThreadPool {
 public:
  static constexpr PolicyKind policy_kind = PolicyKind::executor;
  static constexpr const char* name = "Eigen thread pool";

  ThreadPool() noexcept = default;
  /// The pool's threads and the caller's.
  ThreadPool(Eigen::ThreadPoolInterface& pool, Index parallel_from = parallel_from_nanoseconds) noexcept
      : pool_(&pool), parallel_from_(parallel_from) {}

  Index concurrency() const noexcept { return pool_ == nullptr ? 1 : static_cast<Index>(pool_->NumThreads()) + 1; }

  Index parallel_from() const noexcept { return parallel_from_; }

  template <class F>
  void run(Index n, F&& f) const {
    if (n <= 0) return;
    if (pool_ == nullptr || pool_->CurrentThreadId() >= 0) return Serial{}.run(n, f);
    Jobs<F> jobs{f};
    for (Index i = 1; i < n; ++i) {
      pool_->Schedule([&jobs] { jobs.run_next(); });
      jobs.count(1);
    }
    f(Index{0});
  }

 private:
  /// What threads share, so that a task holds one pointer, for which std::function takes nothing from the heap. Waits
  /// in the end for what has been scheduled, also where scheduling more fails: this stands on the caller's stack.
  template <class F>
  struct Jobs {
    F& f;
    std::atomic<Index> next{1};
    Index left = 0;  // below 0 for a moment where a task is done before it is counted
    std::mutex mutex{};
    std::condition_variable none_left{};
    void run_next() {
      f(next.fetch_add(1, std::memory_order_relaxed));
      count(-1);
    }
    void count(Index tasks) {
      const std::lock_guard lock(mutex);
      left += tasks;
      if (left == 0) none_left.notify_one();
    }
    ~Jobs() {
      std::unique_lock lock(mutex);
      none_left.wait(lock, [this] { return left == 0; });
    }
  };
  Eigen::ThreadPoolInterface* pool_ = nullptr;
  Index parallel_from_ = parallel_from_nanoseconds;
};

static_assert(Executor<ThreadPool>);

}  // namespace lockstep
