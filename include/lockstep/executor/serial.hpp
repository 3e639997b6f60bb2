// The executor without threads: everything runs in the caller.
#pragma once

#include "lockstep/concepts.hpp"

namespace lockstep {

/// Runs the tasks one after the other: the default.
struct Serial {
  static constexpr PolicyKind policy_kind = PolicyKind::executor;
  static constexpr const char* name = "serial";
  Index concurrency() const noexcept { return 1; }
  template <class F>
  void run(Index n, F&& f) const {
    for (Index i = 0; i < n; ++i) f(i);
  }
};

static_assert(Executor<Serial>);

}  // namespace lockstep
