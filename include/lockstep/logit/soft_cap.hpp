// Soft-capped logits: no logit leaves (-cap, cap).
#pragma once

#include "lockstep/concepts.hpp"
#include "lockstep/numeric/exp.hpp"
#include "lockstep/plain.hpp"
#include "lockstep/simd/sets.hpp"

namespace lockstep {

#define LOCKSTEP_EACH_SET "lockstep/logit/soft_cap.inl"
#include "lockstep/simd/each_set.inl"

/// logit = cap tanh(scale (q . k) / cap), before bias and mask, so that a hidden key stays hidden (Gemma 2, arXiv
/// 2408.00118, cap 50 on attention logits; Gemini and Grok alike). Error: that of tanh, TanhConstants::max_error_ulp,
/// and one rounding each of the quotient and the product. Errors: a cap that is not positive and finite, or that is not
/// a normal number of the compute type.
struct SoftCap {
  static constexpr PolicyKind policy_kind = PolicyKind::logits;
  static constexpr const char* name = "soft-capped";
  double cap = 50;   ///< the bound of every logit
  double given = 0;  ///< the scale; 0: 1/sqrt(head_dim)

  double scale(Index head_dim) const noexcept { return Scaled{given}.scale(head_dim); }
  template <class C>
  C apply(C logit, QueryRow, Index) const noexcept {
    const C c = static_cast<C>(cap);
    return rounded(c * lockstep::tanh(quotient(logit, c)));
  }
  template <class C>
  void apply(C* s, QueryRow, KeyRange keys) const noexcept {
    const C c = static_cast<C>(cap);
    with_set(instruction_set(), [&](auto set) { soft_cap(set, s, keys.size(), c); });
  }

  Status check() const noexcept {
    // Normal as a float, which is the narrower compute type.
    if (!(cap >= 0x1p-126 && cap <= 0x1p127))
      return Status::invalid("softcap", "given {}, allowed positive numbers from 2^-126 to 2^127", cap);
    return {};
  }
};

static_assert(LogitTransform<SoftCap, float> && LogitTransform<SoftCap, double>);

}  // namespace lockstep
