// The machine's limits: multiply-adds in registers, reading memory, and OpenBLAS where it is found.
#pragma once

#include <utility>

#include "gauge.hpp"
#include "lockstep/simd/sets.hpp"
#include "machine.hpp"
#include "openblas.hpp"

namespace bench {

namespace portable {
#include "limits.inl"
}
#if defined(__x86_64__)
#include "lockstep/simd/region_avx2_begin.inl"
namespace avx2 {
#include "limits.inl"
}
#include "lockstep/simd/region_end.inl"

#include "lockstep/simd/region_avx512_begin.inl"
namespace avx512 {
#include "limits.inl"
}
#include "lockstep/simd/region_end.inl"
#elif defined(__aarch64__)
namespace neon {
#include "limits.inl"
}
#endif

/// Keeps the compiler from dropping work whose result nobody reads.
inline void keep(float value) noexcept { asm volatile("" : : "g"(value) : "memory"); }
/// A number that the compiler does not know.
inline float opaque(float value) noexcept {
  asm volatile("" : "+m"(value));
  return value;
}

/// FLOP/s of multiply-adds that never leave the registers of an instruction set. Each set has as many chains as its
/// registers hold beside the two factors: more than latency times issue width on any of its CPUs.
inline Gauge fma_limit(ls::InstructionSet set) {
  constexpr Index steps = 1 << 14;
  // factor 1/2, term 1/2: sums approach 1, so that no number is ever subnormal.
  const auto gauge = [](auto loop, Index width, Index chains) {
    return Gauge([loop] { keep(loop(steps, opaque(0.5F), opaque(0.5F))); },
                 static_cast<double>(2 * steps * width * chains));
  };
  switch (set) {
#if defined(__x86_64__)
    case ls::InstructionSet::avx512:
      return gauge(&avx512::fma_loop<ls::avx512::Simd<float>, 24>, 16, 24);
    case ls::InstructionSet::avx2:
      return gauge(&avx2::fma_loop<ls::avx2::Simd<float>, 12>, 8, 12);
#elif defined(__aarch64__)
    case ls::InstructionSet::neon:
      return gauge(&neon::fma_loop<ls::neon::Simd<float>, 24>, 4, 24);
#endif
    default:
      return gauge(&portable::fma_loop<ls::portable::Simd<float>, 8>, ls::portable::Simd<float>::width, 8);
  }
}

/// A buffer far beyond the last-level cache, in memory like that of caches and weights, that is read round and round.
class StreamBuffer {
 public:
  static constexpr Index run_bytes = Index{8} << 20;

  StreamBuffer() : data_(at(beyond_cache()) / sizeof(float), 1.0F) {}
  Index bytes() const noexcept { return static_cast<Index>(data_.size() * sizeof(float)); }

  /// Bytes a second of reading with the CPU's best instructions, `Streams` places at once. Borrows the buffer.
  template <int Streams>
  Gauge limit() {
    return Gauge(
        [this, next = Index{0}]() mutable {
          constexpr Index lines = run_bytes / Streams / 64;
          const Index part = static_cast<Index>(data_.size()) / Streams / ls::lanes * ls::lanes;
          if (next + lines * ls::lanes > part) next = 0;
          keep(read<Streams>(data_.data() + next, part, lines));
          next += lines * ls::lanes;
        },
        static_cast<double>(run_bytes));
  }

 private:
  template <int Streams>
  static float read(const float* from, Index part, Index lines) noexcept {
    switch (ls::best_instruction_set()) {
#if defined(__x86_64__)
      case ls::InstructionSet::avx512:
        return avx512::read_streams<ls::avx512::Simd<float>, Streams>(from, part, lines);
      case ls::InstructionSet::avx2:
        return avx2::read_streams<ls::avx2::Simd<float>, Streams>(from, part, lines);
#elif defined(__aarch64__)
      case ls::InstructionSet::neon:
        return neon::read_streams<ls::neon::Simd<float>, Streams>(from, part, lines);
#endif
      default:
        return portable::read_streams<ls::portable::Simd<float>, Streams>(from, part, lines);
    }
  }
  ls::AlignedVector<float> data_;
};

#if LOCKSTEP_HAVE_OPENBLAS
/// FLOP/s of OpenBLAS's product of two square matrices of this size.
inline Gauge sgemm_limit(Index size) {
  return Gauge(
      [size, a = numbers<float>(size * size, 1), b = numbers<float>(size * size, 2),
       c = ls::AlignedVector<float>(at(size * size))]() mutable {
        const auto n = static_cast<blasint>(size);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, a.data(), n, b.data(), n, 0, c.data(), n);
      },
      2 * std::pow(static_cast<double>(size), 3));
}
#endif

}  // namespace bench
