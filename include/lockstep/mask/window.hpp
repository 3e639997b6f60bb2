// The window with two bounds: so many keys before the query's own, so many after it.
#pragma once

#include "lockstep/concepts.hpp"

namespace lockstep {

/// Visible: place - left <= key <= place + right. Bounds count the keys before and after the query's own, which is
/// always visible, as ONNX and FlashAttention count; `unbounded` sets no bound on that side (their -1). Window{W - 1,
/// 0} is SlidingWindow{W}; Window{} is no mask; Window{.right = 0} is Causal. Rows that see later keys need them
/// present: see keys_needed(). Refused: a bound below 0.
struct Window {
  static constexpr PolicyKind policy_kind = PolicyKind::mask;
  static constexpr const char* name = "window";
  static constexpr Index unbounded = all_keys;  ///< sets no bound

  Index left = unbounded;   ///< keys before the query's own
  Index right = unbounded;  ///< keys after it

  KeyRange range(QueryRow q, Index kv_len) const noexcept {
    return intersection({first(q), keys_needed(q)}, {0, kv_len});
  }
  Visibility block(QueryRow, KeyRange) const noexcept { return Visibility::all; }
  bool visible(QueryRow q, Index key) const noexcept { return first(q) <= key && key < keys_needed(q); }
  Index keys_needed(QueryRow q) const noexcept {
    return right == unbounded || q.place >= unbounded - right ? all_keys : q.place + right + 1;
  }

  Status check() const noexcept {
    if (left < 0 || right < 0)
      return Status::invalid(
          "mask",
          "given bounds of {} keys before and {} after the query's own, allowed at least 0 each, or Window::unbounded",
          left, right);
    return {};
  }

 private:
  constexpr Index first(QueryRow q) const noexcept { return q.place <= left ? 0 : q.place - left; }
};

static_assert(Mask<Window>);

}  // namespace lockstep
