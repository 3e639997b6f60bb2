// A mask of one's own: each nth key, counted back from the query's own.
#pragma once

#include "lockstep/concepts.hpp"

namespace custom {

/// Visible: key <= place, (place - key) a multiple of n. Together with a window, SlidingWindow{n} | EveryNth{n}, this
/// is the strided pattern of the Sparse Transformer (Child et al. 2019, arXiv 1904.10509): any key is two steps away.
/// Refused: n below 1, which a default-constructed value has.
struct EveryNth {
  static constexpr lockstep::PolicyKind policy_kind = lockstep::PolicyKind::mask;
  static constexpr const char* name = "every nth key";

  lockstep::Index n = 0;

  // Nothing outside is visible; what is never visited costs nothing.
  lockstep::KeyRange range(lockstep::QueryRow q, lockstep::Index kv_len) const noexcept {
    return lockstep::intersection({0, q.place + 1}, {0, kv_len});
  }
  // Said of a part of the range without a look at single keys. `some` is always right, and means: ask visible().
  lockstep::Visibility block(lockstep::QueryRow q, lockstep::KeyRange keys) const noexcept {
    const lockstep::Index last = keys.last - 1;
    const lockstep::Index last_seen = q.place - lockstep::round_up(q.place - last, n);
    if (last_seen < keys.first) return lockstep::Visibility::none;
    return n == 1 || keys.size() == 1 ? lockstep::Visibility::all : lockstep::Visibility::some;
  }
  bool visible(lockstep::QueryRow q, lockstep::Index key) const noexcept {
    return key <= q.place && (q.place - key) % n == 0;
  }
  // No row sees a key after its own: a cached forward never has to wait.
  lockstep::Index keys_needed(lockstep::QueryRow q) const noexcept { return q.place + 1; }

  lockstep::Status check() const noexcept {
    if (n < 1) return lockstep::Status::invalid("mask", "given every {}th key, allowed from 1", n);
    return {};
  }
};

static_assert(lockstep::Mask<EveryNth>);

}  // namespace custom
