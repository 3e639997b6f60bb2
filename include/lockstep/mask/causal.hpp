// The causal mask: a query sees its own key and all before it; and no mask: it sees every key that is present.
#pragma once

#include <Eigen/Core>
#include <limits>

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

static_assert(Mask<Causal> && Mask<NoMask>);

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
