// How work is handed to an executor: numbered tasks, taken in order by as many slots as may run at once.
#pragma once

#include <atomic>

#include "lockstep/contract.hpp"

namespace lockstep {

/// Work, in nanoseconds of one core, below which the caller does everything: a fork and join costs it less than a
/// microsecond while workers spin, but some 70 once they are parked, and two threads win from 25 to 40 microseconds of
/// work on with the former, from 300 on with the latter (measured). The bits are the same either way.
inline constexpr Index parallel_from_nanoseconds = 40000;

namespace detail {

/// What a loop of tasks costs in all, roughly.
struct Effort {
  Index multiply_adds = 0;
  Index bytes = 0;  // that come from memory
  /// One core makes some 50 multiply-adds and reads some 10 bytes in a nanosecond.
  constexpr Index nanoseconds() const noexcept { return multiply_adds / 50 + bytes / 10; }
  constexpr void operator+=(Effort other) noexcept { multiply_adds += other.multiply_adds, bytes += other.bytes; }
};

/// How many slots an executor gets: what it says, within bounds that no machine reaches, so that scratch for each is a
/// size.
template <class Run>
Index concurrency_of(const Run& executor) noexcept {
  constexpr Index most = 4096;
  const Index said = executor.concurrency();
  return said < 1 ? 1 : said < most ? said : most;
}

/// Runs work(slot, task) for every task in [0, tasks), slot < concurrency_of(executor): one slot runs one task at a
/// time, so scratch is per slot. Tasks are taken in order. Each slot has the default floating-point environment. Slots
/// are numbered as they start, whatever numbers the executor hands out, and any of them takes all that is left: jobs
/// that run twice, or not all of them, change nothing. Errors: an executor that returns before all tasks were taken.
template <class Run, class Work>
void for_each_task(const Run& executor, Index tasks, Effort effort, Work&& work) {
  // An executor may say from how much work on it pays, by a member parallel_from().
  Index pays_from = parallel_from_nanoseconds;
  if constexpr (requires { executor.parallel_from(); }) pays_from = executor.parallel_from();
  const Index concurrency = effort.nanoseconds() < pays_from ? 1 : concurrency_of(executor);
  const Index slots = tasks < concurrency ? tasks : concurrency;
  if (slots <= 1) {
    const FloatEnvironment environment;
    for (Index task = 0; task < tasks; ++task) work(Index{0}, task);
    return;
  }
  std::atomic<Index> next{0}, started{0};
  auto slot_work = [&next, &started, &work, tasks, slots](Index) noexcept {
    const Index slot = started.fetch_add(1, std::memory_order_relaxed);
    if (slot >= slots) return;
    const FloatEnvironment environment;
    for (Index task = next.fetch_add(1, std::memory_order_relaxed); task < tasks;
         task = next.fetch_add(1, std::memory_order_relaxed))
      work(slot, task);
  };
  executor.run(slots, slot_work);
  if (next.load(std::memory_order_relaxed) < tasks)
    raise(Status::invalid("executor",
                          "given one that returned with {} of {} jobs begun, allowed one that runs all of them",
                          started.load(std::memory_order_relaxed), slots));
}

}  // namespace detail

}  // namespace lockstep
