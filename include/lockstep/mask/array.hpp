// Masks given as arrays: flags over [batch, heads, q_len, kv_len], numbers to add to the logits, or flags that tell
// tokens from padding.
#pragma once

#include <limits>

#include "lockstep/concepts.hpp"
#include "lockstep/numeric/half.hpp"
#include "lockstep/numeric/rounded.hpp"

namespace lockstep {

namespace detail {

// What a mask that must look at each key says of a range: in steps of 16 keys without a branch, which compilers turn
// into vectors.

/// The first of `keys` for which sees(key) is not `value`; keys.last if there is none.
template <class Sees>
Index first_other(bool value, KeyRange keys, Sees&& sees) noexcept {
  Index key = keys.first;
  for (; key + lanes <= keys.last; key += lanes) {
    int others = 0;
    for (Index lane = 0; lane < lanes; ++lane) others |= sees(key + lane) != value ? 1 : 0;
    if (others != 0) break;
  }
  while (key < keys.last && sees(key) == value) ++key;
  return key;
}

/// The end of `keys` without the hidden ones that stand there; keys.first if none is visible.
template <class Sees>
Index last_visible(KeyRange keys, Sees&& sees) noexcept {
  Index last = keys.last;
  for (; last - lanes >= keys.first; last -= lanes) {
    int any = 0;
    for (Index lane = 1; lane <= lanes; ++lane) any |= sees(last - lane) ? 1 : 0;
    if (any != 0) break;
  }
  while (last > keys.first && !sees(last - 1)) --last;
  return last;
}

/// none, all or some of the keys.
template <class Sees>
Visibility scanned(KeyRange keys, Sees&& sees) noexcept {
  if (keys.empty()) return Visibility::none;
  const bool first = sees(keys.first);
  if (first_other(first, keys, sees) < keys.last) return Visibility::some;
  return first ? Visibility::all : Visibility::none;
}

/// The keys without the hidden ones at either end.
template <class Sees>
KeyRange trimmed(KeyRange keys, Sees&& sees) noexcept {
  keys.first = first_other(false, keys, sees);
  keys.last = last_visible(keys, sees);
  return keys;
}

/// What flags and numbers have in common: row (sequence, head, row of the call) of a borrowed array says which keys are
/// visible. Flags are true for these, numbers are not minus infinity.
template <class T>
class ArrayMask {
 public:
  static constexpr PolicyKind policy_kind = PolicyKind::mask;

  ArrayMask() noexcept = default;
  explicit ArrayMask(View<const T, 4> array) noexcept : array_(array) {
    for (std::size_t axis = 0; axis < 3; ++axis)
      if (array_.extent[axis] == 1) array_.stride[axis] = 0;
  }

  KeyRange range(QueryRow, Index kv_len) const noexcept { return intersection({0, array_.extent[3]}, {0, kv_len}); }
  Visibility block(QueryRow q, KeyRange keys) const noexcept {
    return with_row(q, [keys](auto sees) { return scanned(keys, sees); });
  }
  bool visible(QueryRow q, Index key) const noexcept { return key < array_.extent[3] && sees(at(q, key)); }
  Index keys_needed(QueryRow q) const noexcept {
    Index needed = 0;
    for (q.head = 0; q.head < array_.extent[1]; ++q.head) {
      const KeyRange more{needed, array_.extent[3]};
      needed = with_row(q, [more](auto sees) { return last_visible(more, sees); });
    }
    return needed;
  }
  KeyRange narrowed(QueryRow q, KeyRange keys) const noexcept {
    return with_row(q, [keys](auto sees) { return trimmed(keys, sees); });
  }

  Status check(Index sequences, Index q_len, Index, Index heads) const noexcept {
    const std::array<Index, 3> call{sequences, heads, q_len};
    for (std::size_t axis = 0; axis < 3; ++axis)
      if (array_.extent[axis] != 1 && array_.extent[axis] != call[axis])
        return Status::invalid("mask",
                               "given an array {}, allowed extents of {} or 1, and any number of keys: it must "
                               "broadcast to [batch, heads, q_len, kv_len]",
                               array_.extent, call);
    return check_shape("mask", array_, array_.extent);
  }
  ByteRange memory() const noexcept { return bytes_of(array_); }

 protected:
  const T& at(QueryRow q, Index key) const noexcept { return array_(q.sequence, q.head, q.row, key); }

  View<const T, 4> array_;

