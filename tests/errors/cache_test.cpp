// Every wrong argument of what caches offer, for each kind of cache: refused, and nothing is changed.
#include <gtest/gtest.h>

#include <algorithm>
#include <concepts>
#include <limits>
#include <new>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "errors/refusal.hpp"
#include "lockstep/cache/contiguous.hpp"
#include "lockstep/cache/model_cache.hpp"
#include "lockstep/cache/paged.hpp"
#include "lockstep/cache/ring.hpp"
#include "lockstep/cache/save.hpp"
#include "lockstep/plain.hpp"
#include "lockstep/position/rope.hpp"

namespace ls = lockstep;
using errors::invalid;
using errors::too_long;
using ls::Index;
using ls::View;

namespace {

using Rope = ls::Rope<ls::HalfSplit, float>;
using Contiguous = ls::ContiguousCache<float>;
using Paged = ls::PagedCache<float>;
using Ring = ls::RingCache<float>;

constexpr ls::CacheShape shape{2, 4, 5};
constexpr Index most = std::numeric_limits<Index>::max();

const std::vector<float> numbers(20000, 0.5F);
Rope rope(Index width = 4, double base = 10000) {
  return Rope(ls::RopeTable<float>({.rotary_dim = width, .base = base, .positions = 8}));
}
View<const float, 3> rows(Index tokens, Index dim) {
  return View<const float, 3>::contiguous(numbers.data(), {tokens, 2, dim});
}
View<const float, 3> keys(Index tokens) { return rows(tokens, 4); }
View<const float, 3> values(Index tokens) { return rows(tokens, 5); }
View<const float, 3> heads(Index tokens, Index dim) {
  return View<const float, 3>::contiguous(numbers.data(), {2, tokens, dim});
}
View<const float, 3> null(View<const float, 3> v) {
  v.data = nullptr;
  return v;
}
View<const float, 3> far(View<const float, 3> v) {
  v.stride[0] = Index{1} << 61;
  return v;
}
template <class Cache>
std::string content(const Cache& cache) {
  std::ostringstream out;
  ls::save_cache(cache, out);
  return out.str();
}

// 20 tokens that rope() has rotated, in a cache with room for 20 more (a ring: any number, at most 21 at once).
template <class Cache>
struct Scene {
  ls::PagePool<float> pool{shape, 2};
  Cache cache = [&] {
    if constexpr (std::same_as<Cache, Contiguous>)
      return Cache(shape, 40);
    else if constexpr (std::same_as<Cache, Paged>)
      return Cache(pool, 40);
    else
      return Cache(shape, 10, 20);
  }();
  std::vector<float> out = std::vector<float>(400, -1);

