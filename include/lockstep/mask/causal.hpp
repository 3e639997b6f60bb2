// The causal mask: a query sees its own key and all before it; with the first query's place given by the caller instead
// of the cache length; with a prefix that all see; windows: so many keys before its own, and perhaps some after it or
// the first few of all; and no mask: every key that is present.
#pragma once

#include <Eigen/Core>
#include <limits>
#include <span>

#include "lockstep/concepts.hpp"

namespace lockstep {

/// Visible: key <= place, where place = offset + row and offset is the number of keys before the first query. With a
/// cache this is the bottom-right aligned triangle; for a whole prompt (offset 0) the usual one (Vaswani et al. 2017).
struct Causal {
  static constexpr PolicyKind policy_kind = PolicyKind::mask;
  static constexpr const char* name = "causal";

  KeyRange range(QueryRow q, Index kv_len) const noexcept { return intersection({0, q.place + 1}, {0, kv_len}); }
  Visibility block(QueryRow, KeyRange) const noexcept { return Visibility::all; }
  bool visible(QueryRow q, Index key) const noexcept { return key <= q.place; }
  Index keys_needed(QueryRow q) const noexcept { return q.place + 1; }
};

/// Bidirectional attention. Rows see keys that come later, so a layer takes it in one full forward only: a cached
/// forward, whose later chunks would have changed earlier rows, is refused. attend() takes it over whatever keys it is
/// given.
struct NoMask {
  static constexpr PolicyKind policy_kind = PolicyKind::mask;
  static constexpr const char* name = "none";

  KeyRange range(QueryRow, Index kv_len) const noexcept { return {0, kv_len}; }
  Visibility block(QueryRow, KeyRange) const noexcept { return Visibility::all; }
  bool visible(QueryRow, Index) const noexcept { return true; }
  Index keys_needed(QueryRow) const noexcept { return all_keys; }
};

namespace detail {

/// A row sees the keys before `keys_needed(q)` of the mask M, which says of a number by `allowed(n)` what is wrong with
/// it, and by `numbers` what they are called.
template <class M>
class PerSequence {
 public:
  static constexpr PolicyKind policy_kind = PolicyKind::mask;

  PerSequence() noexcept = default;
  /// One number for every sequence.
  explicit PerSequence(Index number) noexcept : number_(number) {}
  /// One for each sequence; borrowed.
  explicit PerSequence(std::span<const Index> numbers) noexcept : numbers_(numbers), each_(true) {}

  KeyRange range(QueryRow q, Index kv_len) const noexcept {
    return intersection({0, mask().keys_needed(q)}, {0, kv_len});
  }
  Visibility block(QueryRow, KeyRange) const noexcept { return Visibility::all; }
  bool visible(QueryRow q, Index key) const noexcept { return key < mask().keys_needed(q); }

  Status check() const noexcept { return M::allowed(number_); }
  Status check(Index sequences, Index, Index) const noexcept {
    if (!each_) return {};
    if (static_cast<Index>(numbers_.size()) < sequences)
      return Status::invalid("mask", "given {} {}, allowed one for each of {} sequences", numbers_.size(), M::numbers,
                             sequences);
    for (const Index number : numbers_.first(static_cast<std::size_t>(sequences)))
      if (Status s = M::allowed(number); !s.ok()) return s;
    return {};
  }
  ByteRange memory() const noexcept { return bytes_of(numbers_); }

 protected:
  Index number(QueryRow q) const noexcept { return each_ ? numbers_[static_cast<std::size_t>(q.sequence)] : number_; }

 private:
  const M& mask() const noexcept { return static_cast<const M&>(*this); }

  Index number_ = 0;
  std::span<const Index> numbers_;
  bool each_ = false;
};

}  // namespace detail

/// Visible: key <= offset + row, the offset being the place of row 0. A negative one is allowed: rows with offset + row
/// < 0 see nothing and give zeros. One offset for all sequences, or one for each (borrowed, at least as many as the
/// call has sequences), -2^62 to 2^62.
class OffsetCausal : public detail::PerSequence<OffsetCausal> {
 public:
  static constexpr const char* name = "causal from a given offset";
  using PerSequence::PerSequence;

  Index keys_needed(QueryRow q) const noexcept { return number(q) + q.row + 1; }

 private:
  friend PerSequence;
  static constexpr const char* numbers = "offsets";
  static Status allowed(Index offset) noexcept {
    return detail::check_offset(offset).ok()
               ? Status{}
               : Status::invalid("mask", "given an offset of {}, allowed -2^62 to 2^62", offset);
  }
};

/// Visible: key < prefix, or key <= place (Raffel et al. 2020, section 3.2.1). One prefix length for all sequences, or
/// one for each (borrowed, at least as many as the call has sequences). 0 is Causal. A row inside the prefix sees later
/// keys, so the whole prefix must be present with it: a chunk that ends within the prefix is refused. Refused: lengths
/// below 0.
class PrefixLm : public detail::PerSequence<PrefixLm> {
 public:
  static constexpr const char* name = "prefix LM";
  using PerSequence::PerSequence;

  Index keys_needed(QueryRow q) const noexcept {
    const Index prefix = number(q);
    return q.place + 1 > prefix ? q.place + 1 : prefix;
  }

 private:
  friend PerSequence;
  static constexpr const char* numbers = "prefix lengths";
  static Status allowed(Index prefix) noexcept {
    return prefix < 0 ? Status::invalid("mask", "given a prefix of {} keys, allowed at least 0", prefix) : Status{};
  }
};

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

static_assert(Mask<Causal> && Mask<NoMask> && Mask<OffsetCausal> && Mask<PrefixLm>);
static_assert(Mask<SlidingWindow> && Mask<Window>);

/// The additive matrix [q_len, kv_len] of the causal mask: 0 where query i sees key j (j <= i + offset), minus infinity
/// elsewhere. Errors: a length below 0, an offset beyond 2^62 on either side.
template <class T = float>
Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> causal_mask(Index q_len, Index kv_len, Index offset) {
  constexpr Index most = std::numeric_limits<Eigen::Index>::max();
  if (q_len < 0 || kv_len < 0 || q_len > most || kv_len > most)
    raise(Status::invalid("q_len, kv_len", "given {}, {}, allowed 0 to {} each", q_len, kv_len, most));
  raise_unless_ok(detail::check_offset(offset));
  Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> mask(q_len, kv_len);
  for (Index i = 0; i < q_len; ++i)
    for (Index j = 0; j < kv_len; ++j)
      mask(i, j) = Causal{}.visible({.row = i, .place = i + offset}, j) ? T(0) : -std::numeric_limits<T>::infinity();
  return mask;
}

}  // namespace lockstep
