// Windows: a query sees its own key and so many before it, and perhaps some after it or the first few of all.
#pragma once

#include "lockstep/concepts.hpp"

namespace lockstep {

/// Visible: place - window < key <= place, and key < sinks (up to the query's own). `window` counts the query's own
/// key, as Mistral and Hugging Face count (arXiv 2310.06825): 1 is the query alone. ONNX and FlashAttention count the
/// keys before it: theirs is this one minus 1. `sinks` first keys stay visible for ever (attention sinks, arXiv
/// 2309.17453), with their places as they were. A window of kv_len or more has the bits of Causal. Blocks outside are
/// not visited. Refused: a window below 1, which a default-constructed value has, and sinks below 0.
struct SlidingWindow {
  static constexpr PolicyKind policy_kind = PolicyKind::mask;
  static constexpr const char* name = "sliding window";

  Index window = 0;  ///< keys, the query's own among them
  Index sinks = 0;   ///< first keys that stay visible

  KeyRange range(QueryRow q, Index kv_len) const noexcept {
    return intersection({sinks > 0 ? 0 : window_first(q), q.place + 1}, {0, kv_len});
  }
  Visibility block(QueryRow q, KeyRange keys) const noexcept {
    const Index first = window_first(q);
    if (first <= sinks || keys.first >= first || keys.last <= sinks) return Visibility::all;
    return keys.first >= sinks && keys.last <= first ? Visibility::none : Visibility::some;
  }
  bool visible(QueryRow q, Index key) const noexcept {
    return key <= q.place && (key >= window_first(q) || key < sinks);
  }
  Index keys_needed(QueryRow q) const noexcept { return q.place + 1; }
  /// Sinks alone or a part of the window alone is one range; only a block that holds both is asked key by key.
  KeyRange narrowed(QueryRow q, KeyRange keys) const noexcept {
    const Index first = window_first(q);
    if (first <= sinks) return keys;
    if (keys.first >= sinks && keys.first < first) keys.first = first < keys.last ? first : keys.last;
    if (keys.last <= first && keys.last > sinks) keys.last = sinks > keys.first ? sinks : keys.first;
    return keys;
  }

  Status check() const noexcept {
    if (window < 1)
      return Status::invalid("mask", "given a window of {} keys, allowed at least 1: the query's own", window);
    if (sinks < 0) return Status::invalid("mask", "given {} sinks, allowed at least 0", sinks);
    return {};
  }

 private:
  // The first key of the window, 0 where it reaches the start. Never overflows: window is at least 1.
  constexpr Index window_first(QueryRow q) const noexcept { return q.place < window ? 0 : q.place - window + 1; }
};

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

static_assert(Mask<SlidingWindow> && Mask<Window>);

}  // namespace lockstep
