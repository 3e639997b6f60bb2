// The caller's own threads as executor: one function pointer.
#pragma once

#include <type_traits>

#include "lockstep/plain.hpp"
#include "lockstep/tasks.hpp"

namespace lockstep {

/// Hands work to the caller's pool: `run_tasks(context, n, task, argument)` must call task(argument, i) once for each i
/// in [0, n), in any order and on any threads, and return when all have returned. `threads`: how many of them may run
/// at once. `parallel_from`: nanoseconds of work from which on they are used.
class Hook {
 public:
  static constexpr PolicyKind policy_kind = PolicyKind::executor;
  static constexpr const char* name = "hook";
  using Task = void (*)(void* argument, Index i);                                ///< task i of a run
  using RunTasks = void (*)(void* context, Index n, Task task, void* argument);  ///< runs them all

  Hook() noexcept = default;
  /// Borrows the context, which must outlive every layer that has the hook.
  Hook(RunTasks run_tasks, void* context, Index threads, Index parallel_from = parallel_from_nanoseconds) noexcept
      : run_(run_tasks), context_(context), threads_(threads), parallel_from_(parallel_from) {}

  Index concurrency() const noexcept { return run_ == nullptr || threads_ < 1 ? 1 : threads_; }

  Index parallel_from() const noexcept { return parallel_from_; }

  template <class F>
  void run(Index n, F&& f) const {
    using Function = std::remove_reference_t<F>;
    if (run_ == nullptr) return Serial{}.run(n, f);
    const Task task = [](void* argument, Index i) { (*static_cast<Function*>(argument))(i); };
    run_(context_, n, task, const_cast<void*>(static_cast<const void*>(&f)));
  }

 private:
  RunTasks run_ = nullptr;
  void* context_ = nullptr;
  Index threads_ = 1;
  Index parallel_from_ = parallel_from_nanoseconds;
};

static_assert(Executor<Hook>);

}  // namespace lockstep
