// The laws of caches, for ours and for a user's own.
//
//     struct MyCacheSubject {
//       static constexpr const char* name = "MyCache";
//       using Cache = MyCache<float>;
//     };
//     INSTANTIATE_TYPED_TEST_SUITE_P(Mine, CacheLaws, MyCacheSubject, conformance::SubjectName);
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "conformance/report.hpp"
#include "lockstep/cache/layout.hpp"
#include "lockstep/concepts.hpp"
#include "lockstep/numeric/half.hpp"

namespace conformance {

using lockstep::CacheShape;
using lockstep::Index;

inline constexpr CacheShape cache_shapes[] = {{1, 1, 1}, {2, 8, 8}, {3, 5, 17}, {1, 64, 16}, {2, 33, 40}};

/// Keys and values of many tokens, [tokens, kv_heads, dim].
template <class C>
struct Tokens {
  Tokens(CacheShape shape_, Index tokens, unsigned seed)
      : shape(shape_),
        keys(fill(tokens * shape.kv_heads * shape.head_dim, seed)),
        values(fill(tokens * shape.kv_heads * shape.v_head_dim, seed + 1)) {}
  auto some_keys(Index first, Index count) const {
    return lockstep::View<const C, 3>::contiguous(keys.data() + first * shape.kv_heads * shape.head_dim,
                                                  {count, shape.kv_heads, shape.head_dim});
  }
  auto some_values(Index first, Index count) const {
    return lockstep::View<const C, 3>::contiguous(values.data() + first * shape.kv_heads * shape.v_head_dim,
                                                  {count, shape.kv_heads, shape.v_head_dim});
  }
  CacheShape shape;
  std::vector<C> keys, values;

