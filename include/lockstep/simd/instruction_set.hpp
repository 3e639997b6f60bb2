// Which instructions this CPU has, asked once.
#pragma once

namespace lockstep {

#if defined(__x86_64__)
/// Whether this CPU, and its operating system, can run fused multiply-add instructions.
inline bool cpu_has_fma() noexcept {
#if defined(__FMA__)
  return true;
#else
  static const bool has = __builtin_cpu_supports("fma") != 0;
  return has;
#endif
}
#endif

}  // namespace lockstep
