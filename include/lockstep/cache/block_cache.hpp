// What all caches of blocks do alike: append, write at places, import and export.
#pragma once

#include <array>
#include <span>
#include <utility>

#include "lockstep/cache/block.hpp"
#include "lockstep/concepts.hpp"
#include "lockstep/views.hpp"

namespace lockstep::detail {

struct Restore;  // cache/save.hpp

/// The base of every cache of this library: keys (rotated) and values of one sequence in blocks of storage S. `Cache`,
/// the class that derives from it, says where blocks lie and offers, to this class as a friend,
/// - `make_room(first, last)`: makes places [first, last) writable, or raises and changes nothing;
/// - `writable(kv_head, b)`: block b, where the places of interest are held or have been made room for;
/// - `memory()`: the bytes in which blocks lie;
/// - `settle()`: called after each change of the length; noexcept;
/// - `release()`: gives back what holds no place below length(), called after it went down; noexcept;
/// - of check_append(), check_truncate() and missing_after() its own, where those here do not say all.
template <class Cache, CacheElement S>
class BlockCache {
 public:
  static constexpr PolicyKind policy_kind = PolicyKind::cache;
  using Storage = S;
  using Compute = compute_t<S>;
  /// What import and export speak: Storage, or float where codes are stored.
  using Value = cache_value_t<S>;

  CacheShape shape() const noexcept { return shape_; }
  /// Tokens appended, whether all are still held or not.
  Index length() const noexcept { return length_; }
  /// Tokens that fit, as far as there is memory; of a ring 2^62, which is without end.
  Index capacity() const noexcept { return capacity_; }
  /// The places that are not held: none but in rings, unless the cache was restored from one that held fewer.
  KeyRange missing_after(Index) const noexcept { return missing_; }
  /// The lowest place from which on all are held.
  Index first() const noexcept { return self().missing_after(0).last; }

  /// Which rotary table the keys were rotated by: a number that its maker gives it, 0 where unknown. Copied with the
  /// cache; an empty cache knows none.
  std::uint64_t table() const noexcept { return table_; }
  /// Sets table(), as a layer does after a forward.
  void set_table(std::uint64_t table) noexcept { table_ = table; }

  /// Places [256 b, 256 b + 256) of one kv head; what lies at or beyond length(), or is missing, is unspecified.
  CacheBlock<S> block(Index kv_head, Index b) const noexcept { return self().writable(kv_head, b).read_only(); }

  /// ok, or why so many more tokens cannot be appended.
  Status check_append(Index tokens) const noexcept {
    if (tokens < 0 || tokens > capacity_ - length_)
      return Status::length("cache", "given {} tokens to append to {}, allowed {} in all", tokens, length_, capacity_);
    return {};
  }

  /// Stores the next tokens: keys [tokens, kv_heads, head_dim], values [tokens, kv_heads, v_head_dim]. All or nothing.
  /// Errors: those of check_append(); other shapes; the cache's own memory; for int8, numbers that are not finite.
  void append(View<const Compute, 3> keys, View<const Compute, 3> values) {
    const Index tokens = keys.extent[0];
    raise_unless_ok(self().check_append(tokens));
    raise_unless_ok(check_rows(keys, values, tokens));
    put(length_, keys, values);
  }

  /// Takes the memory that the next `tokens` need, so that appending them cannot fail for want of it; what is not used
  /// goes back with the next truncate(). Errors: those of check_append(); nothing is changed then.
  void reserve(Index tokens) {
    raise_unless_ok(self().check_append(tokens));
    self().make_room(length_, length_ + tokens);
  }

  /// Stores tokens at places [first, first + tokens): over what is there, and beyond length() as append() does. All or
  /// nothing. Errors: a first place beyond length(), places that are missing; those of append().
  void write(Index first, View<const Compute, 3> keys, View<const Compute, 3> values) {
    const Index tokens = keys.extent[0];
    if (first < 0 || first > length_) raise(Status::length("first", "given {}, allowed 0 to {}", first, length_));
    raise_unless_ok(check_rows(keys, values, tokens));
    if (tokens > length_ - first) raise_unless_ok(self().check_append(tokens - (length_ - first)));
    raise_unless_ok(check_places("first", {first, first + tokens}));
    put(first, keys, values);
  }

