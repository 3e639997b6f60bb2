// What programs that compare bits share: numbers made from integers alone, hashes, and the instruction sets to go
// through. Nothing here depends on a test framework, so that these programs are built for any target.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <lockstep/lockstep.hpp>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace bits {

namespace ls = lockstep;
using ls::Index;

inline std::size_t at(Index i) { return static_cast<std::size_t>(i); }

/// splitmix64: the same integers everywhere, which no distribution of a standard library promises.
class Integers {
 public:
  explicit Integers(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  Index below(Index n) { return static_cast<Index>(next() % static_cast<std::uint64_t>(n)); }
  bool one_in(Index n) { return below(n) == 0; }
  template <class T, std::size_t N>
  T pick(const T (&choices)[N]) {
    return choices[at(below(N))];
  }

 private:
  std::uint64_t state_;
};

/// n numbers in [-size, size), multiples of size/2^23: for a power of two each is exact in float, and rounded once in
/// 16 bits.
template <class T>
std::vector<T> numbers(Index n, std::uint64_t seed, double size = 1) {
  Integers integers(seed);
  std::vector<T> result(at(n));
  for (T& value : result)
    value = ls::narrow<T>(static_cast<ls::compute_t<T>>(
        static_cast<double>(static_cast<std::int64_t>(integers.next()) >> 40) * 0x1p-23 * size));
  return result;
}

/// FNV-1a over the bytes of whatever is added.
class Hash {
 public:
  template <class T>
  void add(const std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T>);
    for (const T& value : values) {
      unsigned char bytes[sizeof(T)];
      std::memcpy(bytes, &value, sizeof(T));
      for (const unsigned char byte : bytes) state_ = (state_ ^ byte) * 0x100000001B3u;
    }
  }
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0xCBF29CE484222325u;
};

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// Writes `garbage` into all memory of a cache that stores nothing yet, the gaps of its layout included.
template <class Cache>
void poison(Cache& cache, typename Cache::Storage garbage) {
  using S = typename Cache::Storage;
  using Layout = ls::BlockLayout<S>;
  const ls::CacheShape shape = cache.shape();
  for (Index g = 0; g < shape.kv_heads; ++g)
    for (Index b = 0; b * ls::block_keys < cache.capacity(); ++b) {
      const ls::CacheBlock<S> block = cache.block(g, b);
      for (Index i = 0; i < Layout::key_block(shape.head_dim); ++i) const_cast<S*>(block.keys)[i] = garbage;
      for (Index i = 0; i < Layout::value_block(shape.v_head_dim); ++i) const_cast<S*>(block.values)[i] = garbage;
      if constexpr (std::is_same_v<S, std::int8_t>)
        for (const float* scales : {block.key_scales, block.value_scales})
          for (Index i = 0; i < ls::block_keys; ++i)
            const_cast<float*>(scales)[i] = std::numeric_limits<float>::quiet_NaN();
    }
}

/// Weights of a layer from one seed; without biases if so asked.
template <class T>
class Weights {
 public:
  Weights(const ls::LayerShape& shape, std::uint64_t seed, bool biased, double size)
      : shape_(shape),
        q_(shape.heads * shape.head_dim),
        k_(shape.kv_heads * shape.head_dim),
        v_(shape.kv_heads * value_dim()),
        matrices_{numbers<T>(q_ * shape.hidden, seed, size), numbers<T>(k_ * shape.hidden, seed + 1, size),
                  numbers<T>(v_ * shape.hidden, seed + 2, size),
                  numbers<T>(shape.hidden * shape.heads * value_dim(), seed + 3, size)} {
    if (!biased) return;
    const Index widths[] = {q_, k_, v_, shape.hidden};
    for (std::size_t i = 0; i < 4; ++i) biases_[i] = numbers<T>(widths[i], seed + 4 + i, 0.5);
  }

  ls::LayerWeights<T> views() const {
    const auto matrix = [](const std::vector<T>& m, Index out, Index in) {
      return ls::View<const T, 2>::contiguous(m.data(), {out, in});
    };
    const auto bias = [](const std::vector<T>& b) {
      return b.empty() ? ls::View<const T, 1>{} : ls::View<const T, 1>(b);
    };
    return {.query = matrix(matrices_[0], q_, shape_.hidden),
            .key = matrix(matrices_[1], k_, shape_.hidden),
            .value = matrix(matrices_[2], v_, shape_.hidden),
            .output = matrix(matrices_[3], shape_.hidden, shape_.heads * value_dim()),
            .query_bias = bias(biases_[0]),
            .key_bias = bias(biases_[1]),
            .value_bias = bias(biases_[2]),
            .output_bias = bias(biases_[3])};
  }

 private:
  Index value_dim() const { return shape_.v_head_dim == 0 ? shape_.head_dim : shape_.v_head_dim; }

  ls::LayerShape shape_;
  Index q_, k_, v_;
  std::vector<T> matrices_[4], biases_[4];
};

/// The sets to go through: all that this CPU has, or the one that the environment asks for.
inline std::vector<ls::InstructionSet> instruction_sets() {
  if (std::getenv("LOCKSTEP_INSTRUCTION_SET") != nullptr) return {ls::instruction_set()};
  std::vector<ls::InstructionSet> sets;
  for (const ls::InstructionSet set : ls::all_instruction_sets)
    if (ls::cpu_has(set)) sets.push_back(set);
  return sets;
}

/// Whether the environment asks for a set that this CPU lacks: nothing can be said then. A wish that is no set's name,
/// or that is not followed though the CPU could, ends the program.
inline bool wish_cannot_be_met() {
  const char* wish = std::getenv("LOCKSTEP_INSTRUCTION_SET");
  if (wish == nullptr) return false;
  for (const ls::InstructionSet set : ls::all_instruction_sets)
    if (std::strcmp(wish, ls::name_of(set)) == 0) {
      if (!ls::cpu_has(set)) return true;
      if (ls::instruction_set() == set) return false;
    }
  std::fprintf(stderr, "LOCKSTEP_INSTRUCTION_SET=%s is not followed: %s is in use\n", wish,
               ls::name_of(ls::instruction_set()));
  std::exit(1);
}
inline constexpr int exit_skipped = 77;

}  // namespace bits
