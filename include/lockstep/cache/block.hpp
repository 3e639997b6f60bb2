// Blocks of 256 places in memory: their sizes, and how the tokens of one kv head are written and read.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "lockstep/aligned.hpp"
#include "lockstep/cache/layout.hpp"
#include "lockstep/concepts.hpp"
#include "lockstep/numeric/half.hpp"
#include "lockstep/views.hpp"

namespace lockstep {

/// What a cache of storage S gives and takes as its content: S itself, or float for int8.
template <CacheElement S>
using cache_value_t = std::conditional_t<is_quantised<S>, float, S>;

namespace detail {

/// Bytes of one block of one kv head, all multiples of 64.
template <class S>
struct BlockBytes {
  Index keys = 0;
  Index values = 0;
  Index scales = 0;  // of the keys, and as many of the values

  explicit BlockBytes(const CacheShape& shape = {}) noexcept
      : keys(BlockLayout<S>::key_block(shape.head_dim) * static_cast<Index>(sizeof(S))),
        values(BlockLayout<S>::value_block(shape.v_head_dim) * static_cast<Index>(sizeof(S))),
        scales(is_quantised<S> ? block_keys * static_cast<Index>(sizeof(float)) : 0) {}
  Index all() const noexcept { return keys + values + 2 * scales; }
};

/// Refuses shapes and numbers of tokens whose memory 63 bits of bytes do not count.
template <class S>
Status check_cache_sizes(const CacheShape& shape, const char* argument, Index tokens) noexcept {
  if (shape.kv_heads < 1 || shape.head_dim < 1 || shape.v_head_dim < 1)
    return Status::invalid("shape", "given kv_heads {}, head_dim {}, v_head_dim {}, allowed at least 1 each",
                           shape.kv_heads, shape.head_dim, shape.v_head_dim);
  // Each factor below 2^31 keeps the sums of the products below within 63 bits once the whole is checked. A place takes
  // less than 16 elements and two scales beyond its dimensions.
  Index size = 0;
  if (tokens < 0 || tokens > (Index{1} << 48) || shape.kv_heads > size_limit || shape.head_dim > size_limit ||
      shape.v_head_dim > size_limit ||
      __builtin_mul_overflow(round_up(tokens, block_keys), shape.head_dim + shape.v_head_dim + 40, &size) ||
      __builtin_mul_overflow(size, shape.kv_heads * static_cast<Index>(sizeof(S)), &size))
    return Status::length(argument, "given {} tokens of {} kv heads, allowed 0 to what 63 bits of bytes hold", tokens,
                          shape.kv_heads);
  return {};
}

/// Some blocks of all kv heads in one piece of memory. Per kv head first all key blocks, then all value blocks: decode
/// reads two linear streams.
template <class S>
class BlockArray {
 public:
  BlockArray() noexcept = default;
  BlockArray(const CacheShape& shape, Index blocks, MemorySource source)
      : memory_(static_cast<std::size_t>(shape.kv_heads * blocks * BlockBytes<S>(shape).all()), source),
        bytes_(shape),
        blocks_(blocks),
        kv_heads_(shape.kv_heads) {}

  Index blocks() const noexcept { return blocks_; }
  Index bytes() const noexcept { return static_cast<Index>(memory_.size()); }
  ByteRange memory() const noexcept { return bytes_of(View<std::byte, 1>::contiguous(memory_.data(), {bytes()})); }
  const MemorySource& source() const noexcept { return memory_.source(); }

  WritableBlock<S> block(Index kv_head, Index b) const noexcept {
    std::byte* keys = memory_.data() + kv_head * blocks_ * bytes_.all();
    std::byte* values = keys + blocks_ * bytes_.keys;
    WritableBlock<S> block{reinterpret_cast<S*>(keys + b * bytes_.keys),
                           reinterpret_cast<S*>(values + b * bytes_.values)};
    if constexpr (is_quantised<S>) {
      std::byte* scales = values + blocks_ * bytes_.values;
      block.key_scales = reinterpret_cast<float*>(scales + b * bytes_.scales);
      block.value_scales = reinterpret_cast<float*>(scales + (blocks_ + b) * bytes_.scales);
    }
    return block;
  }

  /// Block `from` of `source`, whole, into block `to`.
  void copy_block(Index to, const BlockArray& source, Index from) noexcept {
    for (Index g = 0; g < kv_heads_; ++g) {
      const WritableBlock<S> in = source.block(g, from), out = block(g, to);
      std::memcpy(out.keys, in.keys, static_cast<std::size_t>(bytes_.keys));
      std::memcpy(out.values, in.values, static_cast<std::size_t>(bytes_.values));
      if constexpr (is_quantised<S>) {
        std::memcpy(out.key_scales, in.key_scales, static_cast<std::size_t>(bytes_.scales));
        std::memcpy(out.value_scales, in.value_scales, static_cast<std::size_t>(bytes_.scales));
      }
    }
  }