  /// Stores token i at place (first + i) mod length(): a ring over what is there. The length stays. All or nothing.
  /// Errors: a first place that is not there, more tokens than places, places that are missing; other shapes; for int8,
  /// numbers that are not finite.
  void write_circular(Index first, View<const Compute, 3> keys, View<const Compute, 3> values) {
    const Index tokens = keys.extent[0];
    if (first < 0 || first >= length_ || tokens > length_)
      raise(Status::length("first", "given {} and {} tokens, allowed places 0 to {} and no more tokens than these",
                           first, tokens, length_ - 1));
    raise_unless_ok(check_rows(keys, values, tokens));
    const Index straight = tokens < length_ - first ? tokens : length_ - first;
    raise_unless_ok(check_places("first", {first, first + straight}));
    raise_unless_ok(check_places("first", {0, tokens - straight}));
    self().make_room(first, first + straight);
    self().make_room(0, tokens - straight);
    store(keys.part(0, 0, straight), values.part(0, 0, straight), first);
    store(keys.part(0, straight, tokens - straight), values.part(0, straight, tokens - straight), 0);
  }

  /// Keeps the first `context` tokens and after them those at places context + path[0], context + path[1], ..., in that
  /// order, and drops the rest: the accepted path of a draft tree, path rising. All or nothing. Errors: a context or
  /// path beyond length(), a path that does not rise, places that are missing; what truncate() refuses.
  void keep(Index context, std::span<const Index> path) {
    if (context < 0 || context > length_)
      raise(Status::length("context", "given {}, allowed 0 to {}", context, length_));
    Index least = 0;
    for (const Index node : path) {
      if (node < least || node >= length_ - context)
        raise(Status::invalid("path", "given {}, allowed rising numbers from 0 to {}", node, length_ - context - 1));
      least = node + 1;
    }
    const Index kept = context + static_cast<Index>(path.size());
    raise_unless_ok(check_places("context", {context, length_}));
    raise_unless_ok(self().check_truncate(kept));
    self().make_room(context, kept);
    for (Index i = context; i < kept; ++i)
      if (const Index from = context + path[static_cast<std::size_t>(i - context)]; from != i)
        for (Index g = 0; g < shape_.kv_heads; ++g)
          copy_token<S>(block(g, from / block_keys), from % block_keys, self().writable(g, i / block_keys),
                        i % block_keys, shape_.head_dim, shape_.v_head_dim);
    shorten(kept);
  }

  /// Drops `tokens` places from place `keep` on, the oldest but for the first `keep`, and moves the rest down to follow
  /// them: their keys are rotated on by -tokens positions, by the policy that rotated them, and rounded to storage once
  /// more; values stay as they are. Not the bits of a run that never had the dropped tokens: keys are off by the
  /// policy's shift error and one rounding to S, and hidden states that the dropped tokens had a part in remain. All or
  /// nothing. Errors: places beyond length() or missing; a policy of another table() or of wider rows; a shift that the
  /// policy refuses.
  template <class P>
    requires requires(const P& position, Compute* row) {
      { position.shift(row, Index{}) } noexcept;
    }
  void drop_oldest(Index tokens, const P& position, Index keep = 0) {
    if (keep < 0 || keep > length_) raise(Status::length("keep", "given {}, allowed 0 to {}", keep, length_));
    if (tokens < 0 || tokens > length_ - keep)
      raise(Status::length("tokens", "given {}, allowed 0 to {}", tokens, length_ - keep));
    raise_unless_ok(check_places("tokens", {0, length_}));
    raise_unless_ok(check_rotation(position));
    raise_unless_ok(position.check_shift(-tokens));
    const Index kept = length_ - tokens;
    raise_unless_ok(self().check_truncate(kept));
    if (tokens == 0) return;
    AlignedVector<Compute> row(static_cast<std::size_t>(shape_.head_dim));
    self().make_room(keep, kept);
    const FloatEnvironment environment;
    for (Index place = keep; place < kept; ++place)
      for (Index g = 0; g < shape_.kv_heads; ++g) {
        const CacheBlock<S> from = block(g, (place + tokens) / block_keys);
        const WritableBlock<S> to = self().writable(g, place / block_keys);
        copy_token<S>(from, (place + tokens) % block_keys, to, place % block_keys, shape_.head_dim, shape_.v_head_dim);
        const View<Compute, 2> key(row.data(), {1, shape_.head_dim}, {0, 1});
        load_rows<Part::keys>(to, place % block_keys, key);
        position.shift(row.data(), -tokens);
        store_rows<Part::keys>(to, place % block_keys, View<const Compute, 2>(key));
      }
    shorten(kept);
  }

