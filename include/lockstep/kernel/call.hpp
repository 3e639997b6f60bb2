// What a kernel is given: the rows of one sequence, and the rules that all sequences of a call share; and a draft tree
// as a cache whose rows have blocks of their own.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "lockstep/cache/layout.hpp"
#include "lockstep/concepts.hpp"
#include "lockstep/softmax_state.hpp"
#include "lockstep/tasks.hpp"
#include "lockstep/workspace.hpp"

namespace lockstep {

/// How far logits have come where they are asked for: scale (q . k); after the transform (soft-cap); after bias and
/// mask, -inf where hidden, as the softmax takes them. Before the mask a hidden key has its logit too.
enum class LogitStage { scaled, transformed, masked };

/// Consecutive query rows of one sequence, already projected and rotated, and where their results go.
template <class C, class Cache>
struct AttentionCall {
  const Cache* cache = nullptr;
  View<const C, 3> query;    ///< [rows, heads, head_dim]
  View<C, 3> context;        ///< [rows, heads, v_head_dim]
  View<C, 2> lse{};          ///< [heads, rows], or absent
  View<C, 3> weights{};      ///< [heads, rows, at least kv_len], or absent
  View<C, 3> raw_logits{};   ///< [heads, rows, at least kv_len], or absent; -inf beyond kv_len
  Index sequence = 0;        ///< index in the batch
  Index first_row = 0;       ///< index of the first of these rows among the sequence's queries
  Index first_place = 0;     ///< place of the first of these rows
  Index kv_len = 0;          ///< keys present
  std::uint32_t stream = 0;  ///< dropout stream of the sequence
  /// [rows] place of each row, where they do not follow one another: nodes of a draft tree. No row has keys after its
  /// own then.
  const Index* places = nullptr;

  /// Row i of these under a query head.
  QueryRow row(Index i, Index head) const noexcept {
    return {sequence, head, first_row + i, places != nullptr ? places[i] : first_place + i};
  }
  /// Keys present for a row.
  Index keys_of(QueryRow q) const noexcept { return places != nullptr ? q.place + 1 : kv_len; }
};

/// A cache whose rows have blocks of their own from block own_from() on: `own_block(kv_head, b, row, memory)` puts
/// together row's block b in `memory` of own_bytes(shape).
template <class K>
concept HasOwnBlocks = requires(const K& k, Index n, std::byte* memory) {
  { k.own_from() } noexcept -> std::same_as<Index>;
  { K::own_bytes(CacheShape{}) } noexcept -> std::same_as<Index>;
  { k.own_block(n, n, n, memory) } noexcept -> std::same_as<CacheBlock<typename K::Storage>>;
};

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

/// Block b of a kv head, as row i of the call sees it.
template <class C, class Cache>
CacheBlock<typename Cache::Storage> block_of(const AttentionCall<C, Cache>& call, Index kv_head, Index b, Index i,
                                             [[maybe_unused]] std::byte* own) noexcept {
  if constexpr (HasOwnBlocks<Cache>)
    if (b >= call.cache->own_from()) return call.cache->own_block(kv_head, b, call.first_row + i, own);
  return call.cache->block(kv_head, b);
}

/// Memory for a block of one row's own, of caches of a shape.
template <class Cache>
constexpr Index own_bytes([[maybe_unused]] const CacheShape& shape) noexcept {
  if constexpr (HasOwnBlocks<Cache>)
    return Cache::own_bytes(shape);
  else
    return 0;
}

/// The policies that decide a row's result, and the numbers they need.
template <class MaskPolicy, class LogitPolicy, class SharingPolicy, class DropoutPolicy, class BiasPolicy,
          class SinkPolicy>
struct AttentionRules {
  const MaskPolicy& mask;
  const LogitPolicy& logits;
  const SharingPolicy& sharing;
  const DropoutPolicy& dropout;
  const BiasPolicy& bias;
  const SinkPolicy& sinks;
  Index heads = 0;
  Index kv_heads = 0;
  Index head_dim = 0;
  Index v_head_dim = 0;
  bool training = false;                        ///< dropout takes part
  LogitStage logit_stage = LogitStage::masked;  ///< of the calls' raw_logits

