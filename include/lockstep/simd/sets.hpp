// Vector operations and register tiles, once for each instruction set that this architecture may have, in namespaces of
// the set's name.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>
#include <utility>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "lockstep/contract.hpp"
#include "lockstep/numeric/exp.hpp"
#include "lockstep/numeric/half.hpp"
#include "lockstep/numeric/rounded.hpp"
#include "lockstep/simd/instruction_set.hpp"
#include "lockstep/softmax_state.hpp"

namespace lockstep {

namespace portable {
#include "lockstep/simd/portable.inl"
#include "lockstep/simd/register_tile.inl"
}  // namespace portable
#if defined(__x86_64__)
#include "lockstep/simd/region_avx2_begin.inl"
namespace avx2 {
#include "lockstep/simd/vectors.inl"
#include "lockstep/simd/avx2.inl"
#include "lockstep/simd/register_tile.inl"
}  // namespace avx2
#include "lockstep/simd/region_end.inl"
#include "lockstep/simd/region_avx512_begin.inl"
namespace avx512 {
#include "lockstep/simd/vectors.inl"
#include "lockstep/simd/avx512.inl"
#include "lockstep/simd/register_tile.inl"
}  // namespace avx512
#include "lockstep/simd/region_end.inl"
#elif defined(__aarch64__)
namespace neon {
#include "lockstep/simd/vectors.inl"
#include "lockstep/simd/neon.inl"
#include "lockstep/simd/register_tile.inl"
}  // namespace neon
#endif

/// f(tag of `set`), a set that this CPU has. A function of the set's namespace is called by its bare name with the tag
/// as its first argument, which finds it.
template <class F>
[[gnu::always_inline]] inline decltype(auto) with_set(InstructionSet set, F&& f) {
  switch (set) {
#if defined(__x86_64__)
    case InstructionSet::avx512:
      return f(avx512::Set{});
    case InstructionSet::avx2:
      return f(avx2::Set{});
#elif defined(__aarch64__)
    case InstructionSet::neon:
      return f(neon::Set{});
#endif
    default:
      return f(portable::Set{});
  }
}

}  // namespace lockstep
