// What biases add to a row's logits, on the instruction set in use.
#pragma once

#include "lockstep/concepts.hpp"
#include "lockstep/numeric/rounded.hpp"
#include "lockstep/simd/sets.hpp"

namespace lockstep {

/// What an instruction set offers; see add.inl.
template <class C>
struct BiasFunctions {
  void (*add_slope)(C* s, Index n, C slope, C first) noexcept;
  void (*add_numbers)(C* s, const C* bias, Index n) noexcept;
  void (*add_number)(C* s, C bias, Index n) noexcept;
};

#define LOCKSTEP_EACH_SET "lockstep/bias/add.inl"
#include "lockstep/simd/each_set.inl"

namespace detail {

template <class C>
BiasFunctions<C> bias_functions() noexcept {
  return with_set(instruction_set(), [](auto set) { return bias_functions<C>(set); });
}

}  // namespace detail

}  // namespace lockstep