  using Sharing = SharingPolicy;
  using Sinks = SinkPolicy;
  using Pattern =
      decltype(std::declval<const DropoutPolicy&>().bind(std::uint32_t{}));  ///< which keys of a sequence are kept
  /// The shape of the caches.
  CacheShape cache_shape() const noexcept { return {kv_heads, head_dim, v_head_dim}; }
  /// The keys that a row may see, clamped to those that are present.
  KeyRange range(QueryRow q, Index kv_len) const noexcept { return intersection(mask.range(q, kv_len), {0, kv_len}); }

  /// The part of some keys of that range of which the mask has to be asked.
  KeyRange narrowed(QueryRow q, KeyRange keys) const noexcept {
    return keys.empty() ? keys : detail::narrowed(mask, q, keys);
  }

  /// A scaled logit on its way to the softmax: transform, bias, what the mask adds.
  template <class C>
  [[gnu::always_inline]] C transform(C s, QueryRow q, Index key) const noexcept {
    s = bias.apply(logits.apply(s, q, key), q, key);
    if constexpr (AddingMask<MaskPolicy, C>) s = mask.add(s, q, key);
    return s;
  }
  /// The same, in place, for a range of keys.
  template <class C>
  [[gnu::always_inline]] void transform(C* s, QueryRow q, KeyRange keys) const noexcept {
    logits.apply(s, q, keys);
    bias.apply(s, q, keys);
    if constexpr (AddingMask<MaskPolicy, C>) mask.add(s, q, keys);
  }
  /// Scaled logits of a range of keys, in place, as they stand at the stage that is asked for.
  template <class C>
  void bring_to_stage(C* s, QueryRow q, KeyRange keys, Index kv_len) const noexcept {
    if (logit_stage == LogitStage::scaled) return;
    if (logit_stage == LogitStage::transformed) return logits.apply(s, q, keys);
    const KeyRange seen = intersection(range(q, kv_len), keys);
    if (!seen.empty()) transform(s + (seen.first - keys.first), q, seen);
    for (Index key = keys.first; key < keys.last; ++key)
      if (key < seen.first || key >= seen.last || !mask.visible(q, key))
        s[key - keys.first] = -std::numeric_limits<C>::infinity();
  }
};

/// The states of splits that are kept, in memory of the caller. C may be const.
template <class C>
struct KeptSplits {
  /// const where C is.
  using State = std::conditional_t<std::is_const_v<C>, const SplitState<std::remove_const_t<C>>, SplitState<C>>;
  State* state = nullptr;  ///< [splits, rows, heads]
  C* sum = nullptr;        ///< [splits, rows, heads, v_head_dim], unnormalised
  Index rows = 0;          ///< query rows of a split
  Index heads = 0;
  Index v_head_dim = 0;

  /// The state of a row in a split.
  State& state_of(Index split, Index row, Index head) const noexcept {
    return state[(split * rows + row) * heads + head];
  }
  /// Its weighted sum, [v_head_dim].
  C* sum_of(Index split, Index row, Index head) const noexcept {
    return sum + ((split * rows + row) * heads + head) * v_head_dim;
  }
};

/// What the rows of a call cost: as many keys each as the first and the last row may see on average, which is right for
/// causal masks and windows.
template <class C, class Cache, class Rules>
constexpr detail::Effort effort_of(const AttentionCall<C, Cache>& call, const Rules& rules) noexcept {
  const Index rows = call.query.extent[0], dims = rules.head_dim + rules.v_head_dim;
  if (rows == 0) return {};
  const KeyRange first = rules.range(call.row(0, 0), call.kv_len),
                 last = rules.range(call.row(rows - 1, 0), call.kv_len);
  const Index seen = ((first.empty() ? 0 : first.size()) + (last.empty() ? 0 : last.size()) + 1) / 2;
  const Index read = last.empty() || first.empty() ? seen : last.last - first.first;
  return {rows * rules.heads * seen * dims,
          read * rules.kv_heads * dims * static_cast<Index>(sizeof(typename Cache::Storage))};
}

/// The extremes of a call, from which a kernel tells the workspace it wants.
struct KernelShape {
  Index sequences = 0;  ///< of a call
  Index rows = 0;       ///< the most rows of one sequence
  Index kv_len = 0;     ///< the most keys of one sequence
  Index heads = 0;
  Index kv_heads = 0;
  Index head_dim = 0;
  Index v_head_dim = 0;
  Index concurrency = 1;  ///< tasks at once
  Index own_bytes = 0;    ///< for a block of one kv head that belongs to one row, where the cache has such
};

}  // namespace lockstep