  /// The keys, as stored (codes times scale for int8), into [kv_heads, length, head_dim] or [length, kv_heads,
  /// head_dim]. Errors: another shape; places that are missing; the cache's own memory.
  template <class U>
    requires ViewableAs<U, Value, 3>
  void export_keys(U&& out, Order order = Order::head_token_dim) const {
    export_part<Part::keys>(View<Value, 3>(out), order, shape_.head_dim);
  }
  /// The values, into [kv_heads, length, v_head_dim] or [length, kv_heads, v_head_dim]. Errors: as above.
  template <class U>
    requires ViewableAs<U, Value, 3>
  void export_values(U&& out, Order order = Order::head_token_dim) const {
    export_part<Part::values>(View<Value, 3>(out), order, shape_.v_head_dim);
  }

  /// Replaces all that is stored, also which table() it was, by keys [kv_heads, length, head_dim] and values [kv_heads,
  /// length, v_head_dim], or [length, kv_heads, dim] of both; int8 takes float and makes codes of it as append() does.
  /// All or nothing. Errors: more tokens than fit; other shapes; the cache's own memory; for int8, numbers that are not
  /// finite.
  template <class K, class V>
    requires(ViewableAs<K, const cache_value_t<S>, 3> && ViewableAs<V, const cache_value_t<S>, 3>)
  void import(const K& keys, const V& values, Order order = Order::head_token_dim) {
    const View<const Value, 3> given_keys(keys), given_values(values);
    const Index tokens = tokens_first(given_keys, order).extent[0];
    if (tokens > capacity_) raise(Status::length("keys", "given {} tokens, allowed {}", tokens, capacity_));
    raise_unless_ok(check_shape("keys", given_keys, ordered(order, tokens, shape_.head_dim)));
    raise_unless_ok(check_shape("values", given_values, ordered(order, tokens, shape_.v_head_dim)));
    raise_unless_ok(check_source(given_keys, given_values));
    const auto k = tokens_first(given_keys, order), v = tokens_first(given_values, order);
    if constexpr (is_quantised<S>) raise_unless_ok(check_numbers(k, v));
    self().make_room(0, tokens);
    missing_ = {};
    table_ = 0;
    length_ = tokens;
    self().settle();
    self().release();
    store(k, v, 0);
  }

  /// Forgets all but the first `length` tokens, and gives back the pages of the others. Errors: a length beyond the
  /// present one, or below 0; in a ring one where a row may see what is no longer held. Nothing is changed then.
  void truncate(Index length) {
    raise_unless_ok(self().check_truncate(length));
    shorten(length);
  }
  /// ok, or the error that truncate() would raise.
  Status check_truncate(Index length) const noexcept {
    if (length < 0 || length > length_) return Status::length("length", "given {}, allowed 0 to {}", length, length_);
    return {};
  }
  void clear() noexcept { shorten(0); }  ///< forgets all tokens

 protected:
  BlockCache() noexcept = default;
  BlockCache(const CacheShape& shape, Index capacity) noexcept : shape_(shape), capacity_(capacity) {}
  BlockCache(const BlockCache&) noexcept = default;
  /// Moving leaves an empty cache without capacity.
  BlockCache(BlockCache&& other) noexcept { swap(other); }
  BlockCache& operator=(const BlockCache&) noexcept = default;
  BlockCache& operator=(BlockCache&& other) noexcept {
    BlockCache moved(std::move(other));
    swap(moved);
    return *this;
  }
  ~BlockCache() = default;

  /// Keeps the first `length` tokens, 0 <= length <= length(). What is not held stays so.
  void shorten(Index length) noexcept {
    missing_ = self().missing_after(0);
    set_length(length);
  }
  void set_length(Index length) noexcept {
    length_ = length;
    if (length <= missing_.first) missing_ = {};
    if (length < missing_.last) missing_.last = length;
    if (length == 0) table_ = 0;
    self().settle();
    self().release();
  }
  void swap(BlockCache& other) noexcept {
    std::swap(shape_, other.shape_);
    std::swap(capacity_, other.capacity_);
    std::swap(length_, other.length_);
    std::swap(missing_, other.missing_);
    std::swap(table_, other.table_);
  }

  CacheShape shape_;
  Index capacity_ = 0;
  Index length_ = 0;
  KeyRange missing_;  // places below length_ that are lost: missing_after() has these at least; empty: {0, 0}
  std::uint64_t table_ = 0;

 private:
  friend Restore;

  /// Block b for tokens of a stream, which come in place order.
  WritableBlock<S> room_for(Index kv_head, Index b) {
    self().make_room(b * block_keys, (b + 1) * block_keys);
    return self().writable(kv_head, b);
  }
  /// The tokens of a stream have all been stored. Kernels ask for blocks up to the length, whatever is missing there.
  void hold(Index length, KeyRange missing, std::uint64_t table) {
    self().make_room(0, length);
    length_ = length;
    missing_ = missing;
    table_ = table;
    self().settle();
  }

