// Masks given as arrays over [batch, heads, q_len, kv_len]: flags, or numbers to add to the logits.
#pragma once

#include <limits>

#include "lockstep/concepts.hpp"
#include "lockstep/mask/scan.hpp"
#include "lockstep/numeric/half.hpp"
#include "lockstep/numeric/rounded.hpp"

namespace lockstep {

namespace detail {

/// What both have in common: row (sequence, head, row of the call) of a borrowed array says which keys are visible.
/// Numbers are T; `Sees{}(number)` says whether its key is.
template <class T, class Sees>
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
  bool visible(QueryRow q, Index key) const noexcept { return key < array_.extent[3] && Sees{}(at(q, key)); }
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

 protected:
  const T& at(QueryRow q, Index key) const noexcept { return array_(q.sequence, q.head, q.row, key); }
  Index key_stride() const noexcept { return array_.stride[3]; }
  Index keys() const noexcept { return array_.extent[3]; }

 private:
  /// f(sees) for a row, adjacent keys apart from the others.
  template <class F>
  auto with_row(QueryRow q, F&& f) const noexcept {
    const T* row = &at(q, 0);
    const Index stride = key_stride();
    if (stride == 1) return f([row](Index key) { return Sees{}(row[key]); });
    return f([row, stride](Index key) { return Sees{}(row[key * stride]); });
  }

  View<const T, 4> array_;
};

struct IsTrue {
  constexpr bool operator()(bool flag) const noexcept { return flag; }
};
template <class E>
struct IsAboveMinusInfinity {
  bool operator()(E addend) const noexcept { return widen(addend) != -std::numeric_limits<compute_t<E>>::infinity(); }
};

}  // namespace detail

/// Visible: flags[sequence, head, row, key]. The array has the shape [batch, heads, q_len, kv_len] or broadcasts to it
/// from the right: leading axes may be missing, and an axis of extent 1 stands for all of its indices, but for the last
/// one. Rows are those of the call, not places: a chunk brings its own rows. Keys beyond the last axis are hidden, as
/// ONNX has it; the axis may also be longer than kv_len. Borrows the flags. Any pattern; where a row's visible keys in
/// a block of 256 are one range, it costs a look at the flags and no more.
class BooleanMask : public detail::ArrayMask<bool, detail::IsTrue> {
 public:
  static constexpr const char* name = "boolean array";
  using ArrayMask::ArrayMask;
};

/// logit + addends[sequence, head, row, key], one rounding, after the soft-cap; minus infinity hides the key. Shapes
/// and broadcasting as in BooleanMask; keys beyond the last axis are hidden. E: float, double, or a 16-bit type, which
/// is widened exactly; of the layer's compute type or narrower. A NaN or plus infinity makes its row NaN. Zeros have
/// the bits of no mask. Borrows the addends.
template <Element E = float>
class AdditiveMask : public detail::ArrayMask<E, detail::IsAboveMinusInfinity<E>> {
 public:
  static constexpr const char* name = "additive array";
  using detail::ArrayMask<E, detail::IsAboveMinusInfinity<E>>::ArrayMask;

  template <class C>
    requires(sizeof(compute_t<E>) <= sizeof(C))
  C add(C logit, QueryRow q, Index key) const noexcept {
    return key < this->keys() ? rounded(rounded(logit) + widen(this->at(q, key))) : logit;
  }
  template <class C>
    requires(sizeof(compute_t<E>) <= sizeof(C))
  void add(C* logits, QueryRow q, KeyRange keys) const noexcept {
    const E* row = &this->at(q, keys.first);
    const Index stride = this->key_stride();
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

static_assert(Mask<BooleanMask> && AddingMask<AdditiveMask<float>, float> && AddingMask<AdditiveMask<float>, double> &&
              !AddingMask<AdditiveMask<double>, float> && AddingMask<AdditiveMask<Eigen::half>, float>);

}  // namespace lockstep
