// Which value of a constructor's is which policy's.
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

namespace lockstep::detail {

// Which of a constructor's values stands for a policy: the one of its very type, else one that converts to it.
template <class P, class V>
inline constexpr bool stands_for = std::same_as<P, std::remove_cvref_t<V>> || std::convertible_to<V, P>;

template <class P>
P pick_policy() {
  return P{};
}
template <class P, class V, class... Vs>
P pick_policy(V&& value, Vs&&... values) {
  if constexpr (!stands_for<P, V> ||
                (!std::same_as<P, std::remove_cvref_t<V>> && (std::same_as<P, std::remove_cvref_t<Vs>> || ...)))
    return pick_policy<P>(std::forward<Vs>(values)...);
  else
    return P(std::forward<V>(value));
}

}  // namespace lockstep::detail
