// Threads that spin for a while between jobs, for the Hook executor: what an engine with its own pool would bring.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "lockstep/executor/hook.hpp"

namespace bench {

/// A fork-join over threads - 1 workers and the caller. A worker spins after a job, since the next one of a layer comes
/// within microseconds and waking a parked thread takes tens of them, and parks when none comes.
class SpinningThreads {
 public:
  explicit SpinningThreads(lockstep::Index threads) {
    for (lockstep::Index i = 1; i < threads; ++i) workers_.emplace_back([this] { work(); });
  }
  SpinningThreads(const SpinningThreads&) = delete;
  SpinningThreads& operator=(const SpinningThreads&) = delete;
  ~SpinningThreads() {
    stopped_ = true;
    announce();
    for (std::thread& worker : workers_) worker.join();
  }

  /// Borrows these threads.
  lockstep::Hook executor() noexcept {
    return {&SpinningThreads::run, this, static_cast<lockstep::Index>(workers_.size()) + 1};
  }

 private:
  static constexpr std::chrono::microseconds spin{200};

  static void run(void* context, lockstep::Index n, lockstep::Hook::Task task, void* argument) {
    auto& self = *static_cast<SpinningThreads*>(context);
    self.task_ = task;
    self.argument_ = argument;
    self.tasks_ = n;
    self.next_.store(0, std::memory_order_relaxed);
    self.busy_.store(self.workers_.size(), std::memory_order_relaxed);
    self.announce();
    self.take_tasks();
    while (self.busy_.load(std::memory_order_acquire) != 0) pause();
  }

  void announce() {
    job_.fetch_add(1, std::memory_order_release);
    job_.notify_all();
  }
  void take_tasks() {
    for (lockstep::Index i = next_.fetch_add(1, std::memory_order_relaxed); i < tasks_;
         i = next_.fetch_add(1, std::memory_order_relaxed))
      task_(argument_, i);
  }
  void work() {
    for (unsigned done = 0;; ++done) {
      wait_for_job_after(done);
      if (stopped_) return;
      take_tasks();
      busy_.fetch_sub(1, std::memory_order_release);
    }
  }
  void wait_for_job_after(unsigned done) {
    const auto park = std::chrono::steady_clock::now() + spin;
    while (job_.load(std::memory_order_acquire) == done) {
      if (std::chrono::steady_clock::now() > park)
        job_.wait(done, std::memory_order_acquire);
      else
        pause();
    }
  }
  static void pause() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    std::this_thread::yield();
#endif
  }

  std::vector<std::thread> workers_;
  lockstep::Hook::Task task_ = nullptr;
  void* argument_ = nullptr;
  lockstep::Index tasks_ = 0;
  bool stopped_ = false;
  alignas(64) std::atomic<unsigned> job_{0};
  alignas(64) std::atomic<lockstep::Index> next_{0};
  alignas(64) std::atomic<std::size_t> busy_{0};
};

}  // namespace bench
