// The cache for windows: constant memory, old blocks make room for new ones.
#pragma once

#include <algorithm>

#include "lockstep/cache/block_cache.hpp"
#include "lockstep/cache/contiguous.hpp"

namespace lockstep {

/// How much a ring keeps.
struct RingSize {
  Index window = 0;       ///< keys that a row sees, its own included
  Index slack = 256;      ///< tokens beyond: what one append may bring, less one, and what can be taken back
  Index sink_tokens = 0;  ///< first places that are kept for good (Xiao et al. 2023, arXiv 2309.17453: attention sinks)
};

/// Keys (rotated) and values of one sequence for masks that look back by a window. Places never change and length()
/// counts all tokens; what is too old is overwritten.
///
/// Memory, taken at construction, is whole blocks of 256 places: ceil(sink_tokens / 256) that are pinned, and a ring of
/// ceil((window + slack - 1) / 256) + 1, in which the block of place p follows that of p - 256. The last held() tokens,
/// window + slack or some more, are held, and the pinned ones. One append brings at most slack + 1 tokens: then the
/// first of them still finds its window. A layer splits longer forwards itself.
///
/// truncate(n) is allowed as long as every key that a row at n may see, places n - window + 1 to n - 1, is held: by up
/// to slack tokens back always. What has been given up does not come back by it: first() does not go down.
///
/// The other places of the ring, slack + 1 or, where slack is above 254, 255 at least, are there for what may have to
/// be taken back: an append of so many overwrites none that is held. rollback() then restores everything, first() too.
/// So a forward that fails half-way, as by an executor that throws, leaves a ring as it was, and one that would
/// overwrite more works on a copy.
template <class S = void>
class RingCache : public detail::BlockCache<RingCache<S>, S> {
  using Base = detail::BlockCache<RingCache<S>, S>;
  friend Base;

 public:
  static constexpr const char* name = "ring";

  RingCache() = default;

  /// Errors: kv_heads or a head size below 1, a window below 1, slack or sinks below 0, sizes beyond 63 bits.
  RingCache(CacheShape shape, RingSize size, MemorySource source = {}) : Base(shape, Index{1} << 62), size_(size) {
    constexpr Index limit = Index{1} << 46;
    if (size.window < 1 || size.slack < 0 || size.sink_tokens < 0 || size.window > limit || size.slack > limit ||
        size.sink_tokens > limit)
      raise(Status::length("size", "given window {}, slack {}, sink_tokens {}, allowed from 1, 0 and 0 to 2^46",
                           size.window, size.slack, size.sink_tokens));
    pinned_ = ceil_div(size.sink_tokens, block_keys);
    ring_ = ceil_div(size.window + size.slack - 1, block_keys) + 1;
    raise_unless_ok(detail::check_cache_sizes<S>(shape, "size", (pinned_ + ring_) * block_keys));
    blocks_ = detail::BlockArray<S>(shape, pinned_ + ring_, source);
  }
  /// The same with the sizes one by one.
  RingCache(CacheShape shape, Index window, Index slack = 256, Index sink_tokens = 0)
      : RingCache(shape, RingSize{window, slack, sink_tokens}) {}

  RingCache(const RingCache&) = default;
  /// Moving leaves a cache without blocks, which takes no tokens.
  RingCache(RingCache&&) noexcept = default;
  RingCache& operator=(const RingCache& other) {
    *this = RingCache(other);
    return *this;
  }
  RingCache& operator=(RingCache&&) noexcept = default;

  const RingSize& size() const noexcept { return size_; }  ///< as constructed
  /// Memory held for keys, values and scales, in bytes.
  Index bytes() const noexcept { return blocks_.bytes(); }
  /// Where that lies.
  detail::ByteRange memory() const noexcept { return blocks_.memory(); }
  /// slack + 1.
  Index append_limit() const noexcept { return size_.slack + 1; }
  /// How many of the last tokens are held, once there are so many.
  Index held() const noexcept { return std::max(size_.window + size_.slack, places() - append_limit()); }

  Status check_append(Index tokens) const noexcept {
    const Index limit = this->capacity_ == 0 ? 0 : append_limit();
    if (tokens < 0 || tokens > limit)
      return Status::length("cache", "given {} tokens to append at once, allowed {}", tokens, limit);
    if (tokens > this->capacity_ - this->length_)
      return Status::length("cache", "given {} tokens to append to {}, allowed 2^62 in all", tokens, this->length_);
    return {};
  }
  KeyRange missing_after(Index tokens) const noexcept { return without(held(), this->length_ + tokens); }

  Status check_truncate(Index length) const noexcept {
    if (Status s = Base::check_truncate(length); !s.ok()) return s;
    if (const KeyRange gone = intersection({length - size_.window + 1, length}, missing_after(0)); !gone.empty())
      return Status::length("length",
                            "given {}, where a row may see places {} to {}, allowed lengths whose window is still held",
                            length, gone.first, gone.last - 1);
    return {};
  }

  /// Whether rollback() restores everything after an append of so many tokens, also in pieces.
  bool takes_back(Index tokens) const noexcept {
    return tokens <= append_limit() && without(places(), this->length_ + tokens).last <= missing_after(0).last;
  }
  /// Forgets tokens that were appended since the cache had this length, which takes_back() had allowed: also what they
  /// have pushed out is held again. Errors: those of truncate().
  void rollback(Index length) {
    raise_unless_ok(check_truncate(length));
    this->set_length(length);
  }

  /// An empty cache of the same shape, size and source of memory.
  RingCache empty_like() const { return RingCache(this->shape_, size_, blocks_.source()); }

 private:
  Index places() const noexcept { return ring_ * block_keys; }
  /// The places that are lost, and those that are not among the last `tokens` of `length`.
  KeyRange without(Index tokens, Index length) const noexcept {
    return hull(this->missing_, {pinned_ * block_keys, length - tokens});
  }

  void make_room(Index, Index) const noexcept {}
  // Lost is what was overwritten.
  void settle() noexcept { this->missing_ = without(places(), this->length_); }
  void release() noexcept {}
  detail::WritableBlock<S> writable(Index kv_head, Index b) const noexcept {
    return blocks_.block(kv_head, b < pinned_ ? b : pinned_ + (b - pinned_) % ring_);
  }

  RingSize size_;
  Index pinned_ = 0;  // blocks
  Index ring_ = 0;    // blocks
  detail::BlockArray<S> blocks_;
};

/// The ring with the layer's own element type as storage; a name only, until a layer rebinds it.
template <>
class RingCache<void> : public detail::Unbound<PolicyKind::cache, RingCache> {};

static_assert(KeyValueCache<RingCache<float>> && KeyValueCache<RingCache<std::int8_t>>);
static_assert(detail::LimitsAppends<RingCache<float>> && detail::MissesPlaces<RingCache<float>> &&
              detail::RollsBack<RingCache<float>>);

}  // namespace lockstep
