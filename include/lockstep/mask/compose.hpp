// Masks combined: `a & b` sees what both see, `a | b` what at least one sees.
#pragma once

#include <algorithm>

#include "lockstep/concepts.hpp"

namespace lockstep {

namespace detail {
/// Whether a mask cannot be asked about rows before it has been checked for a call.
template <class M>
inline constexpr bool holds_arrays = ChecksCall<M> || ChecksCallAndHeads<M>;

/// Whether a mask's arrays fit a call.
template <class M>
Status check_arrays(const M& mask, Index sequences, Index q_len, Index kv_len, Index heads) noexcept {
  if constexpr (ChecksCallAndHeads<M>)
    return mask.check(sequences, q_len, kv_len, heads);
  else if constexpr (ChecksCall<M>)
    return mask.check(sequences, q_len, kv_len);
  else
    return {};
}
/// Whether a mask is fit for a call: its numbers, then its arrays.
template <class M>
Status check_mask(const M& mask, Index sequences, Index q_len, Index kv_len, Index heads) noexcept {
  if (Status s = check_policy(mask); !s.ok()) return s;
  return check_arrays(mask, sequences, q_len, kv_len, heads);
}
/// Whether both masks together add to logits of type C: one does at least, and neither to others only.
template <class A, class B, class C>
inline constexpr bool both_add = (AddingMask<A, C> || AddingMask<B, C>) && (AddingMask<A, C> || !mask_adds<A>) &&
                                 (AddingMask<B, C> || !mask_adds<B>);
}  // namespace detail

/// The intersection of two masks. What either adds to the logits is added, a's before b's.
template <Mask A, Mask B>
struct And {
  static constexpr PolicyKind policy_kind = PolicyKind::mask;
  static constexpr const char* name = "intersection";
  [[no_unique_address]] A a{};  ///< the left one
  [[no_unique_address]] B b{};  ///< the right one

  KeyRange range(QueryRow q, Index kv_len) const noexcept {
    return intersection(a.range(q, kv_len), b.range(q, kv_len));
  }
  Visibility block(QueryRow q, KeyRange keys) const noexcept {
    const Visibility in_a = a.block(q, keys);
    if (in_a == Visibility::none) return in_a;
    const Visibility in_b = b.block(q, keys);
    if (in_b == Visibility::none || in_a == Visibility::all) return in_b;
    return Visibility::some;
  }
  bool visible(QueryRow q, Index key) const noexcept { return a.visible(q, key) && b.visible(q, key); }
  Index keys_needed(QueryRow q) const noexcept { return std::min(a.keys_needed(q), b.keys_needed(q)); }
  KeyRange narrowed(QueryRow q, KeyRange keys) const noexcept {
    const KeyRange in_a = detail::narrowed(a, q, keys);
    return in_a.empty() ? in_a : detail::narrowed(b, q, in_a);
  }
  Status check() const noexcept { return first_error(detail::check_policy(a), detail::check_policy(b)); }
  Status check(Index sequences, Index q_len, Index kv_len, Index heads) const noexcept
    requires(detail::holds_arrays<A> || detail::holds_arrays<B>)
  {
    return first_error(detail::check_arrays(a, sequences, q_len, kv_len, heads),
                       detail::check_arrays(b, sequences, q_len, kv_len, heads));
  }

  template <class C>
    requires detail::both_add<A, B, C>
  C add(C logit, QueryRow q, Index key) const noexcept {
    if constexpr (AddingMask<A, C>) logit = a.add(logit, q, key);
    if constexpr (AddingMask<B, C>) logit = b.add(logit, q, key);
    return logit;
  }
  template <class C>
    requires detail::both_add<A, B, C>
  void add(C* logits, QueryRow q, KeyRange keys) const noexcept {
    if constexpr (AddingMask<A, C>) a.add(logits, q, keys);
    if constexpr (AddingMask<B, C>) b.add(logits, q, keys);
  }
};

/// The union of two masks, neither of which adds to the logits: what would be added for a key that only the other one
/// sees has no meaning. An additive mask takes a union on its left or right by `&`.
template <Mask A, Mask B>
struct Or {
  static_assert(!detail::mask_adds<A> && !detail::mask_adds<B>,
                "lockstep: a union of masks must not add to logits, because a key may be visible by the mask that does "
                "not add; combine additive masks by &");
  static constexpr PolicyKind policy_kind = PolicyKind::mask;
  static constexpr const char* name = "union";
  [[no_unique_address]] A a{};  ///< the left one
  [[no_unique_address]] B b{};  ///< the right one

  KeyRange range(QueryRow q, Index kv_len) const noexcept { return hull(a.range(q, kv_len), b.range(q, kv_len)); }
  Visibility block(QueryRow q, KeyRange keys) const noexcept {
    const Visibility in_a = part(a, q, keys), in_b = part(b, q, keys);
    if (in_a == Visibility::all || in_b == Visibility::all) return Visibility::all;
    return in_a == Visibility::none && in_b == Visibility::none ? Visibility::none : Visibility::some;
  }
  bool visible(QueryRow q, Index key) const noexcept { return within(a, q, key) || within(b, q, key); }
  Index keys_needed(QueryRow q) const noexcept { return std::max(a.keys_needed(q), b.keys_needed(q)); }
  KeyRange narrowed(QueryRow q, KeyRange keys) const noexcept {
    return hull(narrowed_part(a, q, keys), narrowed_part(b, q, keys));
  }
  Status check() const noexcept { return first_error(detail::check_policy(a), detail::check_policy(b)); }
  Status check(Index sequences, Index q_len, Index kv_len, Index heads) const noexcept
    requires(detail::holds_arrays<A> || detail::holds_arrays<B>)
  {
    return first_error(detail::check_arrays(a, sequences, q_len, kv_len, heads),
                       detail::check_arrays(b, sequences, q_len, kv_len, heads));
  }

 private:
  // A mask answers for keys of its own range only; the union's range may reach beyond it.
  template <class M>
  static Visibility part(const M& m, QueryRow q, KeyRange keys) noexcept {
    const KeyRange own = intersection(m.range(q, keys.last), keys);
    if (own.empty()) return Visibility::none;
    const Visibility v = m.block(q, own);
    return v == Visibility::all && own != keys ? Visibility::some : v;
  }
  template <class M>
  static KeyRange narrowed_part(const M& m, QueryRow q, KeyRange keys) noexcept {
    const KeyRange own = intersection(m.range(q, keys.last), keys);
    return own.empty() ? own : detail::narrowed(m, q, own);
  }
  template <class M>
  static bool within(const M& m, QueryRow q, Index key) noexcept {
    const KeyRange own = m.range(q, key + 1);
    return own.first <= key && key < own.last && m.visible(q, key);
  }
};

/// And{a, b}.
template <Mask A, Mask B>
constexpr And<A, B> operator&(A a, B b) noexcept {
  return {a, b};
}
/// Or{a, b}.
template <Mask A, Mask B>
constexpr Or<A, B> operator|(A a, B b) noexcept {
  return {a, b};
}

}  // namespace lockstep