  Scene() {
    cache.append(keys(20), values(20));
    cache.set_table(rope().identity());
  }
  View<float, 3> out_view(Index tokens, Index dim) { return View<float, 3>::contiguous(out.data(), {2, tokens, dim}); }
  // One token within the cache's memory.
  View<const float, 3> own(Index dim) { return View<const float, 3>::contiguous(cache.block(0, 0).keys, {1, 2, dim}); }
  View<float, 3> own_to_write() {
    return View<float, 3>::contiguous(const_cast<float*>(cache.block(0, 0).keys), {20, 2, 4});
  }
  void keep(Index context, std::vector<Index> path) { cache.keep(context, path); }
  std::string state() const {
    return content(cache) + std::to_string(pool.free_pages()) + std::to_string(cache.bytes()) +
           std::string(reinterpret_cast<const char*>(out.data()), out.size() * sizeof(float));
  }
};

template <class Cache>
struct Row {
  const char* name;
  errors::Refusal refusal;
  void (*call)(Scene<Cache>&);
};

// clang-format off
template <class Cache>
std::vector<Row<Cache>> table() {
  using S = Scene<Cache>;
  return {
    {"AppendNegative", {too_long, "cache", "-1 tokens", ""}, [](S& s) { s.cache.append(keys(-1), values(-1)); }},
    {"AppendNearlyAllThatThereAre", {too_long, "cache", "9223372036854775807 tokens", ""}, [](S& s) { auto k = keys(1); k.extent[0] = most; s.cache.append(k, k); }},
    {"AppendTooMany", {too_long, "cache", "22 tokens", ""}, [](S& s) { s.cache.append(keys(22), values(22)); }},
    {"AppendOtherHeads", {invalid, "keys", "[2, 3, 4]", "[2, 2, 4]"}, [](S& s) { auto k = keys(2); k.extent[1] = 3; s.cache.append(k, values(2)); }},
    {"AppendFewerValues", {invalid, "values", "[1, 2, 5]", "[2, 2, 5]"}, [](S& s) { s.cache.append(keys(2), values(1)); }},
    {"AppendNull", {invalid, "values", "null", "[2, 2, 5]"}, [](S& s) { s.cache.append(keys(2), null(values(2))); }},
    {"AppendFarAway", {invalid, "keys", "strides", "2^63"}, [](S& s) { s.cache.append(far(keys(3)), values(3)); }},
    {"AppendFromItself", {invalid, "cache", "overlaps keys", "of its own"}, [](S& s) { s.cache.append(s.own(4), values(1)); }},
    {"AppendValuesFromItself", {invalid, "cache", "overlaps values", "of its own"}, [](S& s) { s.cache.append(keys(1), s.own(5)); }},
    {"WriteFromItself", {invalid, "cache", "overlaps keys", "of its own"}, [](S& s) { s.cache.write(3, s.own(4), values(1)); }},
    {"WriteCircularFromItself", {invalid, "cache", "overlaps values", "of its own"}, [](S& s) { s.cache.write_circular(3, keys(1), s.own(5)); }},
    {"ImportFromItself", {invalid, "cache", "overlaps keys", "of its own"}, [](S& s) { s.cache.import(s.own(4), values(1), ls::Order::token_head_dim); }},
    {"ExportIntoItself", {invalid, "out", "overlaps cache", "of its own"}, [](S& s) { s.cache.export_keys(s.own_to_write(), ls::Order::token_head_dim); }},
    {"ReserveNegative", {too_long, "cache", "-1 tokens", ""}, [](S& s) { s.cache.reserve(-1); }},
    {"ReserveTooMany", {too_long, "cache", "22 tokens", ""}, [](S& s) { s.cache.reserve(22); }},
    {"WriteBeforeTheStart", {too_long, "first", "-1", "0 to 20"}, [](S& s) { s.cache.write(-1, keys(1), values(1)); }},
    {"WriteBeyondTheEnd", {too_long, "first", "21", "0 to 20"}, [](S& s) { s.cache.write(21, keys(1), values(1)); }},
    {"WriteFarBeyondTheEnd", {too_long, "first", "9223372036854775807", "0 to 20"}, [](S& s) { s.cache.write(most, keys(1), values(1)); }},
    {"WriteNegative", {invalid, "keys", "[-1, 2, 4]", "from 0"}, [](S& s) { s.cache.write(3, keys(-1), values(-1)); }},
    {"WriteTooMany", {too_long, "cache", "22 tokens", ""}, [](S& s) { s.cache.write(18, keys(24), values(24)); }},
    {"WriteOtherDim", {invalid, "keys", "[2, 2, 5]", "[2, 2, 4]"}, [](S& s) { s.cache.write(3, values(2), values(2)); }},
    {"WriteFewerValues", {invalid, "values", "[1, 2, 5]", "[2, 2, 5]"}, [](S& s) { s.cache.write(3, keys(2), values(1)); }},
    {"WriteNull", {invalid, "keys", "null", "[2, 2, 4]"}, [](S& s) { s.cache.write(3, null(keys(2)), values(2)); }},
    {"WriteCircularBeforeTheStart", {too_long, "first", "-1", "0 to 19"}, [](S& s) { s.cache.write_circular(-1, keys(1), values(1)); }},
    {"WriteCircularAtTheEnd", {too_long, "first", "20", "0 to 19"}, [](S& s) { s.cache.write_circular(20, keys(1), values(1)); }},
    {"WriteCircularMoreThanOnceRound", {too_long, "first", "21 tokens", "0 to 19"}, [](S& s) { s.cache.write_circular(0, keys(21), values(21)); }},
    {"WriteCircularNegative", {invalid, "keys", "[-2, 2, 4]", "from 0"}, [](S& s) { s.cache.write_circular(3, keys(-2), values(-2)); }},
    {"WriteCircularOtherDim", {invalid, "values", "[2, 2, 4]", "[2, 2, 5]"}, [](S& s) { s.cache.write_circular(19, keys(2), keys(2)); }},
    {"WriteCircularNull", {invalid, "values", "null", "[2, 2, 5]"}, [](S& s) { s.cache.write_circular(19, keys(2), null(values(2))); }},
    {"TruncateNegative", {too_long, "length", "-1", "0 to 20"}, [](S& s) { s.cache.truncate(-1); }},
    {"TruncateBeyondTheEnd", {too_long, "length", "21", "0 to 20"}, [](S& s) { s.cache.truncate(21); }},
    {"KeepBeforeTheStart", {too_long, "context", "-1", "0 to 20"}, [](S& s) { s.keep(-1, {}); }},
    {"KeepBeyondTheEnd", {too_long, "context", "21", "0 to 20"}, [](S& s) { s.keep(21, {}); }},
    {"KeepANegativeNode", {invalid, "path", "-1", "0 to 4"}, [](S& s) { s.keep(15, {-1}); }},
    {"KeepANodeThatIsNotThere", {invalid, "path", "5", "0 to 4"}, [](S& s) { s.keep(15, {0, 5}); }},
    {"KeepAFarNode", {invalid, "path", "9223372036854775807", "0 to 4"}, [](S& s) { s.keep(15, {most}); }},
    {"KeepANodeTwice", {invalid, "path", "2", "rising"}, [](S& s) { s.keep(15, {2, 2}); }},
    {"KeepAFallingPath", {invalid, "path", "1", "rising"}, [](S& s) { s.keep(15, {3, 1}); }},
    {"DropAfterANegativePlace", {too_long, "keep", "-1", "0 to 20"}, [](S& s) { s.cache.drop_oldest(1, rope(), -1); }},
    {"DropAfterTheEnd", {too_long, "keep", "21", "0 to 20"}, [](S& s) { s.cache.drop_oldest(0, rope(), 21); }},
    {"DropNegative", {too_long, "tokens", "-1", "0 to 17"}, [](S& s) { s.cache.drop_oldest(-1, rope(), 3); }},
    {"DropMoreThanThereAre", {too_long, "tokens", "18", "0 to 17"}, [](S& s) { s.cache.drop_oldest(18, rope(), 3); }},
    {"DropByAnotherTable", {invalid, "position", "another rotary table", "the one that rotated"}, [](S& s) { s.cache.drop_oldest(1, rope(4, 500)); }},
    {"DropByAnotherPairing", {invalid, "position", "another rotary table", "the one that rotated"}, [](S& s) { s.cache.drop_oldest(1, ls::Rope<ls::Interleaved, float>(rope().table())); }},
    {"DropByNoRotation", {invalid, "position", "another rotary table", "the one that rotated"}, [](S& s) { s.cache.drop_oldest(1, ls::NoPosition{}); }},
    {"DropByWiderRows", {invalid, "position", "rotary_dim 64", "head_dim 4"}, [](S& s) { s.cache.drop_oldest(1, rope(64)); }},
    {"ExportNull", {invalid, "out", "null", "[2, 20, 4]"}, [](S& s) { auto o = s.out_view(20, 4); o.data = nullptr; s.cache.export_keys(o); }},
    {"ExportOtherLength", {invalid, "out", "[2, 19, 5]", "[2, 20, 5]"}, [](S& s) { s.cache.export_values(s.out_view(19, 5)); }},
    {"ExportTheOtherOrder", {invalid, "out", "[2, 20, 4]", "[20, 2, 4]"}, [](S& s) { s.cache.export_keys(s.out_view(20, 4), ls::Order::token_head_dim); }},
    {"ExportIntoOneRow", {invalid, "out", "strides", "part all numbers"}, [](S& s) { auto o = s.out_view(20, 4); o.stride[1] = 0; s.cache.export_keys(o); }},
    {"ImportNegative", {invalid, "keys", "[2, -1, 4]", "from 0"}, [](S& s) { s.cache.import(heads(-1, 4), heads(-1, 5)); }},
    {"ImportOtherDim", {invalid, "keys", "[2, 3, 5]", "[2, 3, 4]"}, [](S& s) { s.cache.import(heads(3, 5), heads(3, 5)); }},
    {"ImportFewerValues", {invalid, "values", "[2, 2, 5]", "[2, 3, 5]"}, [](S& s) { s.cache.import(heads(3, 4), heads(2, 5)); }},
    {"ImportTheOtherOrder", {invalid, "keys", "[2, 3, 4]", "[2, 2, 4]"}, [](S& s) { s.cache.import(heads(3, 4), heads(3, 5), ls::Order::token_head_dim); }},
    {"ImportNull", {invalid, "values", "null", "[2, 3, 5]"}, [](S& s) { s.cache.import(heads(3, 4), null(heads(3, 5))); }},
    {"ImportFarAway", {invalid, "keys", "strides", "2^63"}, [](S& s) { s.cache.import(far(heads(3, 4)), heads(3, 5)); }},
  };
}
// clang-format on

template <class Cache>
class CacheRefuses : public testing::Test {};
using Caches = testing::Types<Contiguous, Paged, Ring>;
TYPED_TEST_SUITE(CacheRefuses, Caches);

TYPED_TEST(CacheRefuses, WrongArgumentsAndChangesNothing) {
  for (const auto& row : table<TypeParam>()) {
    SCOPED_TRACE(row.name);
    Scene<TypeParam> scene;
    const std::string before = scene.state();
    EXPECT_TRUE(errors::is_refusal(errors::outcome_of([&] { row.call(scene); }), row.refusal));
    EXPECT_TRUE(scene.state() == before) << "something was changed";
  }
}

TYPED_TEST(CacheRefuses, OnlyWhatIsWrong) {
  Scene<TypeParam> scene;
  auto& cache = scene.cache;
  EXPECT_NO_THROW(cache.write(18, keys(20), values(20)));
  EXPECT_NO_THROW(cache.truncate(20));
  EXPECT_NO_THROW(cache.write_circular(19, keys(20), values(20)));
  EXPECT_NO_THROW(scene.keep(15, {0, 4}));
  EXPECT_NO_THROW(cache.drop_oldest(2, rope(), 3));
  EXPECT_EQ(cache.length(), 15);
  EXPECT_NO_THROW(cache.export_keys(scene.out_view(15, 4)));
  EXPECT_NO_THROW(cache.import(heads(7, 4), heads(7, 5)));
  EXPECT_NO_THROW(cache.drop_oldest(1, rope(2, 77))) << "imported keys were rotated by an unknown table";
  EXPECT_EQ(cache.length(), 6);
}

TYPED_TEST(CacheRefuses, ToShiftByATableWithoutFrequencies) {
  const auto own = View<const float, 2>::contiguous(numbers.data(), {4, 2});
  const Rope made(ls::RopeTable<float>(own, own));
  Scene<TypeParam> scene;
  scene.cache.set_table(made.identity());
  const std::string before = scene.state();
  EXPECT_TRUE(errors::is_refusal(errors::outcome_of([&] { scene.cache.drop_oldest(1, made); }),
                                 {invalid, "shift", "without inverse frequencies", "made of them"}));
  EXPECT_TRUE(scene.state() == before);
}

TYPED_TEST(CacheRefuses, TokensOnceItWasMovedFrom) {
  Scene<TypeParam> scene;
  const auto taken = std::move(scene.cache);
  auto& cache = scene.cache;
  EXPECT_EQ(cache.length(), 0);
  EXPECT_THROW(cache.append(keys(1), values(1)), std::length_error);
  EXPECT_THROW(cache.write(0, keys(1), values(1)), std::exception);
  EXPECT_THROW(cache.write_circular(0, keys(0), values(0)), std::length_error);
  EXPECT_THROW(cache.import(heads(1, 4), heads(1, 5)), std::exception);
  EXPECT_THROW(cache.drop_oldest(1, rope()), std::length_error);
  std::istringstream in(content(taken));
  EXPECT_THROW(ls::restore_cache(cache, in), std::invalid_argument);
  scene.keep(0, {});
  cache.truncate(0);
  cache.clear();
  EXPECT_EQ(content(cache).size(), content(Contiguous()).size());
}

// A stream as save_cache() would write it for a cache that stands at `length` and holds the last `held` tokens: keys 0,
// values their distance from the end.
std::string stream_at(Index length, Index held) {
  std::string bytes;
  ls::detail::StreamHash hash;
  const auto put = [&](const void* data, std::size_t n) {
    hash.add(data, n);
    bytes.append(static_cast<const char*>(data), n);
  };
  ls::detail::SavedHeader header;
  header.storage = ls::detail::storage_code<float>();
  header.shape = shape;
  header.length = length;
  header.missing = {0, length - held};
  put(&header, sizeof header);
  Index left = held;
  for (Index place = length - held; place < length;) {
    const Index count = std::min(length - place, 256 - place % 256);
    for (Index g = 0; g < shape.kv_heads; ++g) {
      for (Index i = 0; i < count * shape.head_dim; ++i) put("\0\0\0", 4);
      for (Index t = 0; t < count; ++t)
        for (Index d = 0; d < shape.v_head_dim; ++d) {
          const float value = static_cast<float>(left - t);
          put(&value, sizeof value);
        }
    }
    place += count;
    left -= count;
  }
  const std::uint64_t sum = hash.value;
  bytes.append(reinterpret_cast<const char*>(&sum), sizeof sum);
  return bytes;
}

TEST(PagedCacheRefuses, WhatNoPoolHolds) {
  const auto refused = [](auto&& call, const errors::Refusal& refusal) {
    EXPECT_TRUE(errors::is_refusal(errors::outcome_of(call), refusal));
  };
  refused([] { const ls::PagePool<float> made(shape, -1); }, {too_long, "pages", "-1", "0 to 2^40"});
  refused([] { const ls::PagePool<float> made(shape, most); }, {too_long, "pages", "9223372036854775807", "2^40"});
  // A size, but of no machine.
  const ls::MemorySource none{[](void*, std::size_t, std::size_t) -> void* { return nullptr; },
                              [](void*, void*, std::size_t, std::size_t) noexcept {}, nullptr};
  refused([&] { const ls::PagePool<float> made(shape, Index{1} << 40, none); },
          {too_long, "memory source", "none for", "that many"});
  refused([] { const ls::PagePool<float> made({0, 4, 5}, 1); }, {invalid, "shape", "kv_heads 0", "at least 1"});
  refused([] { const ls::PagePool<float> made({1, 4, Index{1} << 40}, 1); }, {too_long, "pages", "", "63 bits"});
  const ls::PagePool<float> pool(shape, 3);
  refused([&] { const Paged made(pool, -1); }, {too_long, "capacity", "-1", "0 to"});
  refused([&] { const Paged made(pool, most); }, {too_long, "capacity", "9223372036854775807", "0 to"});
  Paged cache(pool);
  cache.append(keys(300), values(300));
  refused([&] { (void)cache.fork(301); }, {too_long, "length", "301", "0 to 300"});
  refused([&] { (void)cache.fork(-1); }, {too_long, "length", "-1", "0 to 300"});
  Paged other = cache.fork();
  refused([&] { other.write(0, keys(290), values(290)); }, {too_long, "pages", "needs 2", "1"});
  EXPECT_EQ(content(other), content(cache));
  EXPECT_EQ(pool.free_pages(), 1);
}

TEST(PagePool, NamesItsPagesAlsoWhenItWasMovedFrom) {
  ls::PagePool<float> pool(shape, 3);
  const ls::PagePool<float> moved = std::move(pool);
  Paged first(pool), second(moved);
  first.append(keys(1), values(1));
  EXPECT_EQ(moved.free_pages(), 2);
  EXPECT_EQ(pool.shape(), shape);
}

TEST(PagedCacheRefuses, AStreamForWhichItHasNoPagesBeforeItTakesMemory) {
  const ls::PagePool<float> pool(shape, 4);
  Paged cache(pool, Index{1} << 41);
  std::istringstream in(stream_at(Index{1} << 40, 40));
  EXPECT_TRUE(errors::is_refusal(errors::outcome_of([&] { ls::restore_cache(cache, in); }),
                                 {too_long, "pages", "needs 4294967296", "allowed 4"}));
  EXPECT_EQ(pool.free_pages(), 4);
  EXPECT_EQ(cache.length(), 0);
}

TEST(GrowingCacheRefuses, WhatItWouldFreeWhileItReads) {
  Contiguous cache(shape, 600, {.initial = 0});
  cache.append(keys(256), values(256));
  const auto own = View<const float, 3>::contiguous(cache.block(0, 0).keys, {1, 2, 4});
  EXPECT_TRUE(errors::is_refusal(errors::outcome_of([&] { cache.append(own, values(1)); }),
                                 {invalid, "cache", "overlaps keys", "of its own"}));
  EXPECT_EQ(cache.length(), 256);
}

TEST(CacheMemoryRefuses, AddressesBetweenCacheLines) {
  alignas(64) static std::byte memory[1 << 16];
  const ls::MemorySource odd{[](void*, std::size_t, std::size_t) -> void* { return memory + 8; },
                             [](void*, void*, std::size_t, std::size_t) noexcept {}, nullptr};
  EXPECT_TRUE(errors::is_refusal(errors::outcome_of([&] { const Contiguous made(shape, 100, {.source = odd}); }),
                                 {invalid, "memory source", "an address between", "multiples of 64"}));
}

TEST(ModelCacheRefuses, ARollbackThatOneLayerCannotMakeAndChangesNone) {
  ls::ModelCache<Contiguous, Ring> model;
  model.add(Contiguous(shape, 1000));
  model.add(Ring(shape, 10, 20));
  const auto step = model.begin(600);
  model.layer(0).append(keys(600), values(600));
  for (int i = 0; i < 30; ++i) model.layer<Ring>(1).append(keys(20), values(20));
  EXPECT_TRUE(errors::is_refusal(errors::outcome_of([&] { model.rollback({.offset = 100}); }),
                                 {too_long, "length", "100", "window is still held"}));
  EXPECT_EQ(model.layer(0).length(), 600);
  EXPECT_EQ(model.layer<Ring>(1).length(), 600);
  model.rollback(step);  // nothing is needed at the start
  EXPECT_EQ(model.length(), 0);
}

TEST(RingCache, StandsAtPlacesThatTakeAllBits) {
  for (const Index length : {Index{1} << 31, (Index{1} << 33) + 5, (Index{1} << 62) - 1}) {
    SCOPED_TRACE(length);
    Ring ring(shape, 10, 20);
    std::istringstream in(stream_at(length, 40));
    ls::restore_cache(ring, in);
    EXPECT_EQ(ring.length(), length);
    EXPECT_EQ(ring.first(), length - 40);
    const auto value = [&](Index place) {
      return ring.block(1, place / 256).values[ls::BlockLayout<float>::value(place % 256, 4)];
    };
    EXPECT_EQ(value(length - 1), 1);
    EXPECT_EQ(value(length - 40), 40);
    ring.append(keys(1), values(1));
    EXPECT_EQ(value(length), 0.5F);
    EXPECT_EQ(value(length - 3), 3);
    EXPECT_THROW(ring.truncate(length - 40), std::length_error);
    ring.truncate(length);
  }
  Ring ring(shape, 10, 20);
  std::istringstream end(stream_at(Index{1} << 62, 40)), beyond(stream_at((Index{1} << 62) + 1, 40)),
      last(stream_at(most, 40));
  ls::restore_cache(ring, end);
  EXPECT_TRUE(errors::is_refusal(errors::outcome_of([&] { ring.append(keys(1), values(1)); }),
                                 {too_long, "cache", "1 tokens to append to 4611686018427387904", "2^62"}));
  const std::string before = content(ring);
  EXPECT_TRUE(errors::is_refusal(errors::outcome_of([&] { ls::restore_cache(ring, beyond); }),
                                 {too_long, "stream", "4611686018427387905 tokens", "4611686018427387904"}));
  EXPECT_THROW(ls::restore_cache(ring, last), std::length_error);
  EXPECT_TRUE(content(ring) == before);
  Contiguous small(shape, 50);
  std::istringstream far_away(stream_at(Index{1} << 40, 40));
  EXPECT_THROW(ls::restore_cache(small, far_away), std::length_error);
}

}  // namespace
