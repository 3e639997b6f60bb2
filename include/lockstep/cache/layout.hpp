// Where a key or value lies in a block of 256 places: one layout that prefill reads as tiles and decode as two linear
// streams.
#pragma once

#include "lockstep/contract.hpp"

namespace lockstep {

/// Places of one block, per kv head, in elements (place counted in the block):
///
///     K(place, d) = (place/16) head_dim 16 + d 16 + place%16          [16 tiles][head_dim][16 lanes]
///     V(place, d) = (d/16) 4096 + place 16 + d%16                     [ceil(v_head_dim/16)][256][16 lanes]
///
/// 16-bit storage interleaves two steps of the reduction dimension, so that one 64-byte load brings both:
///
///     K(place, d) = (place/16) ceil(head_dim/2) 32 + (d/2) 32 + (place%16) 2 + d%2
///     V(place, d) = (d/16) 4096 + (place/2) 32 + (d%16) 2 + place%2
///
/// 8-bit storage does not: codes widen best from 16 adjacent bytes (int8 decode with 4 heads a group ran 8 % faster
/// than from four interleaved steps, which take a shift more).
template <class S>
struct BlockLayout {
  static constexpr Index pair = sizeof(S) == 2 ? 2 : 1;    ///< steps in one line
  static constexpr Index value_slab = block_keys * lanes;  ///< 16 dimensions of a block's values

  /// Elements of 16 keys.
  static constexpr Index key_tile(Index head_dim) noexcept { return round_up(head_dim, pair) * lanes; }
  /// Elements of a block's keys.
  static constexpr Index key_block(Index head_dim) noexcept { return key_tile(head_dim) * (block_keys / lanes); }
  /// Elements of a block's values.
  static constexpr Index value_block(Index v_head_dim) noexcept { return ceil_div(v_head_dim, lanes) * value_slab; }

  /// K(place, d).
  static constexpr Index key(Index place, Index d, Index head_dim) noexcept {
    return (place / lanes) * key_tile(head_dim) + (d / pair) * (lanes * pair) + (place % lanes) * pair + d % pair;
  }
  /// V(place, d).
  static constexpr Index value(Index place, Index d) noexcept {
    return (d / lanes) * value_slab + (place / pair) * (lanes * pair) + (d % lanes) * pair + place % pair;
  }
};

namespace detail {

/// One token of one kv head, as stored: from place `at` of a block to `place` of another.
template <class S, class From, class To>
void copy_token(const From& from, Index at, const To& to, Index place, Index head_dim, Index v_head_dim) noexcept {
  using Layout = BlockLayout<S>;
  for (Index d = 0; d < head_dim; ++d)
    to.keys[Layout::key(place, d, head_dim)] = from.keys[Layout::key(at, d, head_dim)];
  for (Index d = 0; d < v_head_dim; ++d) to.values[Layout::value(place, d)] = from.values[Layout::value(at, d)];
  if constexpr (is_quantised<S>) {
    to.key_scales[place] = from.key_scales[at];
    to.value_scales[place] = from.value_scales[at];
  }
}

}  // namespace detail

}  // namespace lockstep
