// Masks combined: `a & b` sees what both see, `a | b` what at least one sees.
#pragma once

#include "lockstep/concepts.hpp"

namespace lockstep {

namespace detail {
template <class M>
Status check_mask(const M& mask, Index sequences, Index q_len, Index kv_len) noexcept {
  if constexpr (requires {
                  { mask.check(sequences, q_len, kv_len) } noexcept -> std::same_as<Status>;
                })
    return mask.check(sequences, q_len, kv_len);
  else
    return {};
}
}  // namespace detail

/// The intersection of two masks.
template <Mask A, Mask B>
struct And {
  static constexpr PolicyKind policy_kind = PolicyKind::mask;
  static constexpr const char* name = "intersection";
  [[no_unique_address]] A a{};
  [[no_unique_address]] B b{};

  KeyRange range(QueryRow q, Index kv_len) const noexcept {
    const KeyRange both = intersection(a.range(q, kv_len), b.range(q, kv_len));
    return both.empty() ? KeyRange{} : both;
  }
  Visibility block(QueryRow q, KeyRange keys) const noexcept {
    const Visibility in_a = a.block(q, keys);
    if (in_a == Visibility::none) return in_a;
    const Visibility in_b = b.block(q, keys);
    if (in_b == Visibility::none || in_a == Visibility::all) return in_b;
    return Visibility::some;
  }
  bool visible(QueryRow q, Index key) const noexcept { return a.visible(q, key) && b.visible(q, key); }
  Index keys_needed(QueryRow q) const noexcept {
    const Index in_a = a.keys_needed(q), in_b = b.keys_needed(q);
    return in_a < in_b ? in_a : in_b;
  }
  Status check(Index sequences, Index q_len, Index kv_len) const noexcept {
    const Status in_a = detail::check_mask(a, sequences, q_len, kv_len);
    return in_a.ok() ? detail::check_mask(b, sequences, q_len, kv_len) : in_a;
  }
};

/// The union of two masks.
template <Mask A, Mask B>
struct Or {
  static constexpr PolicyKind policy_kind = PolicyKind::mask;
  static constexpr const char* name = "union";
  [[no_unique_address]] A a{};
  [[no_unique_address]] B b{};

  KeyRange range(QueryRow q, Index kv_len) const noexcept {
    const KeyRange in_a = a.range(q, kv_len), in_b = b.range(q, kv_len);
    if (in_a.empty()) return in_b;
    if (in_b.empty()) return in_a;
    return {in_a.first < in_b.first ? in_a.first : in_b.first, in_a.last > in_b.last ? in_a.last : in_b.last};
  }
  Visibility block(QueryRow q, KeyRange keys) const noexcept {
    const Visibility in_a = part(a, q, keys), in_b = part(b, q, keys);
    if (in_a == Visibility::all || in_b == Visibility::all) return Visibility::all;
    return in_a == Visibility::none && in_b == Visibility::none ? Visibility::none : Visibility::some;
  }
  bool visible(QueryRow q, Index key) const noexcept { return within(a, q, key) || within(b, q, key); }
  Index keys_needed(QueryRow q) const noexcept {
    const Index in_a = a.keys_needed(q), in_b = b.keys_needed(q);
    return in_a > in_b ? in_a : in_b;
  }
  Status check(Index sequences, Index q_len, Index kv_len) const noexcept {
    const Status in_a = detail::check_mask(a, sequences, q_len, kv_len);
    return in_a.ok() ? detail::check_mask(b, sequences, q_len, kv_len) : in_a;
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
  static bool within(const M& m, QueryRow q, Index key) noexcept {
    const KeyRange own = m.range(q, key + 1);
    return own.first <= key && key < own.last && m.visible(q, key);
  }
};

template <Mask A, Mask B>
constexpr And<A, B> operator&(A a, B b) noexcept {
  return {a, b};
}
template <Mask A, Mask B>
constexpr Or<A, B> operator|(A a, B b) noexcept {
  return {a, b};
}

}  // namespace lockstep
