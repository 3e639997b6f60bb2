// The machine's limits: multiply-adds in registers, reading memory, and OpenBLAS where it is found.
#pragma once

#include "gauge.hpp"
#include "lockstep/plain.hpp"
#include "lockstep/simd/sets.hpp"
#include "lockstep/tasks.hpp"
#include "machine.hpp"
#include "openblas.hpp"

namespace lockstep {
#define LOCKSTEP_EACH_SET "limits.inl"
#include "lockstep/simd/each_set.inl"
}  // namespace lockstep

namespace bench {

/// Keeps the compiler from dropping work whose result nobody reads.
inline void keep(float value) noexcept { asm volatile("" : : "g"(value) : "memory"); }
/// A number that the compiler does not know.
inline float opaque(float value) noexcept {
  asm volatile("" : "+m"(value));
  return value;
}

/// In how many parts the work of a limit goes to an executor: enough for threads that are not equally fast, and so many
/// that handing it out costs little.
template <class Executor>
Index parts_for(const Executor& executor) noexcept {
  const Index threads = executor.concurrency();
  return threads > 1 ? 16 * threads : 1;
}

/// FLOP/s of multiply-adds that never leave the registers of an instruction set, on each of an executor's threads.
template <class Executor = ls::Serial>
Gauge fma_limit(ls::InstructionSet set, Clock clock = Clock::thread, Executor executor = {}) {
  return ls::with_set(set, [clock, executor](auto tag) {
    constexpr Index steps = 1 << 14;
    const Index tasks = parts_for(executor), flops = tasks * fma_flops(tag, steps);
    const auto run = [=] {
      ls::detail::for_each_task(executor, tasks, {.multiply_adds = flops / 2}, [=](Index, Index) noexcept {
        // factor 1/2, term 1/2: sums approach 1, so that no number is ever subnormal.
        keep(fma_loop(tag, steps, opaque(0.5F), opaque(0.5F)));
      });
    };
    return Gauge(run, static_cast<double>(flops), clock);
  });
}

/// A buffer far beyond the last-level cache, in memory like that of caches and weights, that is read round and round.
class StreamBuffer {
 public:
  static constexpr Index run_bytes = Index{8} << 20;

  StreamBuffer() : data_(at(beyond_cache()) / sizeof(float), 1.0F) {}
  Index bytes() const noexcept { return static_cast<Index>(data_.size() * sizeof(float)); }

  /// Bytes a second of reading with the CPU's best instructions, `Streams` places at once, by each of an executor's
  /// threads if it has several. Borrows the buffer.
  template <int Streams, class Executor = ls::Serial>
  Gauge limit(Clock clock = Clock::thread, Executor executor = {}) {
    const Index tasks = parts_for(executor), lines = run_bytes / Streams / 64 / tasks,
                bytes = tasks * lines * Streams * 64;
    return Gauge(
        [this, executor, tasks, lines, bytes, next = Index{0}]() mutable {
          const Index part = static_cast<Index>(data_.size()) / Streams / ls::lanes * ls::lanes;
          if (next + tasks * lines * ls::lanes > part) next = 0;
          ls::detail::for_each_task(executor, tasks, {.bytes = bytes}, [&](Index, Index task) noexcept {
            keep(read<Streams>(data_.data() + next + task * lines * ls::lanes, part, lines));
          });
          next += tasks * lines * ls::lanes;
        },
        static_cast<double>(bytes), clock);
  }

 private:
  template <int Streams>
  static float read(const float* from, Index part, Index lines) noexcept {
    return ls::with_set(ls::best_instruction_set(),
                        [&](auto tag) { return read_streams<Streams>(tag, from, part, lines); });
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
