// Seeded numbers and comparisons: the same inputs on every machine.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "lockstep/aligned.hpp"
#include "lockstep/concepts.hpp"
#include "lockstep/numeric/half.hpp"
#include "lockstep/views.hpp"
#include "random.hpp"

namespace bench {

namespace ls = lockstep;

/// Uniform numbers in [-size, size).
template <class T>
ls::AlignedVector<T> numbers(Index n, std::uint64_t seed, double size = 1) {
  Random random(seed);
  ls::AlignedVector<T> result(at(n));
  for (T& value : result) value = ls::narrow<T>(static_cast<ls::compute_t<T>>(size * random.uniform()));
  return result;
}

template <class T>
bool same_bits(const ls::AlignedVector<T>& a, const ls::AlignedVector<T>& b) noexcept {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// Whether every number of a is within `tolerance` of b's. NaN is not.
template <class T>
bool close(const ls::AlignedVector<T>& a, const ls::AlignedVector<T>& b, double tolerance) noexcept {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(static_cast<double>(ls::widen(a[i])) - static_cast<double>(ls::widen(b[i]))) <= tolerance))
      return false;
  return true;
}

/// Appends `length` tokens of seeded keys and values to a cache. The tokens repeat after `period`, so that a large
/// cache is filled at the speed of its memory.
template <class Cache>
void fill(Cache& cache, Index length, std::uint64_t seed) {
  using C = typename Cache::Compute;
  constexpr Index period = 509;  // a prime: no two blocks are alike
  const ls::CacheShape shape = cache.shape();
  const auto keys = numbers<C>(period * shape.kv_heads * shape.head_dim, seed);
  const auto values = numbers<C>(period * shape.kv_heads * shape.v_head_dim, seed + 1);
  for (Index done = 0; done < length;) {
    const Index tokens = length - done < period ? length - done : period;
    cache.append(ls::View<const C, 3>::contiguous(keys.data(), {tokens, shape.kv_heads, shape.head_dim}),
                 ls::View<const C, 3>::contiguous(values.data(), {tokens, shape.kv_heads, shape.v_head_dim}));
    done += tokens;
  }
}

}  // namespace bench
