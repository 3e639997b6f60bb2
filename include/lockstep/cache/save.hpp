// Caches to a stream and back: what was computed once need not be computed again, with the same bits.
#pragma once

#include <array>
#include <cstring>
#include <istream>
#include <ostream>
#include <utility>
#include <vector>

#include "lockstep/cache/block_cache.hpp"

namespace lockstep {

/// The number of the stream format that save_cache() writes and restore_cache() reads.
inline constexpr std::uint32_t cache_format = 1;

namespace detail {

/// Fowler, Noll and Vo's hash FNV-1a with 64 bits (draft-eastlake-fnv), byte by byte. Each step is a bijection of the
/// state, so two streams that differ in one byte never have one hash.
class StreamHash {
 public:
  void add(const void* data, std::size_t bytes) noexcept {
    const auto* p = static_cast<const unsigned char*>(data);
    for (std::size_t i = 0; i < bytes; ++i) state_ = (state_ ^ p[i]) * 0x100000001b3u;
  }
  std::uint64_t value() const noexcept { return state_; }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325u;
};

/// What stands in front of the tokens. Little-endian, as everything is here; no padding.
struct SavedHeader {
  std::array<char, 8> magic{'l', 's', '-', 'c', 'a', 'c', 'h', 'e'};
  std::uint32_t format = cache_format;
  std::uint32_t numerics = static_cast<std::uint32_t>(numerics_version);
  std::uint64_t storage = 0;
  CacheShape shape;
  Index length = 0;
  KeyRange missing;
  std::uint64_t table = 0;
};
static_assert(sizeof(SavedHeader) == 80 && std::is_trivially_copyable_v<SavedHeader>);

template <class S>
constexpr std::uint64_t storage_code() noexcept {
  if constexpr (std::same_as<S, float>)
    return 1;
  else if constexpr (std::same_as<S, double>)
    return 2;
  else if constexpr (std::same_as<S, Eigen::half>)
    return 3;
  else if constexpr (std::same_as<S, Eigen::bfloat16>)
    return 4;
  else
    return 5;
}

/// The tokens of one kv head in one block, in and out of plain memory: keys [tokens, head_dim], values [tokens,
/// v_head_dim], for int8 scales of the keys [tokens] and of the values [tokens].
template <class S>
class PlainBlock {
 public:
  explicit PlainBlock(const CacheShape& shape)
      : shape_(shape),
        keys_(static_cast<std::size_t>(block_keys * shape.head_dim)),
        values_(static_cast<std::size_t>(block_keys * shape.v_head_dim)),
        scales_(is_quantised<S> ? 2 * block_keys : 0) {}

  void load(const CacheBlock<S>& block, Index at, Index tokens) noexcept {
    copy_keys_out(block.keys, at, View<S, 2>::contiguous(keys_.data(), {tokens, shape_.head_dim}));
    copy_values_out(block.values, at, View<S, 2>::contiguous(values_.data(), {tokens, shape_.v_head_dim}));
    if constexpr (is_quantised<S>) {
      std::memcpy(scales_.data(), block.key_scales + at, scale_bytes(tokens));
      std::memcpy(scales_.data() + tokens, block.value_scales + at, scale_bytes(tokens));
    }
  }
  void store(const WritableBlock<S>& block, Index at, Index tokens) const noexcept {
    copy_keys_in(View<const S, 2>::contiguous(keys_.data(), {tokens, shape_.head_dim}), block.keys, at);
    copy_values_in(View<const S, 2>::contiguous(values_.data(), {tokens, shape_.v_head_dim}), block.values, at);
    if constexpr (is_quantised<S>) {
      std::memcpy(block.key_scales + at, scales_.data(), scale_bytes(tokens));
      std::memcpy(block.value_scales + at, scales_.data() + tokens, scale_bytes(tokens));
    }
  }
  /// f(memory, bytes) for each array.
  template <class F>
  void for_each_array(Index tokens, F&& f) {
    f(keys_.data(), static_cast<std::size_t>(tokens * shape_.head_dim) * sizeof(S));
    f(values_.data(), static_cast<std::size_t>(tokens * shape_.v_head_dim) * sizeof(S));
    if constexpr (is_quantised<S>) f(scales_.data(), 2 * scale_bytes(tokens));
  }

 private:
  static std::size_t scale_bytes(Index tokens) noexcept { return static_cast<std::size_t>(tokens) * sizeof(float); }