 private:
  /// f(sees) for a row, adjacent keys apart from the others.
  template <class F>
  auto with_row(QueryRow q, F&& f) const noexcept {
    const T* row = &at(q, 0);
    const Index stride = array_.stride[3];
    if (stride == 1) return f([row](Index key) { return sees(row[key]); });
    return f([row, stride](Index key) { return sees(row[key * stride]); });
  }
  static bool sees(T x) noexcept {
    if constexpr (std::same_as<T, bool>)
      return x;
    else
      return widen(x) != -std::numeric_limits<compute_t<T>>::infinity();
  }
};

}  // namespace detail

/// Visible: flags[sequence, head, row, key]. The array has the shape [batch, heads, q_len, kv_len] or broadcasts to it
/// from the right: leading axes may be missing, and an axis of extent 1 stands for all of its indices, but for the last
/// one. Rows are those of the call, not places: a chunk brings its own rows. Keys beyond the last axis are hidden, as
/// ONNX has it; the axis may also be longer than kv_len. Borrows the flags. Any pattern; where a row's visible keys in
/// a block of 256 are one range, it costs a look at the flags and no more.
class BooleanMask : public detail::ArrayMask<bool> {
 public:
  static constexpr const char* name = "boolean array";
  using ArrayMask::ArrayMask;
};

/// logit + addends[sequence, head, row, key], one rounding, after the soft-cap; minus infinity hides the key. Shapes
/// and broadcasting as in BooleanMask; keys beyond the last axis are hidden. E: float, double, or a 16-bit type, which
/// is widened exactly; of the layer's compute type or narrower. A NaN or plus infinity makes its row NaN. Zeros have
/// the bits of no mask. Borrows the addends.
template <Element E = float>
class AdditiveMask : public detail::ArrayMask<E> {
 public:
  static constexpr const char* name = "additive array";
  using detail::ArrayMask<E>::ArrayMask;

  template <class C>
    requires(sizeof(compute_t<E>) <= sizeof(C))
  C add(C logit, QueryRow q, Index key) const noexcept {
    return key < this->array_.extent[3] ? rounded(rounded(logit) + widen(this->at(q, key))) : logit;
  }
  template <class C>
    requires(sizeof(compute_t<E>) <= sizeof(C))
  void add(C* logits, QueryRow q, KeyRange keys) const noexcept {
    const E* row = &this->at(q, keys.first);
    const Index stride = this->array_.stride[3];
    Index i = 0;
    if (stride == 1)
      for (; i + lanes <= keys.size(); i += lanes) add_lanes(logits + i, row + i);
    for (; i < keys.size(); ++i) logits[i] += widen(row[i * stride]);
  }

 private:
  template <class C>
  static void add_lanes(C* __restrict logits, const E* __restrict addends) noexcept {
    for (Index lane = 0; lane < lanes; ++lane) logits[lane] += widen(addends[lane]);
  }
};

/// Visible: flags[sequence, key]. Any pattern; keys are counted over the whole sequence, cached ones included, so flags
/// are [batch, kv_len] (more columns than keys are allowed). Padding still counts as a place. Borrows the flags. Usual
/// use: `Causal & KeyPadding`.
class KeyPadding {
 public:
  static constexpr PolicyKind policy_kind = PolicyKind::mask;
  static constexpr const char* name = "key padding";

  KeyPadding() noexcept = default;
  /// flags [batch, kv_len]: true for tokens.
  explicit KeyPadding(View<const bool, 2> flags) noexcept : flags_(flags) {}

  detail::ByteRange memory() const noexcept { return detail::bytes_of(flags_); }

  KeyRange range(QueryRow, Index kv_len) const noexcept { return {0, kv_len}; }
  Visibility block(QueryRow q, KeyRange keys) const noexcept {
    return detail::scanned(keys, [&](Index key) { return visible(q, key); });
  }
  bool visible(QueryRow q, Index key) const noexcept { return flags_(q.sequence, key); }
  Index keys_needed(QueryRow) const noexcept { return all_keys; }
  KeyRange narrowed(QueryRow q, KeyRange keys) const noexcept {
    return detail::trimmed(keys, [&](Index key) { return visible(q, key); });
  }

  Status check(Index sequences, Index, Index kv_len) const noexcept {
    const std::array<Index, 2> least{sequences, kv_len};
    if (flags_.extent[0] < sequences || flags_.extent[1] < kv_len)
      return Status::invalid("mask", "given key flags {}, allowed at least {}", flags_.extent, least);
    return detail::check_shape("mask", flags_, flags_.extent);
  }

 private:
  View<const bool, 2> flags_;
};

static_assert(Mask<BooleanMask> && Mask<KeyPadding> && AddingMask<AdditiveMask<float>, float> &&
              AddingMask<AdditiveMask<float>, double> && !AddingMask<AdditiveMask<double>, float> &&
              AddingMask<AdditiveMask<Eigen::half>, float>);

}  // namespace lockstep
