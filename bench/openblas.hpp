// OpenBLAS as a yardstick, where it was found: LOCKSTEP_HAVE_OPENBLAS.
#pragma once

#include <cstdlib>

#if LOCKSTEP_HAVE_OPENBLAS
#include <cblas.h>
#endif

namespace bench {

#if LOCKSTEP_HAVE_OPENBLAS
inline constexpr bool have_openblas = true;
inline const char* openblas_kernel() { return openblas_get_corename(); }
inline void use_one_openblas_thread() { openblas_set_num_threads(1); }
#else
inline constexpr bool have_openblas = false;
inline const char* openblas_kernel() { return "none"; }
inline void use_one_openblas_thread() {}
#endif

/// Whether the environment picks OpenBLAS's kernel: a forced old one runs at a third of the speed and is no yardstick.
inline bool openblas_forced() { return std::getenv("OPENBLAS_CORETYPE") != nullptr; }

}  // namespace bench
