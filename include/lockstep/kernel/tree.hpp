// A draft tree over a cached context: what each node of it sees.
#pragma once

#include <cstring>
#include <span>

#include "lockstep/cache/layout.hpp"
#include "lockstep/concepts.hpp"

namespace lockstep {

/// A kernel that takes draft trees.
template <class K>
concept TreeKernel = requires { requires K::own_blocks; };

/// A cache that holds a context and, in the slots after it, the nodes of a draft tree: node n in slot context + n, its
/// parent before it. A node's place is context + depth, and its row sees the context and its own path, so that it has
/// the bits of decoding that path token by token. (Tree attention of speculative decoding: Miao et al., SpecInfer,
/// arXiv 2305.09781.) Borrows the cache and the arrays.
template <class Cache>
class TreeCache {
 public:
  using Storage = typename Cache::Storage;

  /// parents and depths: one a node; parent -1 is the last token of the context.
  TreeCache(const Cache& cache, Index context, const Index* parents, const Index* depths) noexcept
      : cache_(&cache), context_(context), parents_(parents), depths_(depths) {}

  /// Blocks before this one hold context only and are the same for all rows.
  Index own_from() const noexcept { return context_ / block_keys; }
  /// Block b of the cache itself.
  CacheBlock<Storage> block(Index kv_head, Index b) const noexcept { return cache_->block(kv_head, b); }

  /// Bytes of a block of one row's own.
  static constexpr Index own_bytes(const CacheShape& shape) noexcept {
    return (Layout::key_block(shape.head_dim) + Layout::value_block(shape.v_head_dim)) *
               static_cast<Index>(sizeof(Storage)) +
           (is_quantised<Storage> ? 2 * block_keys * static_cast<Index>(sizeof(float)) : 0);
  }

  /// Block b as node sees it: the context's part of it, then the nodes of its path that stand there.
  CacheBlock<Storage> own_block(Index kv_head, Index b, Index node, std::byte* memory) const noexcept {
    const CacheShape shape = cache_->shape();
    detail::WritableBlock<Storage> own{};
    own.keys = reinterpret_cast<Storage*>(memory);
    own.values = own.keys + Layout::key_block(shape.head_dim);
    if constexpr (is_quantised<Storage>) {
      own.key_scales = reinterpret_cast<float*>(own.values + Layout::value_block(shape.v_head_dim));
      own.value_scales = own.key_scales + block_keys;
    }
    // The other keys of the row's own tile are computed along and used nowhere: zeros, since memory as it comes may be
    // denormals, which take a hundred times as long.
    const Index places = context_ - b * block_keys, tile = Layout::key_tile(shape.head_dim);
    if (const Index own_place = places + depths_[node]; own_place < block_keys)
      for (Index k = own_place / lanes * tile, end = k + tile; k < end; ++k) own.keys[k] = Storage(0);
    if (places > 0) {
      const CacheBlock<Storage> from = cache_->block(kv_head, b);
      copy(own.keys, from.keys, ceil_div(places, lanes) * tile);
      for (Index slab = 0; slab < Layout::value_block(shape.v_head_dim); slab += Layout::value_slab)
        copy(own.values + slab, from.values + slab, round_up(places, Layout::pair) * lanes);
      if constexpr (is_quantised<Storage>) {
        copy(own.key_scales, from.key_scales, places);
        copy(own.value_scales, from.value_scales, places);
      }
    }
    for (Index n = node; n >= 0; n = parents_[n]) {
      const Index place = places + depths_[n];
      if (place < 0) break;
      if (place >= block_keys) continue;
      const Index slot = context_ + n;
      detail::copy_token<Storage>(cache_->block(kv_head, slot / block_keys), slot % block_keys, own, place,
                                  shape.head_dim, shape.v_head_dim);
    }
    return own.read_only();
  }

 private:
  using Layout = BlockLayout<Storage>;
  template <class E>
  static void copy(E* to, const E* from, Index n) noexcept {
    std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(E));
  }

  const Cache* cache_;
  Index context_;
  const Index* parents_;
  const Index* depths_;
};

}  // namespace lockstep