 private:
  AlignedBuffer memory_;
  BlockBytes<S> bytes_;
  Index blocks_ = 0;
  Index kv_heads_ = 0;
};

/// What a block has of a token.
enum class Part { keys, values };

/// f(token, d, index among the block's keys or values) for rows [tokens, dim] of tokens at places at, at + 1, ... of a
/// block, neighbours in memory together: lanes of a tile of keys, 16 dimensions of a value.
template <Part part, class S, class F>
[[gnu::always_inline]] inline void for_each_element(Index at, Index tokens, Index dim, F&& f) {
  constexpr Index pair = BlockLayout<S>::pair;
  if constexpr (part == Part::keys) {
    const Index tile = BlockLayout<S>::key_tile(dim);
    for (Index t = 0; t < tokens;) {
      const Index lane = (at + t) % lanes, left = tokens - t, count = left < lanes - lane ? left : lanes - lane;
      const Index base = (at + t) / lanes * tile + lane * pair;
      for (Index d = 0; d < dim; ++d) {
        const Index line = base + d / pair * (lanes * pair) + d % pair;
        for (Index i = 0; i < count; ++i) f(t + i, d, line + i * pair);
      }
      t += count;
    }
  } else {
    for (Index first = 0; first < dim; first += lanes) {
      const Index dims = dim - first < lanes ? dim - first : lanes;
      for (Index t = 0; t < tokens; ++t) {
        const Index line = BlockLayout<S>::value(at + t, first);
        for (Index d = 0; d < dims; ++d) f(t, first + d, line + d * pair);
      }
    }
  }
}

/// The scales of rows [tokens, dim], into scale[0 .. tokens).
inline void put_scales(View<const float, 2> rows, float* scale) noexcept {
  for (Index t = 0; t < rows.extent[0]; ++t) {
    float largest = 0;
    for (Index d = 0; d < rows.extent[1]; ++d) {
      const float x = rows(t, d), size = x < 0 ? -x : x;
      largest = size > largest ? size : largest;
    }
    scale[t] = int8_scale(largest);
  }
}

/// Stores rows [tokens, dim] at places at, at + 1, ... of a block: elements of storage as they are, numbers of the
/// compute type rounded once, or as codes and scales.
template <Part part, class S, class U>
void store_rows(const WritableBlock<S>& block, Index at, View<const U, 2> rows) noexcept {
  S* const elements = part == Part::keys ? block.keys : block.values;
  const auto store = [=](auto converted) {
    for_each_element<part, S>(at, rows.extent[0], rows.extent[1],
                              [=](Index t, Index d, Index i) { elements[i] = converted(t, rows(t, d)); });
  };
  if constexpr (std::same_as<U, S>) {
    store([](Index, S x) { return x; });
  } else if constexpr (is_quantised<S>) {
    const FloatEnvironment environment;
    float* const scales = (part == Part::keys ? block.key_scales : block.value_scales) + at;
    put_scales(rows, scales);
    store([scales](Index t, float x) { return int8_code(x, scales[t]); });
  } else {
    store([](Index, U x) { return narrow<S>(x); });
  }
}

/// The same out of a block: elements of storage as they are, or widened, codes times their scale.
template <Part part, class Block, class U>
void load_rows(const Block& block, Index at, View<U, 2> rows) noexcept {
  using S = std::remove_cvref_t<decltype(*block.keys)>;
  const S* const elements = part == Part::keys ? block.keys : block.values;
  for_each_element<part, S>(at, rows.extent[0], rows.extent[1], [&](Index t, Index d, Index i) {
    const S x = elements[i];
    if constexpr (std::same_as<U, S>)
      rows(t, d) = x;
    else if constexpr (is_quantised<S>)
      rows(t, d) = rounded(widen(x) * (part == Part::keys ? block.key_scales : block.value_scales)[at + t]);
    else
      rows(t, d) = widen(x);
  });
}

/// f(block number, first place in the block, tokens) for the blocks that hold places [first, last).
template <class F>
void for_each_block(Index first, Index last, F&& f) {
  for (Index place = first; place < last;) {
    const Index at = place % block_keys;
    const Index tokens = last - place < block_keys - at ? last - place : block_keys - at;
    f(place / block_keys, at, tokens);
    place += tokens;
  }
}

/// Refuses numbers that have no scale: rows [tokens, kv_heads, dim] for int8 storage must be finite.
inline Status check_finite(const char* argument, View<const float, 3> rows) noexcept {
  for (Index t = 0; t < rows.extent[0]; ++t)
    for (Index g = 0; g < rows.extent[1]; ++g)
      for (Index d = 0; d < rows.extent[2]; ++d)
        if (const float x = rows(t, g, d); (std::bit_cast<std::uint32_t>(x) & 0x7f800000u) == 0x7f800000u)
          return Status::invalid(
              argument,
              "given {} at token {}, kv head {}, allowed finite numbers: int8 storage has codes for no others", x, t,
              g);
  return {};
}

}  // namespace detail

}  // namespace lockstep
