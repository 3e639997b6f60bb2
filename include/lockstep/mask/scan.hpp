// What a mask that must look at each key says of a range: in steps of 16 keys without a branch, which compilers turn
// into vectors.
#pragma once

#include "lockstep/concepts.hpp"

namespace lockstep::detail {

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

}  // namespace lockstep::detail