 private:
  static std::vector<C> fill(Index n, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    std::vector<C> numbers(static_cast<std::size_t>(n));
    for (C& x : numbers) x = static_cast<C>(normal(random));
    return numbers;
  }
};

/// Whether the cache holds, as its first places, tokens [0, length) of these.
template <class K, class C>
Report holds(const K& cache, const Tokens<C>& tokens, Index length) {
  using S = typename K::Storage;
  using Layout = lockstep::BlockLayout<S>;
  if (cache.length() != length) return said("length ", cache.length(), " in place of ", length);
  const auto differ = [](S stored, C given) {
    const S expected = lockstep::narrow<S>(given);
    return std::memcmp(&stored, &expected, sizeof(S)) != 0;
  };
  for (Index g = 0; g < tokens.shape.kv_heads; ++g)
    for (Index place = 0; place < length; ++place) {
      const auto block = cache.block(g, place / lockstep::block_keys);
      const Index at = place % lockstep::block_keys;
      for (Index d = 0; d < tokens.shape.head_dim; ++d)
        if (differ(block.keys[Layout::key(at, d, tokens.shape.head_dim)], tokens.some_keys(place, 1)(0, g, d)))
          return said("key ", place, " of kv head ", g, " differs at ", d);
      for (Index d = 0; d < tokens.shape.v_head_dim; ++d)
        if (differ(block.values[Layout::value(at, d)], tokens.some_values(place, 1)(0, g, d)))
          return said("value ", place, " of kv head ", g, " differs at ", d);
    }
  return {};
}

template <class K>
using cache_compute_t = lockstep::compute_t<typename K::Storage>;

inline constexpr Index cache_tokens = 530;

/// A new cache has the shape and the room that were asked for, and no tokens.
template <class K>
Report starts_empty() {
  for (const CacheShape shape : cache_shapes)
    for (const Index capacity : {Index{0}, Index{1}, Index{255}, Index{256}, Index{257}}) {
      const K cache(shape, capacity);
      if (!(CacheShape(cache.shape()) == shape) || cache.length() != 0 || cache.capacity() < capacity)
        return said("capacity ", capacity, ": length ", cache.length(), ", capacity ", cache.capacity(),
                    ", or another shape");
    }
  return {};
}

/// What was appended is what is read, in whatever pieces it came.
template <class K>
Report reads_what_was_appended() {
  for (const CacheShape shape : cache_shapes) {
    const Tokens<cache_compute_t<K>> tokens(shape, cache_tokens, 1);
    for (const Index piece : {Index{1}, Index{7}, Index{16}, Index{255}, Index{256}, Index{257}, Index{530}}) {
      K cache(shape, cache_tokens);
      for (Index first = 0; first < cache_tokens; first += piece) {
        const Index count = std::min(piece, cache_tokens - first);
        cache.append(tokens.some_keys(first, count), tokens.some_values(first, count));
      }
      if (Report r = holds(cache, tokens, cache_tokens); !r.empty()) return said(r, " (pieces of ", piece, ")");
      if (cache.bytes() < cache_tokens * shape.kv_heads * (shape.head_dim + shape.v_head_dim) *
                              static_cast<Index>(sizeof(typename K::Storage)))
        return said("bytes() gives ", cache.bytes(), ", less than what is stored");
    }
  }
  return {};
}

/// A full cache refuses, by check_append() and by append(), and keeps what it has; nothing is stored in part.
template <class K>
Report refuses_when_full() {
  const CacheShape shape{2, 8, 8};
  const Tokens<cache_compute_t<K>> tokens(shape, 2 * cache_tokens, 2);
  K cache(shape, 300);
  cache.append(tokens.some_keys(0, 290), tokens.some_values(0, 290));
  const Index room = cache.capacity() - cache.length();
  if (!cache.check_append(room).ok() || !cache.check_append(0).ok())
    return said("refuses ", room, " tokens for which there is room");
  if (cache.check_append(room + 1).ok()) return said("takes ", room + 1, " tokens where there is room for ", room);
  if (cache.check_append(-1).ok()) return "takes -1 tokens";
#if defined(__cpp_exceptions)
  bool refused = false;
  try {
    cache.append(tokens.some_keys(290, room + 1), tokens.some_values(290, room + 1));
  } catch (const std::logic_error&) {
    refused = true;
  }
  if (!refused) return "append() takes more than there is room for";
#endif
  if (Report r = holds(cache, tokens, 290); !r.empty()) return said("after a refusal: ", r);
  cache.append(tokens.some_keys(290, room), tokens.some_values(290, room));
  return holds(cache, tokens, 290 + room);
}

/// truncate() keeps the first places, and what is appended then follows them.
template <class K>
Report truncates_to_the_first_places() {
  for (const CacheShape shape : cache_shapes) {
    const Tokens<cache_compute_t<K>> tokens(shape, cache_tokens, 3), other(shape, cache_tokens, 9);
    for (const Index kept : {0, 1, 15, 16, 17, 255, 256, 257, 400}) {
      K cache(shape, cache_tokens);
      cache.append(tokens.some_keys(0, kept), tokens.some_values(0, kept));
      cache.append(other.some_keys(0, cache_tokens - kept), other.some_values(0, cache_tokens - kept));
      cache.truncate(kept);
      if (Report r = holds(cache, tokens, kept); !r.empty()) return said("truncated to ", kept, ": ", r);
      cache.append(tokens.some_keys(kept, 3), tokens.some_values(kept, 3));
      if (Report r = holds(cache, tokens, kept + 3); !r.empty())
        return said("truncated to ", kept, " and appended: ", r);
    }
  }
  return {};
}

/// A cache that was moved holds what it held.
template <class K>
Report moves_with_its_contents() {
  const CacheShape shape{2, 8, 8};
  const Tokens<cache_compute_t<K>> tokens(shape, cache_tokens, 4);
  K cache(shape, cache_tokens);
  cache.append(tokens.some_keys(0, 300), tokens.some_values(0, 300));
  K moved(std::move(cache));
  if (Report r = holds(moved, tokens, 300); !r.empty()) return said("moved: ", r);
  K assigned(shape, 1);
  assigned = std::move(moved);
  assigned.append(tokens.some_keys(300, 20), tokens.some_values(300, 20));
  return holds(assigned, tokens, 320);
}

/// All laws.
template <class K>
Report cache_laws() {
  static_assert(lockstep::KeyValueCache<K>);
  for (Report (*law)() : {&starts_empty<K>, &reads_what_was_appended<K>, &refuses_when_full<K>,
                          &truncates_to_the_first_places<K>, &moves_with_its_contents<K>})
    if (Report r = law(); !r.empty()) return r;
  return {};
}

}  // namespace conformance

template <class Subject>
class CacheLaws : public testing::Test {};
TYPED_TEST_SUITE_P(CacheLaws);
TYPED_TEST_P(CacheLaws, StartsEmpty) { EXPECT_EQ(conformance::starts_empty<typename TypeParam::Cache>(), ""); }
TYPED_TEST_P(CacheLaws, ReadsWhatWasAppended) {
  EXPECT_EQ(conformance::reads_what_was_appended<typename TypeParam::Cache>(), "");
}
TYPED_TEST_P(CacheLaws, RefusesWhenFull) { EXPECT_EQ(conformance::refuses_when_full<typename TypeParam::Cache>(), ""); }
TYPED_TEST_P(CacheLaws, TruncatesToTheFirstPlaces) {
  EXPECT_EQ(conformance::truncates_to_the_first_places<typename TypeParam::Cache>(), "");
}
TYPED_TEST_P(CacheLaws, MovesWithItsContents) {
  EXPECT_EQ(conformance::moves_with_its_contents<typename TypeParam::Cache>(), "");
}
REGISTER_TYPED_TEST_SUITE_P(CacheLaws, StartsEmpty, ReadsWhatWasAppended, RefusesWhenFull, TruncatesToTheFirstPlaces,
                            MovesWithItsContents);
