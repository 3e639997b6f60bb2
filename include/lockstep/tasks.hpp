// How work is handed to an executor: numbered tasks, taken in order by as many slots as may run at once.
#pragma once

#include <atomic>

#include "lockstep/contract.hpp"

namespace lockstep {

namespace detail {

/// Runs work(slot, task) for every task in [0, tasks), slot < executor.concurrency(): one slot runs one task at a time, so scratch
/// is per slot. Tasks are taken in order. Each slot has the default floating-point environment.
template <class Run, class Work>
void for_each_task(const Run& executor, Index tasks, Work&& work) {
  const Index concurrency = executor.concurrency();
  const Index slots = tasks < concurrency ? tasks : concurrency;
  if (slots <= 1) {
    const FloatEnvironment environment;
    for (Index task = 0; task < tasks; ++task) work(Index{0}, task);
    return;
  }
  std::atomic<Index> next{0};
  auto slot_work = [&next, &work, tasks](Index slot) noexcept {
    const FloatEnvironment environment;
    for (Index task = next.fetch_add(1, std::memory_order_relaxed); task < tasks; task = next.fetch_add(1, std::memory_order_relaxed)) work(slot, task);
  };
  executor.run(slots, slot_work);
}

}  // namespace detail

}  // namespace lockstep
