// What a cache must hold, told by plain lists: the tokens of a sequence as stored, which of them are held, and in how
// many pages of a pool.
#pragma once

#include <cmath>
#include <cstring>
#include <lockstep/lockstep.hpp>
#include <memory>
#include <string>
#include <vector>

#include "fuzz.hpp"
#include "golden/bits.hpp"

namespace fuzz {

namespace ls = lockstep;
using bits::at;
using ls::Index;

/// The bytes of one token: for each kv head key, value and, for int8, both scales.
template <class S>
struct Stored {
  std::vector<S> keys, values;  // [kv_heads, dim]
  std::vector<float> scales;    // [kv_heads, 2]

  bool operator==(const Stored& other) const {
    return bits::same_bits(keys, other.keys) && bits::same_bits(values, other.values) &&
           bits::same_bits(scales, other.scales);
  }
};

/// Puts a head row into storage, from the definition.
template <class S>
void put_row(const float* row, Index dim, std::vector<S>& stored, std::vector<float>& scales) {
  if constexpr (ls::is_quantised<S>) {
    float largest = 0;
    for (Index d = 0; d < dim; ++d) largest = std::fmax(largest, std::fabs(row[d]));
    const float scale = largest / 127.0F;
    scales.push_back(scale);
    for (Index d = 0; d < dim; ++d)
      stored.push_back(scale == 0 ? std::int8_t{0} : static_cast<std::int8_t>(std::nearbyint(row[d] / scale)));
  } else {
    for (Index d = 0; d < dim; ++d) stored.push_back(ls::narrow<S>(row[d]));
  }
}

/// A token from rows [kv_heads, dim].
template <class S>
Stored<S> stored(const ls::CacheShape& shape, const float* keys, const float* values) {
  Stored<S> token;
  for (Index g = 0; g < shape.kv_heads; ++g) {
    put_row(keys + g * shape.head_dim, shape.head_dim, token.keys, token.scales);
    put_row(values + g * shape.v_head_dim, shape.v_head_dim, token.values, token.scales);
  }
  return token;
}

/// f(element of the block, element of the token) over all elements and scales of a token.
template <class Block, class Token, class F>
void for_each_element(const ls::CacheShape& shape, const Block& block, Index g, Index at_place, Token& token, F&& f) {
  using S = std::remove_const_t<std::remove_pointer_t<decltype(block.keys)>>;
  using Layout = ls::BlockLayout<S>;
  for (Index d = 0; d < shape.head_dim; ++d)
    f(block.keys[Layout::key(at_place, d, shape.head_dim)], token.keys[at(g * shape.head_dim + d)]);
  for (Index d = 0; d < shape.v_head_dim; ++d)
    f(block.values[Layout::value(at_place, d)], token.values[at(g * shape.v_head_dim + d)]);
  if constexpr (ls::is_quantised<S>) {
    f(block.key_scales[at_place], token.scales[at(2 * g)]);
    f(block.value_scales[at_place], token.scales[at(2 * g + 1)]);
  }
}

/// What lies at a place of a cache.
template <class Cache>
auto token_of(const Cache& cache, Index place) {
  using S = typename Cache::Storage;
  const ls::CacheShape shape = cache.shape();
  Stored<S> token{std::vector<S>(at(shape.kv_heads * shape.head_dim)),
                  std::vector<S>(at(shape.kv_heads * shape.v_head_dim)),
                  std::vector<float>(ls::is_quantised<S> ? at(2 * shape.kv_heads) : 0)};
  for (Index g = 0; g < shape.kv_heads; ++g)
    for_each_element(shape, cache.block(g, place / ls::block_keys), g, place % ls::block_keys, token,
                     [](const auto& in_block, auto& in_token) { in_token = in_block; });
  return token;
}

/// A contiguous cache with these tokens and room for `more`, by no function of the caches but the first append.
template <class S>
ls::ContiguousCache<S> cache_of(const ls::CacheShape& shape, const std::vector<Stored<S>>& tokens, Index more) {
  const Index n = static_cast<Index>(tokens.size());
  ls::ContiguousCache<S> cache(shape, n + more);
  const std::vector<float> zeros(at(n * shape.kv_heads * std::max(shape.head_dim, shape.v_head_dim)));
  cache.append(ls::View<const float, 3>::contiguous(zeros.data(), {n, shape.kv_heads, shape.head_dim}),
               ls::View<const float, 3>::contiguous(zeros.data(), {n, shape.kv_heads, shape.v_head_dim}));
  for (Index place = 0; place < n; ++place)
    for (Index g = 0; g < shape.kv_heads; ++g)
      for_each_element(shape, cache.block(g, place / ls::block_keys), g, place % ls::block_keys, tokens[at(place)],
                       [](const auto& in_block, const auto& in_token) {
                         const_cast<std::remove_cvref_t<decltype(in_block)>&>(in_block) = in_token;
                       });
  return cache;
}

/// The pages of a pool, counted by their owners.
class Pages {
 public:
  using Page = std::shared_ptr<const int>;

