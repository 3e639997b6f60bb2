// How a row ends: the one division, the log-sum-exp and the canonical NaN. Shared by all kernels.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "lockstep/numeric/log.hpp"
#include "lockstep/softmax_state.hpp"

namespace lockstep {

/// x, or the positive quiet NaN without payload for any NaN: processors differ in the NaN they make.
[[gnu::always_inline]] inline float canonical(float x) noexcept { return x == x ? x : std::bit_cast<float>(std::uint32_t{0x7fc00000}); }
[[gnu::always_inline]] inline double canonical(double x) noexcept { return x == x ? x : std::bit_cast<double>(std::uint64_t{0x7ff8000000000000}); }

/// One number of the context: weighted sum / sum. +0 where the row saw nothing of weight, NaN where a NaN got in.
template <class C>
[[gnu::always_inline]] inline C finished(C sum, C l) noexcept {
  if (l == 0 && sum == sum) return 0;
  return canonical(quotient(sum, l));
}

/// fl(m + log l), natural logarithm; -inf where the row saw nothing of weight. Error: that of log_positive, and one rounding each of
/// the logarithm and the sum.
template <class C>
[[gnu::always_inline]] inline C log_sum_exp(const SoftmaxState<C>& total) noexcept {
  if (total.l == 0) return -std::numeric_limits<C>::infinity();
  return canonical(total.m + rounded(static_cast<C>(log_positive(static_cast<double>(total.l)))));
}

}  // namespace lockstep
