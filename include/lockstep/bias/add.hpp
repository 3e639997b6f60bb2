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

namespace portable {
#include "lockstep/bias/add.inl"
}
#if defined(__x86_64__)
#include "lockstep/simd/region_avx2_begin.inl"
namespace avx2 {
#include "lockstep/bias/add.inl"
}
#include "lockstep/simd/region_end.inl"
#include "lockstep/simd/region_avx512_begin.inl"
namespace avx512 {
#include "lockstep/bias/add.inl"
}
#include "lockstep/simd/region_end.inl"
#elif defined(__aarch64__)
namespace neon {
#include "lockstep/bias/add.inl"
}
#endif

namespace detail {

template <class C>
BiasFunctions<C> bias_functions() noexcept {
  switch (instruction_set()) {
#if defined(__x86_64__)
    case InstructionSet::avx512:
      return avx512::bias_functions<C>();
    case InstructionSet::avx2:
      return avx2::bias_functions<C>();
#elif defined(__aarch64__)
    case InstructionSet::neon:
      return neon::bias_functions<C>();
#endif
    default:
      return portable::bias_functions<C>();
  }
}

}  // namespace detail

}  // namespace lockstep