  CacheShape shape_;
  std::vector<S> keys_, values_;
  std::vector<float> scales_;
};

/// f(kv head, block, first place in it, tokens) for the places below `length` that are held, in place order.
template <class F>
void for_each_held(const CacheShape& shape, Index length, KeyRange missing, F&& f) {
  const auto part = [&](Index first, Index last) {
    for_each_block(first, last, [&](Index b, Index at, Index tokens) {
      for (Index g = 0; g < shape.kv_heads; ++g) f(g, b, at, tokens);
    });
  };
  if (missing.empty()) return part(0, length);
  part(0, missing.first);
  part(missing.last, length);
}

/// What a stream brings to a cache: its check, and its way in, by a friend's right.
struct Restore {
  template <class Cache>
  static auto room_for(Cache& cache, Index kv_head, Index b) {
    return cache.room_for(kv_head, b);
  }
  template <class Cache>
  static void finish(Cache& cache, const SavedHeader& header) noexcept {
    cache.hold(header.length, header.missing, header.table);
  }
  template <class Cache>
  static Status check(const Cache& cache, const SavedHeader& header) noexcept {
    const SavedHeader ours{};
    if (header.magic != ours.magic) return Status::invalid("stream", "given other bytes, allowed a saved cache");
    if (header.format != ours.format || header.numerics != ours.numerics)
      return Status::invalid(
          "stream", "given format %" PRIu32 " of numerics version %" PRIu32 ", allowed %" PRIu32 " and %" PRIu32,
          header.format, header.numerics, ours.format, ours.numerics);
    if (header.storage != storage_code<typename Cache::Storage>())
      return Status::invalid("stream", "given storage type %" PRIu64 ", allowed the cache's %" PRIu64, header.storage,
                             storage_code<typename Cache::Storage>());
    if (!(header.shape == cache.shape()))
      return Status::invalid("stream",
                             "given %" PRId64 " kv heads of %" PRId64 " and %" PRId64 ", allowed the cache's %" PRId64
                             " of %" PRId64 " and %" PRId64,
                             header.shape.kv_heads, header.shape.head_dim, header.shape.v_head_dim,
                             cache.shape().kv_heads, cache.shape().head_dim, cache.shape().v_head_dim);
    const KeyRange gone = header.missing;
    const bool nothing_gone = gone == KeyRange{};
    if (header.length < 0 || (!nothing_gone && (gone.first < 0 || gone.empty() || gone.last > header.length)))
      return Status::invalid("stream", "given lengths that contradict each other, allowed what save_cache() wrote");
    if (header.length > cache.capacity())
      return Status::length("stream", "given %" PRId64 " tokens, allowed %" PRId64, header.length, cache.capacity());
    return {};
  }
};

}  // namespace detail

/// Writes the tokens that a cache holds, its length, what it no longer holds and its table's number; everything under a
/// checksum. Equal contents give equal bytes, whatever cache they lie in. Errors: a stream that fails.
template <class Cache>
  requires std::derived_from<Cache, detail::BlockCache<Cache, typename Cache::Storage>>
void save_cache(const Cache& cache, std::ostream& out) {
  using S = typename Cache::Storage;
  detail::StreamHash hash;
  const auto put = [&](const void* data, std::size_t bytes) {
    hash.add(data, bytes);
    out.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
  };
  detail::SavedHeader header;
  header.storage = detail::storage_code<S>();
  header.shape = cache.shape();
  header.length = cache.length();
  header.missing = cache.missing_after(0);
  header.table = cache.table();
  put(&header, sizeof header);
  detail::PlainBlock<S> plain(cache.shape());
  detail::for_each_held(header.shape, header.length, header.missing, [&](Index g, Index b, Index at, Index tokens) {
    plain.load(cache.block(g, b), at, tokens);
    plain.for_each_array(tokens, put);
  });
  const std::uint64_t sum = hash.value();
  out.write(reinterpret_cast<const char*>(&sum), sizeof sum);
  if (!out) raise(Status::invalid("stream", "given one that fails, allowed one that takes the cache"));
}

/// Replaces what a cache holds by a saved one's content, bit for bit; what kind of cache was saved does not matter. A
/// ring keeps what it has room for. Memory: a second cache like this one while the stream is read. Errors, each of
/// which changes nothing: a stream that ends early or has a byte changed; another format, numerics version, storage or
/// shape; more tokens than fit; for a ring, a stream that lacks a key that its next row may see.
template <class Cache>
  requires std::derived_from<Cache, detail::BlockCache<Cache, typename Cache::Storage>>
void restore_cache(Cache& cache, std::istream& in) {
  using S = typename Cache::Storage;
  detail::StreamHash hash;
  const auto read = [&](void* data, std::size_t bytes) {
    in.read(static_cast<char*>(data), static_cast<std::streamsize>(bytes));
    if (static_cast<std::size_t>(in.gcount()) != bytes)
      raise(Status::invalid("stream", "given one that ends early, allowed a whole saved cache"));
  };
  const auto get = [&](void* data, std::size_t bytes) {
    read(data, bytes);
    hash.add(data, bytes);
  };
  detail::SavedHeader header;
  get(&header, sizeof header);
  raise_unless_ok(detail::Restore::check(cache, header));
  Cache restored = cache.empty_like();
  detail::PlainBlock<S> plain(cache.shape());
  detail::for_each_held(header.shape, header.length, header.missing, [&](Index g, Index b, Index at, Index tokens) {
    plain.for_each_array(tokens, get);
    plain.store(detail::Restore::room_for(restored, g, b), at, tokens);
  });
  std::uint64_t sum = 0;
  read(&sum, sizeof sum);
  if (sum != hash.value()) raise(Status::invalid("stream", "given another checksum, allowed that of what was saved"));
  detail::Restore::finish(restored, header);
  raise_unless_ok(restored.check_truncate(header.length));  // for a ring: the window is there
  cache = std::move(restored);
}

}  // namespace lockstep
