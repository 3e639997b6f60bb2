// How a row ends: the one division, the log-sum-exp and the canonical NaN. Shared by all kernels.
#pragma once

#include <limits>

#include "lockstep/numeric/log.hpp"
#include "lockstep/softmax_state.hpp"

namespace lockstep {

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
