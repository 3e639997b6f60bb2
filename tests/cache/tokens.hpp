// Tokens that are told apart by a number, and caches compared with plain lists of them.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "lockstep/cache/block_cache.hpp"

namespace cache_test {

namespace ls = lockstep;
using ls::CacheShape;
using ls::Index;

/// Which token stands at each place.
using Ids = std::vector<int>;

inline Ids counted(int first, Index n) {
  Ids ids(static_cast<std::size_t>(n));
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}
inline Ids part(const Ids& ids, Index first, Index last) { return {ids.begin() + first, ids.begin() + last}; }

/// Element d of a key (salt 0) or value (salt 1) of token `id`, kv head g: 13 bits of a product, so that no storage
/// type rounds two neighbours to one.
inline float number(int id, Index g, Index d, unsigned salt) {
  const auto mixed =
      (static_cast<unsigned>(id) * 2654435761u) ^ (static_cast<unsigned>(g * 97 + d) * 40503u) ^ (salt * 977u);
  return static_cast<float>(static_cast<int>((mixed >> 7) % 8191) - 4095) / 64;
}

/// Rows [tokens, kv_heads, dim] of the compute type.
template <class C>
struct Rows {
  std::vector<C> numbers;
  ls::View<const C, 3> view;
  Rows(const Ids& ids, Index kv_heads, Index dim, unsigned salt) {
    for (const int id : ids)
      for (Index g = 0; g < kv_heads; ++g)
        for (Index d = 0; d < dim; ++d) numbers.push_back(static_cast<C>(number(id, g, d, salt)));
    view = ls::View<const C, 3>::contiguous(numbers.data(), {static_cast<Index>(ids.size()), kv_heads, dim});
  }
};

template <class Cache>
void append(Cache& cache, const Ids& ids) {
  using C = ls::compute_t<typename Cache::Storage>;
  const CacheShape shape = cache.shape();
  const Rows<C> keys(ids, shape.kv_heads, shape.head_dim, 0), values(ids, shape.kv_heads, shape.v_head_dim, 1);
  cache.append(keys.view, values.view);
}
/// In pieces that the cache takes.
template <class Cache>
void append_all(Cache& cache, const Ids& ids) {
  const Index n = static_cast<Index>(ids.size());
  for (Index first = 0; first < n;) {
    const Index limit = ls::detail::append_limit(cache), count = n - first < limit ? n - first : limit;
    append(cache, part(ids, first, first + count));
    first += count;
  }
}
template <class Cache>
void write(Cache& cache, Index first, const Ids& ids, bool circular = false) {
  using C = ls::compute_t<typename Cache::Storage>;
  const CacheShape shape = cache.shape();
  const Rows<C> keys(ids, shape.kv_heads, shape.head_dim, 0), values(ids, shape.kv_heads, shape.v_head_dim, 1);
  circular ? cache.write_circular(first, keys.view, values.view) : cache.write(first, keys.view, values.view);
}

/// The scale of a head row, from the definition.
inline float expected_scale(int id, Index g, Index dim, unsigned salt) {
  float largest = 0;
  for (Index d = 0; d < dim; ++d) largest = std::fmax(largest, std::fabs(number(id, g, d, salt)));
  return largest / 127;
}

/// Whether element `stored` is what x leaves, under a scale where there are codes.
template <class S>
bool leaves(S stored, float x, [[maybe_unused]] float scale) {
  if constexpr (ls::is_quantised<S>) {
    return stored == static_cast<S>(std::nearbyint(x / scale));
  } else {
    const S expected = ls::narrow<S>(static_cast<ls::compute_t<S>>(x));
    return std::memcmp(&stored, &expected, sizeof(S)) == 0;
  }
}

/// Whether the cache has these tokens, where it says that it holds them.
template <class Cache>
testing::AssertionResult holds(const Cache& cache, const Ids& ids) {
  using S = typename Cache::Storage;
  using Layout = ls::BlockLayout<S>;
  if (cache.length() != static_cast<Index>(ids.size()))
    return testing::AssertionFailure() << "length " << cache.length() << " in place of " << ids.size();
  const ls::KeyRange missing = ls::detail::missing_after(cache, 0);
  const CacheShape shape = cache.shape();
  for (Index place = 0; place < cache.length(); ++place) {
    if (missing.first <= place && place < missing.last) continue;
    for (Index g = 0; g < shape.kv_heads; ++g) {
      const auto block = cache.block(g, place / ls::block_keys);
      const Index at = place % ls::block_keys;
      const int id = ids[static_cast<std::size_t>(place)];
      float key_scale = 0, value_scale = 0;
      if constexpr (ls::is_quantised<S>) {
        key_scale = block.key_scales[at];
        value_scale = block.value_scales[at];
        if (key_scale != expected_scale(id, g, shape.head_dim, 0) ||
            value_scale != expected_scale(id, g, shape.v_head_dim, 1))
          return testing::AssertionFailure() << "a scale of place " << place << " of kv head " << g << " differs";
      }
      for (Index d = 0; d < shape.head_dim; ++d)
        if (!leaves(block.keys[Layout::key(at, d, shape.head_dim)], number(id, g, d, 0), key_scale))
          return testing::AssertionFailure() << "key " << place << " of kv head " << g << " differs at " << d;
      for (Index d = 0; d < shape.v_head_dim; ++d)
        if (!leaves(block.values[Layout::value(at, d)], number(id, g, d, 1), value_scale))
          return testing::AssertionFailure() << "value " << place << " of kv head " << g << " differs at " << d;
    }
  }
  return testing::AssertionSuccess();
}

}  // namespace cache_test
