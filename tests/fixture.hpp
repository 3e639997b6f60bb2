// What tests of layers and of attend() share: seeded numbers, runs under a chunk plan, comparison by bits.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <ostream>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/lockstep.hpp>

#include "kernels.hpp"
#include "reference.hpp"

namespace fixture {

namespace ls = lockstep;
using ls::Index;
using reference::at;

/// splitmix64: the same numbers everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  /// In [-1, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-52 - 1; }
  /// Mean 0, variance 1, as the sum of twelve uniform numbers.
  double normal() {
    double sum = 0;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum / 2;
  }
  Index below(Index n) { return static_cast<Index>(next() % static_cast<std::uint64_t>(n)); }

 private:
  std::uint64_t state_;
};

template <class T>
T number(double value) {
  return ls::narrow<T>(static_cast<ls::compute_t<T>>(value));
}
template <class T>
std::vector<T> numbers(Index n, std::uint64_t seed, double size = 1) {
  Random random(seed);
  std::vector<T> result(at(n));
  for (T& value : result) value = number<T>(size * random.uniform());
  return result;
}
template <class T>
std::vector<T> normal_numbers(Index n, std::uint64_t seed) {
  Random random(seed);
  std::vector<T> result(at(n));
  for (T& value : result) value = number<T>(random.normal());
  return result;
}
template <class T>
T nan() {
  return number<T>(std::numeric_limits<double>::quiet_NaN());
}
template <class T>
T infinity() {
  return number<T>(std::numeric_limits<double>::infinity());
}

/// Equal by memcmp; else says how many rows of `width` numbers differ, and where the first does.
template <class T>
::testing::AssertionResult same_bits(const std::vector<T>& a, const std::vector<T>& b, Index width) {
  if (a.size() != b.size()) return ::testing::AssertionFailure() << a.size() << " numbers against " << b.size();
  if (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0) return ::testing::AssertionSuccess();
  Index rows = 0, first = -1, last_row = -1;
  for (Index i = 0; i < static_cast<Index>(a.size()); ++i) {
    if (std::memcmp(&a[at(i)], &b[at(i)], sizeof(T)) == 0) continue;
    if (first < 0) first = i;
    if (i / width != last_row) ++rows;
    last_row = i / width;
  }
  return ::testing::AssertionFailure() << rows << " of " << static_cast<Index>(a.size()) / width
                                       << " rows differ, first row " << first / width << " at " << first % width << ": "
                                       << static_cast<double>(a[at(first)]) << " against "
                                       << static_cast<double>(b[at(first)]);
}
template <class T>
std::vector<T> part(const std::vector<T>& all, Index first, Index n) {
  return {all.begin() + first, all.begin() + first + n};
}

/// Sizes of a layer, printed as h8_kvh2_d64.
struct Shape {
  Index hidden = 1, heads = 1, kv_heads = 1, head_dim = 1, v_head_dim = 0;

  Index value_dim() const { return v_head_dim == 0 ? head_dim : v_head_dim; }
  ls::LayerShape layer() const { return {hidden, head_dim, v_head_dim, heads, kv_heads}; }
  std::string name() const {
    std::ostringstream text;
    text << "h" << heads << "_kvh" << kv_heads << "_d" << head_dim;
    if (v_head_dim != 0) text << "_v" << v_head_dim;
    return text.str();
  }
  friend std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << shape.name(); }
};

/// Weights of a size that gives queries and keys of variance 1 for inputs of numbers<T>().
template <class T>
struct Weights {
  Shape shape;
  std::vector<T> query, key, value, output, query_bias, key_bias, value_bias, output_bias;

  explicit Weights(const Shape& s, std::uint64_t seed = 1)
      : shape(s),
        query(matrix(s.heads * s.head_dim, s.hidden, seed)),
        key(matrix(s.kv_heads * s.head_dim, s.hidden, seed + 1)),
        value(matrix(s.kv_heads * s.value_dim(), s.hidden, seed + 2)),
        output(matrix(s.hidden, s.heads * s.value_dim(), seed + 3)),
        query_bias(numbers<T>(s.heads * s.head_dim, seed + 4, 0.5)),
        key_bias(numbers<T>(s.kv_heads * s.head_dim, seed + 5, 0.5)),
        value_bias(numbers<T>(s.kv_heads * s.value_dim(), seed + 6, 0.5)),
        output_bias(numbers<T>(s.hidden, seed + 7, 0.5)) {}