  explicit Pages(Index count) : count_(count), live_(std::make_shared<const int>(0)) {}
  Index free() const { return count_ - (live_.use_count() - 1); }
  Page take() const {
    return Page(live_.get(), [keep = live_](const int*) {});
  }

 private:
  Index count_;
  Page live_;
};

/// How a cache comes by room, as its documentation says.
struct Room {
  enum Kind { contiguous, ring, paged } kind = contiguous;
  Index capacity = 0;
  ls::RingSize size{};
  std::shared_ptr<Pages> pages{};

  Index pinned() const { return ls::ceil_div(size.sink_tokens, ls::block_keys) * ls::block_keys; }
  /// How many of its last tokens a ring holds: all that it has places for, but for those of one append.
  Index held() const {
    const Index places = (ls::ceil_div(size.window + size.slack - 1, ls::block_keys) + 1) * ls::block_keys;
    return std::max(size.window + size.slack, places - append_limit());
  }
  Index append_limit() const { return kind == ring ? size.slack + 1 : std::numeric_limits<Index>::max(); }
};

/// One sequence.
template <class S>
struct Tokens {
  std::vector<Stored<S>> stored{};
  std::vector<char> held{};
  std::vector<Pages::Page> pages{};
  std::uint64_t table = 0;
  // Where the tokens are the rows of inputs, at their own positions, they and what came out for them.
  bool plain = true;
  std::vector<Index> inputs{};
  std::vector<std::vector<float>> results{};
  std::size_t verified = 0;

  Index length() const { return static_cast<Index>(stored.size()); }
  bool holds(Index first, Index last) const {
    for (Index place = std::max(first, Index{0}); place < std::min(last, length()); ++place)
      if (!held[at(place)]) return false;
    return true;
  }
  /// What a ring has pushed out once its tokens are all these.
  void push(const Room& room) {
    if (room.kind != Room::ring) return;
    for (Index place = room.pinned(); place < length() - room.held(); ++place) held[at(place)] = false;
  }
  void resize(Index n) {
    stored.resize(at(n));
    held.resize(at(n), true);
    inputs.resize(std::min(inputs.size(), at(n)));
    results.resize(std::min(results.size(), at(n)));
    verified = std::min(verified, at(n));
    if (n == 0) table = 0, plain = true;
  }
  /// What a cache does after it became shorter.
  void release() { pages.resize(std::min(pages.size(), at(ls::ceil_div(length(), ls::block_keys)))); }
  /// Whether there is room for writing places [first, last): new pages, and copies of those that are shared.
  bool has_room(const Room& room, Index first, Index last) const {
    if (room.kind != Room::paged || first >= last) return true;
    const std::size_t needed = at(ls::ceil_div(last, ls::block_keys));
    std::size_t missing = needed > pages.size() ? needed - pages.size() : 0;
    for (std::size_t b = at(first / ls::block_keys); b < std::min(needed, pages.size()); ++b)
      missing += pages[b].use_count() > 1 ? 1 : 0;
    return static_cast<Index>(missing) <= room.pages->free();
  }
  /// Makes it; false if there are too few pages.
  bool make_room(const Room& room, Index first, Index last) {
    if (!has_room(room, first, last)) return false;
    if (room.kind != Room::paged || first >= last) return true;
    const std::size_t needed = at(ls::ceil_div(last, ls::block_keys));
    for (std::size_t b = at(first / ls::block_keys); b < std::min(needed, pages.size()); ++b)
      if (pages[b].use_count() > 1) pages[b] = room.pages->take();
    while (pages.size() < needed) pages.push_back(room.pages->take());
    return true;
  }
};

}  // namespace fuzz
