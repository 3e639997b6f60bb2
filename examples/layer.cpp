// One attention layer of the shape of Qwen2-0.5B: prefill, decode with the cache, and a look at the bits.
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>

#include <Eigen/Core>

#include "lockstep/lockstep.hpp"

namespace {

namespace ls = lockstep;
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Layer = ls::Attention<float, 14, 2, ls::Rope<ls::HalfSplit>, ls::Causal>;

constexpr ls::Index hidden = 896;
constexpr ls::Index head_dim = 64;
constexpr ls::Index prefilled = 256;
constexpr ls::Index decoded = 64;

// Uniform in [-range, range), from splitmix64: the same numbers with every compiler and standard library.
Matrix random_matrix(std::uint64_t& seed, ls::Index rows, ls::Index cols, float range) {
  return Matrix::NullaryExpr(rows, cols, [&] {
    std::uint64_t bits = seed += 0x9E3779B97F4A7C15U;
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9U;
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBU;
    return range * (static_cast<float>((bits ^ (bits >> 31)) >> 40) * 0x1p-23F - 1);
  });
}

template <class Work>
double seconds(Work&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void report(const char* what, ls::Index tokens, double time) {
  std::printf("%-48s %8.1f ms %10.0f tokens/s\n", what, 1e3 * time, static_cast<double>(tokens) / time);
}

/// FNV-1a of the bytes.
std::uint64_t hash_of(const Matrix& matrix) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  const auto* bytes = reinterpret_cast<const unsigned char*>(matrix.data());
  for (std::size_t i = 0; i < static_cast<std::size_t>(matrix.size()) * sizeof(float); ++i)
    hash = (hash ^ bytes[i]) * 0x100000001b3U;
  return hash;
}

ls::Index rows_of_equal_bits(const Matrix& a, const Matrix& b, ls::Index first, ls::Index count) {
  ls::Index equal = 0;
  for (ls::Index i = first; i < first + count; ++i)
    equal += std::memcmp(a.row(i).data(), b.row(i).data(), sizeof(float) * hidden) == 0;
  return equal;
}

int run() {
  std::uint64_t seed = 1;
  const float range = std::sqrt(3.0F / hidden);  // keeps the variance of a row through a projection
  const Matrix query = random_matrix(seed, 14 * head_dim, hidden, range),
               query_bias = random_matrix(seed, 1, 14 * head_dim, 1);
  const Matrix key = random_matrix(seed, 2 * head_dim, hidden, range),
               key_bias = random_matrix(seed, 1, 2 * head_dim, 1);
  const Matrix value = random_matrix(seed, 2 * head_dim, hidden, range),
               value_bias = random_matrix(seed, 1, 2 * head_dim, 1);
  const Matrix output = random_matrix(seed, hidden, 14 * head_dim, range);
  const Matrix x = random_matrix(seed, prefilled + decoded, hidden, 1);

  const ls::RopeTable rope{ls::RopeConfig{.rotary_dim = head_dim, .base = 1e6, .positions = 32768}};
  const Layer layer{{.hidden = hidden, .head_dim = head_dim},
                    {.query = query,
                     .key = key,
                     .value = value,
                     .output = output,
                     .query_bias = query_bias.row(0),
                     .key_bias = key_bias.row(0),
                     .value_bias = value_bias.row(0)},
                    rope};
  auto cache = layer.make_cache(prefilled + decoded);
  std::cout << layer << '\n' << std::flush;

  Matrix y(prefilled + decoded, hidden), full(prefilled + decoded, hidden);
  const double prefill_time = seconds([&] { layer.forward(x.topRows(prefilled), cache, y.topRows(prefilled)); });
  report("prefill: 256 tokens in one call", prefilled, prefill_time);
  const double decode_time = seconds([&] {
    for (ls::Index i = prefilled; i < prefilled + decoded; ++i)
      layer.forward(x.middleRows(i, 1), cache, y.middleRows(i, 1));
  });
  report("decode: 64 tokens, one a call, with the cache", decoded, decode_time);
  const double full_time = seconds([&] { layer.forward(x, full); });
  report("full forward: all 320 tokens, no cache", prefilled + decoded, full_time);

  const ls::Index equal_decoded = rows_of_equal_bits(y, full, prefilled, decoded);
  const ls::Index equal_prefilled = rows_of_equal_bits(y, full, 0, prefilled);
  std::cout << equal_decoded << " of " << decoded << " decoded rows and " << equal_prefilled << " of " << prefilled
            << " prefilled rows have the bits of the full forward\n"
            << "hash of all rows: " << std::hex << hash_of(y) << '\n';
  return equal_decoded == decoded && equal_prefilled == prefilled ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const std::exception& error) {
    std::cerr << "layer: " << error.what() << '\n';
    return 1;
  }
}
