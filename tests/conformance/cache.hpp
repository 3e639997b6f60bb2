// The laws of caches, for ours and for a user's own.
//
//     struct MyCacheSubject {
//       static constexpr const char* name = "MyCache";
//       using Cache = MyCache<float>;
//     };
//     INSTANTIATE_TYPED_TEST_SUITE_P(Mine, CacheLaws, MyCacheSubject, conformance::SubjectName);
//
// A cache that is not made of a shape and a capacity says how by conformance::CacheMaker.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
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

/// A cache with room for `capacity` tokens at least, all of which it keeps.
template <class K>
struct CacheMaker {
  static K make(CacheShape shape, Index capacity) { return K(shape, capacity); }
};

/// Appends tokens [first, first + count), in pieces that the cache takes.
template <class K, class C>
void append_part(K& cache, const Tokens<C>& tokens, Index first, Index count) {
  const Index limit = lockstep::detail::append_limit(cache);
  for (Index done = 0; done < count;) {
    const Index piece = std::min(limit, count - done);
    cache.append(tokens.some_keys(first + done, piece), tokens.some_values(first + done, piece));
    done += piece;
  }
}

/// The scale of a row under int8 storage, from the definition.
template <class C>
C scale_of(lockstep::View<const C, 3> row, Index g) {
  C largest = 0;
  for (Index d = 0; d < row.extent[2]; ++d) largest = std::max(largest, std::abs(row(0, g, d)));
  return largest / 127;
}

/// Whether the cache holds, as its first places, tokens [0, length) of these.
template <class K, class C>
Report holds(const K& cache, const Tokens<C>& tokens, Index length) {
  using S = typename K::Storage;
  using Layout = lockstep::BlockLayout<S>;
  if (cache.length() != length) return said("length ", cache.length(), " in place of ", length);
  constexpr bool codes = std::same_as<S, std::int8_t>;
  const auto differ = [](S stored, C given, [[maybe_unused]] C scale) {
    if constexpr (codes) {
      return stored != static_cast<S>(std::nearbyint(given / scale));
    } else {
      const S expected = lockstep::narrow<S>(given);
      return std::memcmp(&stored, &expected, sizeof(S)) != 0;
    }
  };
  for (Index g = 0; g < tokens.shape.kv_heads; ++g)
    for (Index place = 0; place < length; ++place) {
      const auto block = cache.block(g, place / lockstep::block_keys);
      const Index at = place % lockstep::block_keys;
      const auto key = tokens.some_keys(place, 1), value = tokens.some_values(place, 1);
      C key_scale = 1, value_scale = 1;
      if constexpr (codes) {
        key_scale = scale_of(key, g);
        value_scale = scale_of(value, g);
        if (block.key_scales[at] != key_scale || block.value_scales[at] != value_scale)
          return said("a scale of place ", place, " of kv head ", g, " differs");
      }
      for (Index d = 0; d < tokens.shape.head_dim; ++d)
        if (differ(block.keys[Layout::key(at, d, tokens.shape.head_dim)], key(0, g, d), key_scale))
          return said("key ", place, " of kv head ", g, " differs at ", d);
      for (Index d = 0; d < tokens.shape.v_head_dim; ++d)
        if (differ(block.values[Layout::value(at, d)], value(0, g, d), value_scale))
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
      const K cache = CacheMaker<K>::make(shape, capacity);
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
      K cache = CacheMaker<K>::make(shape, cache_tokens);
      for (Index first = 0; first < cache_tokens; first += piece)
        append_part(cache, tokens, first, std::min(piece, cache_tokens - first));
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
  K cache = CacheMaker<K>::make(shape, 300);
  append_part(cache, tokens, 0, 290);
  const Index room = std::min(cache.capacity() - cache.length(), lockstep::detail::append_limit(cache));
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
      K cache = CacheMaker<K>::make(shape, cache_tokens);
      append_part(cache, tokens, 0, kept);
      append_part(cache, other, 0, cache_tokens - kept);
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
  K cache = CacheMaker<K>::make(shape, cache_tokens);
  append_part(cache, tokens, 0, 300);
  K moved(std::move(cache));
  if (Report r = holds(moved, tokens, 300); !r.empty()) return said("moved: ", r);
  K assigned = CacheMaker<K>::make(shape, 1);
  assigned = std::move(moved);
  assigned.append(tokens.some_keys(300, 20), tokens.some_values(300, 20));
  return holds(assigned, tokens, 320);
}

/// A copy, where caches can be copied, has what was there and goes its own way.
template <class K>
Report copies_are_independent() {
  if constexpr (std::copyable<K>) {
    const CacheShape shape{2, 8, 8};
    const Tokens<cache_compute_t<K>> tokens(shape, cache_tokens, 5), other(shape, cache_tokens, 9);
    K cache = CacheMaker<K>::make(shape, cache_tokens);
    append_part(cache, tokens, 0, 290);
    K copy(cache);
    if (Report r = holds(copy, tokens, 290); !r.empty()) return said("copied: ", r);
    append_part(copy, other, 290, 30);
    append_part(cache, tokens, 290, 20);
    if (Report r = holds(cache, tokens, 310); !r.empty()) return said("after its copy went on: ", r);
    copy = cache;
    cache.truncate(100);
    append_part(cache, other, 100, 50);
    return holds(copy, tokens, 310);
  }
  return {};
}

/// What a cache says of places and appends, where it says anything: appends up to the limit are taken, and places that
/// are foretold to be missing are those that are, first() behind them.
template <class K>
Report foretells_what_is_missing() {
  if constexpr (lockstep::detail::MissesPlaces<K>) {
    const CacheShape shape{1, 2, 2};
    const Tokens<cache_compute_t<K>> tokens(shape, 1300, 6);
    K cache = CacheMaker<K>::make(shape, 600);
    const Index all = std::min<Index>(cache.capacity(), 1300);
    while (cache.length() < all) {
      const Index count = std::min({all - cache.length(), lockstep::detail::append_limit(cache), Index{90}});
      const lockstep::KeyRange foretold = cache.missing_after(count);
      append_part(cache, tokens, cache.length(), count);
      const lockstep::KeyRange missing = cache.missing_after(0);
      if (missing != foretold) return said("foretold ", foretold.first, " to ", foretold.last, ", then another range");
      if (cache.first() != (missing.empty() ? 0 : missing.last)) return said("first() is ", cache.first());
      if (missing.last > cache.length()) return said("misses places beyond its ", cache.length(), " tokens");
    }
  }
  return {};
}

/// All laws.
template <class K>
Report cache_laws() {
  static_assert(lockstep::KeyValueCache<K>);
  for (Report (*law)() :
       {&starts_empty<K>, &reads_what_was_appended<K>, &refuses_when_full<K>, &truncates_to_the_first_places<K>,
        &moves_with_its_contents<K>, &copies_are_independent<K>, &foretells_what_is_missing<K>})
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
TYPED_TEST_P(CacheLaws, CopiesAreIndependent) {
  EXPECT_EQ(conformance::copies_are_independent<typename TypeParam::Cache>(), "");
}
TYPED_TEST_P(CacheLaws, ForetellsWhatIsMissing) {
  EXPECT_EQ(conformance::foretells_what_is_missing<typename TypeParam::Cache>(), "");
}
REGISTER_TYPED_TEST_SUITE_P(CacheLaws, StartsEmpty, ReadsWhatWasAppended, RefusesWhenFull, TruncatesToTheFirstPlaces,
                            MovesWithItsContents, CopiesAreIndependent, ForetellsWhatIsMissing);