  Cache& self() noexcept { return static_cast<Cache&>(*this); }
  const Cache& self() const noexcept { return static_cast<const Cache&>(*this); }

  Status check_rows(View<const Compute, 3> keys, View<const Compute, 3> values, Index tokens) const noexcept {
    if (Status s = check_shape("keys", keys, {tokens, shape_.kv_heads, shape_.head_dim}); !s.ok()) return s;
    if (Status s = check_shape("values", values, {tokens, shape_.kv_heads, shape_.v_head_dim}); !s.ok()) return s;
    if (Status s = check_source(keys, values); !s.ok()) return s;
    if constexpr (is_quantised<S>) return check_numbers(keys, values);
    return {};
  }
  /// Refuses keys and values in the cache's own memory, which may move while they are read.
  template <class U>
  Status check_source(View<const U, 3> keys, View<const U, 3> values) const noexcept {
    return check_apart({{"keys", bytes_of(keys)}, {"values", bytes_of(values)}}, {{"cache", self().memory()}});
  }
  static Status check_numbers(View<const float, 3> keys, View<const float, 3> values) noexcept {
    return first_error(check_finite("keys", keys), check_finite("values", values));
  }
  Status check_places(const char* argument, KeyRange places) const noexcept {
    const KeyRange missing = self().missing_after(0);
    if (const KeyRange gone = intersection(places, missing); !gone.empty())
      return Status::invalid(argument, "given place {}, allowed none of {} to {}, which the cache does not hold",
                             gone.first, missing.first, missing.last - 1);
    return {};
  }
  /// Whether a policy may have rotated these keys.
  template <class P>
  Status check_rotation(const P& position) const noexcept {
    if constexpr (requires { position.rotary_dim(); })
      if (position.rotary_dim() > shape_.head_dim)
        return Status::invalid("position", "given rotary_dim {}, allowed at most head_dim {}", position.rotary_dim(),
                               shape_.head_dim);
    if constexpr (requires { position.identity(); })
      if (table_ != 0 && table_ != position.identity())
        return Status::invalid("position", "given another rotary table, allowed the one that rotated the keys");
    return {};
  }
  std::array<Index, 3> ordered(Order order, Index tokens, Index dim) const noexcept {
    if (order == Order::token_head_dim) return {tokens, shape_.kv_heads, dim};
    return {shape_.kv_heads, tokens, dim};
  }
  template <Part part>
  void export_part(View<Value, 3> out, Order order, Index dim) const {
    raise_unless_ok(check_shape("out", out, ordered(order, length_, dim)));
    raise_unless_ok(check_apart({{"cache", self().memory()}}, {{"out", bytes_of(out)}}));
    raise_unless_ok(check_places("cache", {0, length_}));
    const View<Value, 3> rows = tokens_first(out, order);
    [[maybe_unused]] const FloatEnvironment environment;
    for_each_part(0, length_, [&](Index g, Index b, Index at, Index first, Index tokens) {
      load_rows<part>(block(g, b), at, head_rows(rows, g, first, tokens));
    });
  }

  /// f(kv head, block, first place in it, first place, tokens) over places [first, last).
  template <class F>
  void for_each_part(Index first, Index last, F&& f) const {
    for (Index g = 0; g < shape_.kv_heads; ++g)
      for_each_block(first, last, [&](Index b, Index at, Index tokens) { f(g, b, at, b * block_keys + at, tokens); });
  }
  /// Rows [tokens, dim] of one head of [tokens, kv_heads, dim].
  template <class U>
  static View<U, 2> head_rows(View<U, 3> rows, Index g, Index first, Index tokens) noexcept {
    return View<U, 2>(rows.data + first * rows.stride[0] + g * rows.stride[1], {tokens, rows.extent[2]},
                      {rows.stride[0], rows.stride[2]});
  }
  /// Stores rows at places from `first` on, for which there is room.
  template <class U>
  void store(View<const U, 3> keys, View<const U, 3> values, Index first) noexcept {
    for_each_part(first, first + keys.extent[0], [&](Index g, Index b, Index at, Index place, Index tokens) {
      const WritableBlock<S> to = self().writable(g, b);
      store_rows<Part::keys>(to, at, head_rows(keys, g, place - first, tokens));
      store_rows<Part::values>(to, at, head_rows(values, g, place - first, tokens));
    });
  }
  /// The same for rows that have been checked; the length grows with them.
  void put(Index first, View<const Compute, 3> keys, View<const Compute, 3> values) {
    const Index last = first + keys.extent[0];
    self().make_room(first, last);
    store(keys, values, first);
    if (last <= length_) return;
    length_ = last;
    self().settle();
  }
};

}  // namespace lockstep::detail
