// The running softmax of one row: maximum and sum, how a block joins a split, a split joins the row, and how a row
// ends.
#pragma once

#include <limits>

#include "lockstep/numeric/exp.hpp"
#include "lockstep/numeric/half.hpp"
#include "lockstep/numeric/log.hpp"
#include "lockstep/numeric/rounded.hpp"

namespace lockstep {

/// Maximum m and sum l of a row over the keys so far; the weighted sum of values lies beside it, in memory of the
/// caller. Nothing seen: m = -inf, l = +0. Milakov and Gimelshein 2018 (arXiv 1805.02867) with fixed roundings.
template <class C>
struct SoftmaxState {
  C m = -std::numeric_limits<C>::infinity();  ///< maximum
  C l = 0;                                    ///< sum of exp(logit - m)

  /// The maximum by comparison, which keeps a NaN out: x86's and ARM's max instructions differ there.
  [[gnu::always_inline]] static C larger(C a, C b) noexcept { return b > a ? b : a; }

  /// What is subtracted from logits: m, or 0 while m is -inf, since -inf - -inf is NaN.
  [[gnu::always_inline]] static C anchor(C m) noexcept { return m == -std::numeric_limits<C>::infinity() ? C(0) : m; }

  /// The factor on what was gathered under maximum `before` when the maximum becomes `now`.
  [[gnu::always_inline]] static C decay(C before, C now) noexcept {
    return before == -std::numeric_limits<C>::infinity() ? C(0) : exp_nonpositive(rounded(before - anchor(now)));
  }

  /// A block with maximum `block_max` and sum `block_sum` under maximum `now` joins; returns the factor for the
  /// weighted sum: o = fma(o, factor, o_block).
  [[gnu::always_inline]] C join_block(C now, C block_sum) noexcept {
    const C alpha = decay(m, now);
    l = fma(l, alpha, block_sum);
    m = now;
    return alpha;
  }

  /// A sink as a state: a key of this logit whose value is zeros. -inf is none.
  [[gnu::always_inline]] static SoftmaxState of_sink(C logit) noexcept {
    return {logit, logit == -std::numeric_limits<C>::infinity() ? C(0) : C(1)};
  }

  /// The factors of a fold.
  struct Fold {
    C old_factor;  ///< a
    C new_factor;  ///< w
  };
  /// A split's state joins; returns the factors for the weighted sums: O = fma(O, a, fl(w o)).
  [[gnu::always_inline]] Fold join_split(const SoftmaxState& split) noexcept {
    const C now = larger(m, split.m);
    const Fold fold{decay(m, now), exp_nonpositive(rounded(split.m - anchor(now)))};
    l = fma(l, fold.old_factor, rounded(fold.new_factor * split.l));
    m = now;
    return fold;
  }
};

/// The state of one row over one split, and whether the row sees a key there; if not, it has no part in the row.
template <class C>
struct SplitState {
  SoftmaxState<C> state;  ///< of the keys seen
  bool seen = false;      ///< any key
};

/// One number of the context: weighted sum / sum. +0 where the row saw nothing of weight, NaN where a NaN got in.
template <class C>
[[gnu::always_inline]] inline C finished(C sum, C l) noexcept {
  if (l == 0 && sum == sum) return 0;
  return canonical(quotient(sum, l));
}

/// fl(m + log l), natural logarithm; -inf where the row saw nothing of weight. Error: that of log_positive, and one
/// rounding each of the logarithm and the sum.
template <class C>
[[gnu::always_inline]] inline C log_sum_exp(const SoftmaxState<C>& total) noexcept {
  if (total.l == 0) return -std::numeric_limits<C>::infinity();
  return canonical(total.m + rounded(static_cast<C>(log_positive(static_cast<double>(total.l)))));
}

}  // namespace lockstep
