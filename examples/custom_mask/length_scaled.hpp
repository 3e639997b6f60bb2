// A logit transform of one's own: sharper the more keys a row sees.
#pragma once

#include "lockstep/concepts.hpp"
#include "lockstep/numeric/log.hpp"
#include "lockstep/numeric/rounded.hpp"

#include <cmath>

namespace custom {

/// logit = strength log(place + 1) (q . k) / sqrt(head_dim): softmax over many keys does not flatten (Scalable-Softmax,
/// Nakanishi 2025, arXiv 2501.19399). Depends on the row's own place alone, as every transform must, so that a row has
/// the same bits in every batch and chunk. Refused: a strength that is not positive and finite.
struct LengthScaled {
  static constexpr lockstep::PolicyKind policy_kind = lockstep::PolicyKind::logits;
  static constexpr const char* name = "scaled by the logarithm of the length";

  double strength = 0.43;

  // The factor on the query, before the dot product.
  double scale(lockstep::Index head_dim) const noexcept { return 1 / std::sqrt(static_cast<double>(head_dim)); }

  // One logit, and the logits of a range of keys in place: the same bits. A logarithm of the library's own and a
  // product that is rounded before anything is added to it: the same bits with every compiler, too.
  template <class C>
  C apply(C logit, lockstep::QueryRow q, lockstep::Index) const noexcept {
    return lockstep::rounded(logit * factor<C>(q));
  }
  template <class C>
  void apply(C* logits, lockstep::QueryRow q, lockstep::KeyRange keys) const noexcept {
    const C f = factor<C>(q);
    for (lockstep::Index i = 0; i < keys.size(); ++i) logits[i] = lockstep::rounded(logits[i] * f);
  }

  lockstep::Status check() const noexcept {
    if (!(strength > 0 && std::isfinite(strength)))
      return lockstep::Status::invalid("strength", "given {}, allowed positive finite numbers", strength);
    return {};
  }

 private:
  template <class C>
  C factor(lockstep::QueryRow q) const noexcept {
    return static_cast<C>(strength * lockstep::log_positive(static_cast<double>(q.place) + 1));
  }
};

static_assert(lockstep::LogitTransform<LengthScaled, float> && lockstep::LogitTransform<LengthScaled, double>);

}  // namespace custom