  ls::LayerWeights<T> views() const {
    using Matrix = ls::View<const T, 2>;
    using Vector = ls::View<const T, 1>;
    const Index q = shape.heads * shape.head_dim, k = shape.kv_heads * shape.head_dim,
                v = shape.kv_heads * shape.value_dim();
    return {.query = Matrix::contiguous(query.data(), {q, shape.hidden}),
            .key = Matrix::contiguous(key.data(), {k, shape.hidden}),
            .value = Matrix::contiguous(value.data(), {v, shape.hidden}),
            .output = Matrix::contiguous(output.data(), {shape.hidden, shape.heads * shape.value_dim()}),
            .query_bias = query_bias.empty() ? Vector{} : Vector(query_bias),
            .key_bias = key_bias.empty() ? Vector{} : Vector(key_bias),
            .value_bias = value_bias.empty() ? Vector{} : Vector(value_bias),
            .output_bias = output_bias.empty() ? Vector{} : Vector(output_bias)};
  }
  reference::Layer reference() const {
    using ::reference::widen;
    return {.hidden = shape.hidden,
            .heads = shape.heads,
            .kv_heads = shape.kv_heads,
            .head_dim = shape.head_dim,
            .v_head_dim = shape.value_dim(),
            .query = widen(query),
            .key = widen(key),
            .value = widen(value),
            .output = widen(output),
            .query_bias = widen(query_bias),
            .key_bias = widen(key_bias),
            .value_bias = widen(value_bias),
            .output_bias = widen(output_bias)};
  }

 private:
  static std::vector<T> matrix(Index out, Index in, std::uint64_t seed) {
    return numbers<T>(out * in, seed, 3 / std::sqrt(static_cast<double>(in)));
  }
};

/// A layer on seeded weights.
template <class Layer, class... Values>
Layer make_layer(const Shape& shape, Values&&... values) {
  const Weights<typename Layer::Scalar> weights(shape);
  return Layer(shape.layer(), weights.views(), std::forward<Values>(values)...);
}
/// A table of compute type C for the even part of a head.
template <class C>
ls::RopeTable<C> rope(Index head_dim, Index positions = 2048) {
  return ls::RopeTable<C>(ls::RopeConfig{.rotary_dim = head_dim / 2 * 2, .base = 10000, .positions = positions});
}

template <class T>
ls::View<const T, 2> rows_of(const std::vector<T>& x, Index first, Index rows, Index width) {
  return ls::View<const T, 2>::contiguous(x.data() + first * width, {rows, width});
}
template <class T>
ls::View<T, 2> rows_of(std::vector<T>& x, Index first, Index rows, Index width) {
  return ls::View<T, 2>::contiguous(x.data() + first * width, {rows, width});
}

/// Chunks of `step` tokens, and what is left.
inline std::vector<Index> steps(Index tokens, Index step) {
  std::vector<Index> plan;
  for (Index done = 0; done < tokens; done += step) plan.push_back(tokens - done < step ? tokens - done : step);
  return plan;
}
/// Chunks of random lengths, short ones and long ones, with an empty one among them.
inline std::vector<Index> random_plan(Index tokens, std::uint64_t seed) {
  Random random(seed);
  std::vector<Index> plan{0};
  for (Index done = 0; done < tokens; done += plan.back()) {
    const Index left = tokens - done, largest = random.below(3) == 0 ? left : (left < 20 ? left : 20);
    plan.push_back(1 + random.below(largest));
  }
  return plan;
}
inline std::string plan_name(const std::vector<Index>& plan) {
  std::string text = "chunks";
  for (std::size_t i = 0; i < plan.size() && i < 8; ++i) text += " " + std::to_string(plan[i]);
  return text + (plan.size() > 8 ? " ... (" + std::to_string(plan.size()) + ")" : "");
}

/// What a sequence leaves: outputs, log-sum-exp and cache content.
template <class Layer>
struct Outcome {
  std::vector<typename Layer::Scalar> y;                     // [tokens, hidden]
  std::vector<typename Layer::Compute> lse;                  // [heads, tokens]
  std::vector<typename Layer::Cache::Storage> keys, values;  // [kv_heads, tokens, dim]
};

template <class Layer>
void export_cache(const typename Layer::Cache& cache, Outcome<Layer>& run) {
  using S = typename Layer::Cache::Storage;
  const ls::CacheShape shape = cache.shape();
  run.keys.resize(at(shape.kv_heads * cache.length() * shape.head_dim));
  run.values.resize(at(shape.kv_heads * cache.length() * shape.v_head_dim));
  cache.export_keys(ls::View<S, 3>::contiguous(run.keys.data(), {shape.kv_heads, cache.length(), shape.head_dim}));
  cache.export_values(
      ls::View<S, 3>::contiguous(run.values.data(), {shape.kv_heads, cache.length(), shape.v_head_dim}));
}

