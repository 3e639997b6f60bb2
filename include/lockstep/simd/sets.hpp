// Which vector instructions kernels use: the best this CPU has, unless a test or a bench forces another. And vector
// operations and register tiles, once for each instruction set that this architecture may have, in namespaces of the
// set's name.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdlib>
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
#include "lockstep/softmax_state.hpp"

namespace lockstep {

/// Every set gives the same bits. `portable` is plain C++ and exists everywhere.
enum class InstructionSet { portable, avx2, avx512, neon };

/// All of them, whatever this CPU has.
inline constexpr std::array<InstructionSet, 4> all_instruction_sets{InstructionSet::portable, InstructionSet::avx2,
                                                                    InstructionSet::avx512, InstructionSet::neon};

/// As LOCKSTEP_INSTRUCTION_SET spells it.
constexpr const char* name_of(InstructionSet set) noexcept {
  constexpr std::array names{"portable", "avx2", "avx512", "neon"};
  const auto at = static_cast<std::size_t>(set);
  return at < names.size() ? names[at] : names[0];
}

/// What scalar code has for a fused multiply-add: what the translation unit may use.
namespace scalar {
struct Set {};
}  // namespace scalar
/// An instruction, whatever the translation unit may use.
namespace scalar_fma {
struct Set {};
}  // namespace scalar_fma

/// f(tag of the best way to get a fused multiply-add): without an instruction for it each is a call. A function of the
/// tag's namespace is called by its bare name with the tag as its first argument, which finds it; see each_fma.inl.
template <class F>
decltype(auto) with_fma(F&& f) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("fma")) return f(scalar_fma::Set{});
#endif
  return f(scalar::Set{});
}

/// Whether this CPU can run a set.
inline bool cpu_has(InstructionSet set) noexcept {
  switch (set) {
    case InstructionSet::portable:
      return true;
#if defined(__x86_64__)
    // F16C, which compilers differ in asking for, is older than AVX2: every CPU that has this has that.
    case InstructionSet::avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case InstructionSet::avx512:
      return cpu_has(InstructionSet::avx2) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#elif defined(__aarch64__)
    case InstructionSet::neon:
      return true;
#endif
    default:
      return false;
  }
}

/// The most capable set of this CPU.
inline InstructionSet best_instruction_set() noexcept {
  for (const InstructionSet set : {InstructionSet::avx512, InstructionSet::avx2, InstructionSet::neon})
    if (cpu_has(set)) return set;
  return InstructionSet::portable;
}

namespace detail {
/// The environment's wish, LOCKSTEP_INSTRUCTION_SET=portable, avx2, avx512 or neon, where the CPU can follow it; else
/// the best.
inline InstructionSet first_instruction_set() noexcept {
  if (const char* wish = std::getenv("LOCKSTEP_INSTRUCTION_SET"))
    for (const InstructionSet set : all_instruction_sets)
      if (std::strcmp(wish, lockstep::name_of(set)) == 0 && cpu_has(set)) return set;
  return best_instruction_set();
}
inline std::atomic<InstructionSet>& chosen_instruction_set() noexcept {
  static std::atomic<InstructionSet> chosen{first_instruction_set()};
  return chosen;
}
}  // namespace detail

/// The set in use.
inline InstructionSet instruction_set() noexcept {
  return detail::chosen_instruction_set().load(std::memory_order_relaxed);
}

/// Uses another set from now on; calls that are running finish with theirs. A shared library that is built with hidden
/// visibility has a choice of its own; the environment variable reaches all. Errors: a set that this CPU lacks.
inline void force_instruction_set(InstructionSet set) {
  if (!cpu_has(set))
    raise(Status::invalid("instruction set", "given {}, allowed what this CPU has: best is {}", name_of(set),
                          name_of(best_instruction_set())));
  detail::chosen_instruction_set().store(set, std::memory_order_relaxed);
}

namespace portable {
#include "lockstep/simd/portable.inl"
}  // namespace portable
#if defined(__x86_64__)
#include "lockstep/simd/region_avx2_begin.inl"
namespace avx2 {
#include "lockstep/simd/vectors.inl"
#include "lockstep/simd/avx2.inl"
}  // namespace avx2
#include "lockstep/simd/region_end.inl"
#include "lockstep/simd/region_avx512_begin.inl"
namespace avx512 {
#include "lockstep/simd/vectors.inl"
#include "lockstep/simd/avx512.inl"
}  // namespace avx512
#include "lockstep/simd/region_end.inl"
#elif defined(__aarch64__)
namespace neon {
#include "lockstep/simd/vectors.inl"
#include "lockstep/simd/neon.inl"
}  // namespace neon
#endif

#define LOCKSTEP_EACH_SET "lockstep/simd/register_tile.inl"
#include "lockstep/simd/each_set.inl"

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
