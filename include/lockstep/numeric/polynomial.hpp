// Polynomials by Horner's rule in fma, written out: no loop is left to the optimiser.
#pragma once

#include <cstddef>

#include "lockstep/numeric/rounded.hpp"

namespace lockstep::detail {

/// sum over i >= First of coefficient[i] x^(i - First), by fma from the highest power down.
template <std::size_t First = 0, class C, std::size_t Count>
[[gnu::always_inline]] inline C horner(const C (&coefficient)[Count], C x) noexcept {
  if constexpr (First == Count - 1) {
    return coefficient[First];
  } else {
    return fma(horner<First + 1>(coefficient, x), x, coefficient[First]);
  }
}

}  // namespace lockstep::detail
