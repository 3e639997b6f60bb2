// The plain logit: scaled dot product, nothing else.
#pragma once

#include <cmath>

#include "lockstep/concepts.hpp"

namespace lockstep {

/// logit = scale (q . k), scale = 1/sqrt(head_dim) unless given (Vaswani et al. 2017). The scale multiplies the query,
/// in the compute type, before the dot product.
struct Scaled {
  static constexpr PolicyKind policy_kind = PolicyKind::logits;
  static constexpr const char* name = "scaled";
  double given = 0;  ///< 0: 1/sqrt(head_dim)

  double scale(Index head_dim) const noexcept {
    return given != 0 ? given : 1 / std::sqrt(static_cast<double>(head_dim));
  }
  template <class C>
  C apply(C logit, QueryRow, Index) const noexcept {
    return logit;
  }
  template <class C>
  void apply(C*, QueryRow, KeyRange) const noexcept {}
};

static_assert(LogitTransform<Scaled, float> && LogitTransform<Scaled, double>);

}  // namespace lockstep
