// Caches to a stream and back: what was computed once need not be computed again, with the same bits.
#pragma once

#include <algorithm>
#include <array>
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
struct StreamHash {
  std::uint64_t value = 0xcbf29ce484222325u;
  void add(const void* data, std::size_t bytes) noexcept {
    const auto* p = static_cast<const unsigned char*>(data);
    for (std::size_t i = 0; i < bytes; ++i) value = (value ^ p[i]) * 0x100000001b3u;
  }
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
  return std::same_as<S, float>             ? 1
         : std::same_as<S, double>          ? 2
         : std::same_as<S, Eigen::half>     ? 3
         : std::same_as<S, Eigen::bfloat16> ? 4
                                            : 5;
}

/// f(kv head, block, first place in it, tokens) for the places below `length` that are held, in place order.
template <class F>
void for_each_held(const CacheShape& shape, Index length, KeyRange missing, F&& f) {
  const auto part = [&](Index first, Index last) {
    for_each_block(first, last, [&](Index b, Index at, Index tokens) {
      for (Index g = 0; g < shape.kv_heads; ++g) f(g, b, at, tokens);
    });
  };
  part(0, missing.first);
  part(missing.last, length);
}

/// The tokens of one kv head in one block, as they lie in a stream: keys [tokens, head_dim], values [tokens,
/// v_head_dim], for int8 scales of the keys [tokens] and of the values [tokens].
template <class S>
class StreamedBlock {
 public:
  explicit StreamedBlock(const CacheShape& shape)
      : shape_(shape), rows_(static_cast<std::size_t>(block_keys * std::max(shape.head_dim, shape.v_head_dim))) {}

  /// transfer(memory, bytes) of each array: out of a CacheBlock, or into a WritableBlock.
  template <class Block, class F>
  void pass(const Block& block, Index at, Index tokens, F&& transfer) {
    pass_rows<Part::keys>(block, at, tokens, shape_.head_dim, transfer);
    pass_rows<Part::values>(block, at, tokens, shape_.v_head_dim, transfer);
    if constexpr (is_quantised<S>)
      for (auto* scales : {block.key_scales, block.value_scales})
        transfer(scales + at, static_cast<std::size_t>(tokens) * sizeof(float));
  }

 private:
  template <Part part, class Block, class F>
  void pass_rows(const Block& block, Index at, Index tokens, Index dim, F&& transfer) {
    constexpr bool out = std::same_as<Block, CacheBlock<S>>;
    const auto rows = View<S, 2>::contiguous(rows_.data(), {tokens, dim});
    if constexpr (out) load_rows<part>(block, at, rows);
    transfer(rows_.data(), static_cast<std::size_t>(tokens * dim) * sizeof(S));
    if constexpr (!out) store_rows<part>(block, at, View<const S, 2>(rows));
  }

  CacheShape shape_;
  std::vector<S> rows_;
};

/// What a stream brings to a cache, by a friend's right.
struct Restore {
  template <class Cache>
  static Status check(const Cache& cache, const SavedHeader& header) noexcept {
    const SavedHeader ours{};
    if (header.magic != ours.magic) return Status::invalid("stream", "given other bytes, allowed a saved cache");
    if (header.format != ours.format || header.numerics != ours.numerics)
      return Status::invalid("stream", "given format {} of numerics version {}, allowed {} and {}", header.format,
                             header.numerics, ours.format, ours.numerics);
    if (header.storage != storage_code<typename Cache::Storage>())
      return Status::invalid("stream", "given storage type {}, allowed the cache's {}", header.storage,
                             storage_code<typename Cache::Storage>());
    if (Status s = check_cache_shape("stream", header.shape, cache.shape()); !s.ok()) return s;
    const KeyRange gone = header.missing;
    if (header.length < 0 || (gone != KeyRange{} && (gone.first < 0 || gone.empty() || gone.last > header.length)))
      return Status::invalid("stream", "given lengths that contradict each other, allowed what save_cache() wrote");
    if (header.length > cache.capacity())
      return Status::length("stream", "given {} tokens, allowed {}", header.length, cache.capacity());
    return {};
  }
  template <class Cache>
  static void run(Cache& cache, std::istream& in) {
    using S = typename Cache::Storage;
    StreamHash hash;
    const auto read = [&](void* data, std::size_t bytes) {
      in.read(static_cast<char*>(data), static_cast<std::streamsize>(bytes));
      if (static_cast<std::size_t>(in.gcount()) != bytes)
        raise(Status::invalid("stream", "given one that ends early, allowed a whole saved cache"));
    };
    const auto get = [&](void* data, std::size_t bytes) {
      read(data, bytes);
      hash.add(data, bytes);
    };
    SavedHeader header;
    get(&header, sizeof header);
    raise_unless_ok(check(cache, header));
    Cache restored = cache.empty_like();
    StreamedBlock<S> streamed(cache.shape());
    for_each_held(header.shape, header.length, header.missing, [&](Index g, Index b, Index at, Index tokens) {
      streamed.pass(restored.room_for(g, b), at, tokens, get);
    });
    std::uint64_t sum = 0;
    read(&sum, sizeof sum);
    if (sum != hash.value) raise(Status::invalid("stream", "given another checksum, allowed that of what was saved"));
    restored.hold(header.length, header.missing, header.table);
    raise_unless_ok(restored.check_truncate(header.length));  // for a ring: the window is there
    cache = std::move(restored);
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
  detail::StreamedBlock<S> streamed(cache.shape());
  detail::for_each_held(header.shape, header.length, header.missing, [&](Index g, Index b, Index at, Index tokens) {
    streamed.pass(cache.block(g, b), at, tokens, put);
  });
  out.write(reinterpret_cast<const char*>(&hash.value), sizeof hash.value);
  if (!out) raise(Status::invalid("stream", "given one that fails, allowed one that takes the cache"));
}

/// Replaces what a cache holds by a saved one's content, bit for bit; what kind of cache was saved does not matter. A
/// ring keeps what it has room for. Memory: a second cache like this one while the stream is read. Errors, each of
/// which changes nothing: a stream that ends early or has a byte changed; another format, numerics version, storage or
/// shape; more tokens than fit; for a ring, a stream that lacks a key that its next row may see.
template <class Cache>
  requires std::derived_from<Cache, detail::BlockCache<Cache, typename Cache::Storage>>
void restore_cache(Cache& cache, std::istream& in) {
  detail::Restore::run(cache, in);
}

}  // namespace lockstep
