// The plain cache: all places of one sequence in one piece of memory, per kv head, up to a limit.
#pragma once

#include <utility>

#include "lockstep/cache/block_cache.hpp"

namespace lockstep {

/// How a cache takes its memory.
struct CacheMemory {
  Index initial = -1;  ///< tokens to take memory for at once, growing from there by doubling; -1: all of the capacity
  MemorySource source{};  ///< where from: the heap, `huge_pages`, or the caller's
};

/// Keys (rotated) and values of one sequence, stored as S: float, double, Eigen::half, Eigen::bfloat16, or std::int8_t
/// for codes with a scale. `ContiguousCache<>` names the same policy with the layer's own element type as storage.
///
/// Memory is taken, and touched, at construction: capacity rounded up to 256 places, for each kv head [blocks][key
/// block] then [blocks][value block] (cache/layout.hpp). What is stored is rounded once, to nearest even. With a
/// smaller initial size the memory grows when an append needs more: twice as much as before at least, whole blocks, at
/// most the capacity; what is stored is copied once each time, and an append whose memory cannot be had changes
/// nothing.
///
/// Codes (std::int8_t, computed in float) take about a quarter of float's memory, and 8 bytes a token and kv head for
/// scales. Against attention over float, up to rounding, a logit errs by e = |q'|_1 k_scale / 2 at most, where k_scale
/// = max|k| / 127 is the largest scale of a key, and |context error| <= (exp(2 e) - 1) max|v| + v_scale / 2.
template <class S = void>
class ContiguousCache : public detail::BlockCache<ContiguousCache<S>, S> {
  using Base = detail::BlockCache<ContiguousCache<S>, S>;
  friend Base;

 public:
  static constexpr const char* name = "contiguous";

  ContiguousCache() = default;

  /// Room for `capacity` tokens. Errors: kv_heads or a head size below 1, a capacity below 0, an initial size beyond
  /// it, or sizes beyond 63 bits.
  ContiguousCache(CacheShape shape, Index capacity, CacheMemory memory = {}) : Base(shape, capacity) {
    raise_unless_ok(detail::check_cache_sizes<S>(shape, "capacity", capacity));
    if (memory.initial < -1 || memory.initial > capacity)
      raise(Status::length("initial", "given {} tokens, allowed 0 to {}, or -1 for these", memory.initial, capacity));
    blocks_ = detail::BlockArray<S>(shape, ceil_div(memory.initial == -1 ? capacity : memory.initial, block_keys),
                                    memory.source);
  }

  ContiguousCache(const ContiguousCache&) = default;
  /// Moving leaves an empty cache without capacity.
  ContiguousCache(ContiguousCache&&) noexcept = default;
  ContiguousCache& operator=(const ContiguousCache& other) {
    *this = ContiguousCache(other);
    return *this;
  }
  ContiguousCache& operator=(ContiguousCache&&) noexcept = default;

  /// Memory held for keys, values and scales, in bytes.
  Index bytes() const noexcept { return blocks_.bytes(); }
  /// Where that lies.
  detail::ByteRange memory() const noexcept { return blocks_.memory(); }

  /// An empty cache of the same shape, capacity and source of memory.
  ContiguousCache empty_like() const {
    return ContiguousCache(this->shape_, this->capacity_,
                           {blocks_.blocks() < most_blocks() ? 0 : -1, blocks_.source()});
  }

 private:
  Index most_blocks() const noexcept { return ceil_div(this->capacity_, block_keys); }

  void make_room(Index, Index last) {
    const Index held = blocks_.blocks(), needed = ceil_div(last, block_keys);
    if (needed <= held) return;
    const Index doubled = 2 * held < most_blocks() ? 2 * held : most_blocks();
    detail::BlockArray<S> grown(this->shape_, needed > doubled ? needed : doubled, blocks_.source());
    for (Index b = 0; b < held; ++b) grown.copy_block(b, blocks_, b);
    blocks_ = std::move(grown);
  }
  detail::WritableBlock<S> writable(Index kv_head, Index b) const noexcept { return blocks_.block(kv_head, b); }
  void settle() noexcept {}
  void release() noexcept {}

  detail::BlockArray<S> blocks_;
};

/// The contiguous cache with the layer's own element type as storage; a name only, until a layer rebinds it.
template <>
class ContiguousCache<void> : public detail::Unbound<PolicyKind::cache, ContiguousCache> {};

static_assert(KeyValueCache<ContiguousCache<float>> && KeyValueCache<ContiguousCache<Eigen::bfloat16>>);
static_assert(KeyValueCache<ContiguousCache<std::int8_t>>);

}  // namespace lockstep