/// The sequence x [tokens, hidden] through a layer in the chunks of a plan. `before(cache)` is called before each
/// chunk.
template <class Layer, class Before>
Outcome<Layer> run(const Layer& layer, const std::vector<typename Layer::Scalar>& x, const std::vector<Index>& plan,
                   typename Layer::Options options, Before&& before) {
  using C = typename Layer::Compute;
  const Index hidden = layer.hidden(), tokens = static_cast<Index>(x.size()) / hidden;
  auto cache = layer.make_cache(tokens);
  Outcome<Layer> result;
  result.y.resize(x.size());
  result.lse.resize(at(layer.heads() * tokens));
  Index first = 0;
  for (const Index rows : plan) {
    before(cache);
    options.lse =
        ls::View<C, 3>(result.lse.data() + first, {1, layer.heads(), rows}, {layer.heads() * tokens, tokens, 1});
    layer.forward(rows_of(x, first, rows, hidden), cache, rows_of(result.y, first, rows, hidden), options);
    first += rows;
  }
  export_cache(cache, result);
  return result;
}
template <class Layer>
Outcome<Layer> run(const Layer& layer, const std::vector<typename Layer::Scalar>& x, const std::vector<Index>& plan,
                   typename Layer::Options options = {}) {
  return run(layer, x, plan, options, [](auto&) {});
}
/// The same without a cache; nothing is exported.
template <class Layer>
Outcome<Layer> full(const Layer& layer, const std::vector<typename Layer::Scalar>& x,
                    typename Layer::Options options = {}) {
  using C = typename Layer::Compute;
  const Index hidden = layer.hidden(), tokens = static_cast<Index>(x.size()) / hidden;
  Outcome<Layer> result;
  result.y.resize(x.size());
  result.lse.resize(at(layer.heads() * tokens));
  options.lse = ls::View<C, 3>::contiguous(result.lse.data(), {1, layer.heads(), tokens});
  layer.forward(rows_of(x, 0, tokens, hidden), rows_of(result.y, 0, tokens, hidden), options);
  return result;
}

template <class LayerA, class LayerB>
void expect_same_outputs(const LayerA& layer, const Outcome<LayerA>& a, const Outcome<LayerB>& b) {
  const Index tokens = static_cast<Index>(a.y.size()) / layer.hidden();
  EXPECT_TRUE(same_bits(a.y, b.y, layer.hidden()));
  EXPECT_TRUE(same_bits(a.lse, b.lse, tokens)) << "log-sum-exp, a row for each head";
}
template <class LayerA, class LayerB>
void expect_same_outcome(const LayerA& layer, const Outcome<LayerA>& a, const Outcome<LayerB>& b) {
  expect_same_outputs(layer, a, b);
  EXPECT_TRUE(same_bits(a.keys, b.keys, layer.head_dim())) << "keys in the cache";
  EXPECT_TRUE(same_bits(a.values, b.values, layer.v_head_dim())) << "values in the cache";
}

/// Key flags [sequences, keys] for KeyPadding, which borrows them.
class Flags {
 public:
  Flags(Index sequences, Index keys, bool value = true)
      : sequences_(sequences), keys_(keys), flags_(std::make_unique<bool[]>(at(sequences * keys))) {
    std::fill_n(flags_.get(), sequences * keys, value);
  }
  bool& operator()(Index sequence, Index key) { return flags_[at(sequence * keys_ + key)]; }
  bool operator()(Index sequence, Index key) const { return flags_[at(sequence * keys_ + key)]; }
  ls::KeyPadding mask() const {
    return ls::KeyPadding(ls::View<const bool, 2>::contiguous(flags_.get(), {sequences_, keys_}));
  }

 private:
  Index sequences_, keys_;
  std::unique_ptr<bool[]> flags_;
};

/// The largest absolute difference; NaN where there is one, infinity for different sizes. Equal infinities do not
/// differ.
template <class A, class B>
double largest_difference(const std::vector<A>& a, const std::vector<B>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    const double difference = x == y ? 0 : std::abs(x - y);
    largest = difference <= largest ? largest : difference;
  }
  return largest;
}

/// Writes `garbage` into every slot of a cache that holds no stored number: places from length() on and the layout's
/// gaps.
template <class Cache>
void poison(Cache& cache, typename Cache::Storage garbage) {
  using S = typename Cache::Storage;
  using Layout = ls::BlockLayout<S>;
  const ls::CacheShape shape = cache.shape();
  for (Index g = 0; g < shape.kv_heads; ++g)
    for (Index b = 0; b * ls::block_keys < cache.capacity(); ++b) {
      std::vector<bool> key_used(at(Layout::key_block(shape.head_dim))),
          value_used(at(Layout::value_block(shape.v_head_dim)));
      for (Index place = 0; place < ls::block_keys && b * ls::block_keys + place < cache.length(); ++place) {
        for (Index d = 0; d < shape.head_dim; ++d) key_used[at(Layout::key(place, d, shape.head_dim))] = true;
        for (Index d = 0; d < shape.v_head_dim; ++d) value_used[at(Layout::value(place, d))] = true;
      }
      const auto block = cache.block(g, b);
      for (std::size_t i = 0; i < key_used.size(); ++i)
        if (!key_used[i]) const_cast<S*>(block.keys)[i] = garbage;
      for (std::size_t i = 0; i < value_used.size(); ++i)
        if (!value_used[i]) const_cast<S*>(block.values)[i] = garbage;
    }
}

}  // namespace fixture
