// A mask as a user might write it, with every kind of irregularity that a kernel could stumble over.
#pragma once

#include "golden/bits.hpp"

namespace sweep {

using namespace bits;

/// Which keys a row sees follows from a number, so that no table is needed and any length has an answer.
class Irregular {
 public:
  static constexpr ls::PolicyKind policy_kind = ls::PolicyKind::mask;
  enum class Pattern { all, window, scattered, striped, spans, single };

  Pattern pattern = Pattern::all;
  Index size = 1;  ///< of the window, the stripes, the spans; one key of so many is seen where they are scattered
  std::uint64_t seed = 0;
  bool causal = true;    ///< and no key after the row's own place
  bool by_head = false;  ///< heads differ
  bool tight = false;    ///< the range ends at the first and last key seen
  bool telling = true;   ///< blocks are looked through, so that `none` and `all` are answered too

  bool visible(ls::QueryRow q, Index key) const noexcept {
    if (causal && key > q.place) return false;
    const Index head = by_head ? q.head : 0;
    switch (pattern) {
      case Pattern::window:
        return key > q.place - size && key <= q.place + (causal ? 0 : size / 2);
      case Pattern::scattered:
        return chance(q.sequence * 7 + q.place * 64 + head, key) % size == 0;
      case Pattern::striped:
        return (key / size + q.place + head) % 2 == 0;
      case Pattern::spans:
        return chance(q.sequence + head, key / size) % 2 == 0;
      case Pattern::single:
        return key == (q.place * 37 + head) % size;
      case Pattern::all:
        break;
    }
    return true;
  }
  ls::KeyRange range(ls::QueryRow q, Index kv_len) const noexcept {
    ls::KeyRange keys{0, kv_len};
    if (!tight) return keys;
    while (!keys.empty() && !visible(q, keys.first)) ++keys.first;
    while (!keys.empty() && !visible(q, keys.last - 1)) --keys.last;
    return keys;
  }
  ls::Visibility block(ls::QueryRow q, ls::KeyRange keys) const noexcept {
    if (!telling) return ls::Visibility::some;
    Index seen = 0;
    for (Index key = keys.first; key < keys.last; ++key) seen += visible(q, key) ? 1 : 0;
    return seen == 0 ? ls::Visibility::none : seen == keys.size() ? ls::Visibility::all : ls::Visibility::some;
  }
  Index keys_needed(ls::QueryRow q) const noexcept { return causal ? q.place + 1 : ls::all_keys; }

 private:
  Index chance(Index a, Index b) const noexcept {
    Integers integers(seed + static_cast<std::uint64_t>(a) * 0x9E3779B1u + static_cast<std::uint64_t>(b));
    return static_cast<Index>(integers.next() >> 40);
  }
};

static_assert(ls::Mask<Irregular>);

}  // namespace sweep
