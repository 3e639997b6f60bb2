// The plain cache: all places of one sequence in one piece of memory, per kv head, up to a fixed capacity.
#pragma once

#include <utility>

#include "lockstep/aligned.hpp"
#include "lockstep/cache/layout.hpp"
#include "lockstep/concepts.hpp"
#include "lockstep/numeric/half.hpp"
#include "lockstep/views.hpp"

namespace lockstep {

/// Keys (rotated) and values of one sequence, stored as S: float, double, Eigen::half or Eigen::bfloat16.
/// `ContiguousCache<>` names the same policy with the layer's own element type as storage.
///
/// All memory is taken, and touched, at construction: capacity rounded up to 256 places, for each kv head
/// [blocks][key block] then [blocks][value block] (cache/layout.hpp). What is stored is rounded once, to nearest even.
template <class S = void>
class ContiguousCache {
 public:
  static constexpr PolicyKind policy_kind = PolicyKind::cache;
  static constexpr const char* name = "contiguous";
  using Storage = S;
  using Compute = compute_t<S>;

  ContiguousCache() = default;

  /// Room for `capacity` tokens. Errors: kv_heads or a head size below 1, a capacity below 0, or sizes beyond 63 bits.
  ContiguousCache(CacheShape shape, Index capacity) : shape_(shape), capacity_(capacity) {
    raise_unless_ok(check_sizes(shape, capacity));
    key_block_ = BlockLayout<S>::key_block(shape.head_dim);
    value_block_ = BlockLayout<S>::value_block(shape.v_head_dim);
    data_.resize(static_cast<std::size_t>(shape.kv_heads * blocks() * (key_block_ + value_block_)));
  }

  ContiguousCache(const ContiguousCache&) = default;
  ContiguousCache& operator=(const ContiguousCache&) = default;
  /// Moving leaves an empty cache without capacity.
  ContiguousCache(ContiguousCache&& other) noexcept { swap(other); }
  ContiguousCache& operator=(ContiguousCache&& other) noexcept {
    ContiguousCache taken(std::move(other));
    swap(taken);
    return *this;
  }

  CacheShape shape() const noexcept { return shape_; }
  /// Tokens stored.
  Index length() const noexcept { return length_; }
  /// Tokens that fit.
  Index capacity() const noexcept { return capacity_; }
  /// Memory held for keys and values, in bytes.
  Index bytes() const noexcept { return static_cast<Index>(data_.size() * sizeof(S)); }

  Status check_append(Index tokens) const noexcept {
    if (tokens < 0 || tokens > capacity_ - length_)
      return Status::length("cache", "given %" PRId64 " tokens to append to %" PRId64 ", allowed %" PRId64 " in all",
                            tokens, length_, capacity_);
    return {};
  }

  /// Stores the next tokens: keys [tokens, kv_heads, head_dim], values [tokens, kv_heads, v_head_dim]. All or nothing.
  void append(View<const Compute, 3> keys, View<const Compute, 3> values) {
    const Index tokens = keys.extent[0];
    raise_unless_ok(check_append(tokens));
    raise_unless_ok(detail::check_shape("keys", keys, {tokens, shape_.kv_heads, shape_.head_dim}));
    raise_unless_ok(detail::check_shape("values", values, {tokens, shape_.kv_heads, shape_.v_head_dim}));
    store(keys, values, length_);
    length_ += tokens;
  }

  /// Forgets all but the first `length` tokens. Errors: a length beyond the present one, or below 0.
  void truncate(Index length) {
    if (length < 0 || length > length_)
      raise(Status::length("length", "given %" PRId64 ", allowed 0 to %" PRId64, length, length_));
    length_ = length;
  }
  void clear() noexcept { length_ = 0; }

  /// The keys, as stored, into [kv_heads, length, head_dim].
  template <class U>
    requires ViewableAs<U, S, 3>
  void export_keys(U&& out) const {
    read("out", View<S, 3>(out), shape_.head_dim,
         [this](Index g, Index place, Index d) { return stored_key(g, place, d); });
  }
  /// The values, as stored, into [kv_heads, length, v_head_dim].
  template <class U>
    requires ViewableAs<U, S, 3>
  void export_values(U&& out) const {
    read("out", View<S, 3>(out), shape_.v_head_dim,
         [this](Index g, Index place, Index d) { return stored_value(g, place, d); });
  }

  /// Replaces all that is stored by keys [kv_heads, length, head_dim] and values [kv_heads, length, v_head_dim].
  template <class K, class V>
    requires(ViewableAs<K, const S, 3> && ViewableAs<V, const S, 3>)
  void import(const K& keys, const V& values) {
    const View<const S, 3> k(keys), v(values);
    const Index length = k.extent[1];
    if (length > capacity_)
      raise(Status::length("keys", "given %" PRId64 " tokens, allowed %" PRId64, length, capacity_));
    raise_unless_ok(detail::check_shape("keys", k, {shape_.kv_heads, length, shape_.head_dim}));
    raise_unless_ok(detail::check_shape("values", v, {shape_.kv_heads, length, shape_.v_head_dim}));
    for (Index g = 0; g < shape_.kv_heads; ++g)
      for (Index place = 0; place < length; ++place) {
        for (Index d = 0; d < shape_.head_dim; ++d) stored_key(g, place, d) = k(g, place, d);
        for (Index d = 0; d < shape_.v_head_dim; ++d) stored_value(g, place, d) = v(g, place, d);
      }
    length_ = length;
  }

  /// Places [256 b, 256 b + 256) of one kv head; what lies at or beyond length() is unspecified.
  CacheBlock<S> block(Index kv_head, Index b) const noexcept {
    const S* base = data_.data() + kv_head * head_stride();
    return {base + b * key_block_, base + blocks() * key_block_ + b * value_block_};
  }

  /// Whether there can be a cache of these sizes: ok, or the constructor's error.
  static Status check_sizes(CacheShape shape, Index capacity) noexcept {
    if (shape.kv_heads < 1 || shape.head_dim < 1 || shape.v_head_dim < 1)
      return Status::invalid(
          "shape", "given kv_heads %" PRId64 ", head_dim %" PRId64 ", v_head_dim %" PRId64 ", allowed at least 1 each",
          shape.kv_heads, shape.head_dim, shape.v_head_dim);
    // Each factor below 2^31 keeps the sums of the products below within 63 bits once the whole is checked.
    constexpr Index limit = Index{1} << 31;
    Index size = 0;
    if (capacity < 0 || capacity > (Index{1} << 48) || shape.kv_heads > limit || shape.head_dim > limit ||
        shape.v_head_dim > limit ||
        __builtin_mul_overflow(round_up(capacity, block_keys), shape.head_dim + shape.v_head_dim + 32, &size) ||
        __builtin_mul_overflow(size, shape.kv_heads * static_cast<Index>(sizeof(S)), &size))
      return Status::length("capacity",
                            "given %" PRId64 " tokens of %" PRId64 " kv heads, allowed 0 to what 63 bits of bytes hold",
                            capacity, shape.kv_heads);
    return {};
  }

 private:
  void swap(ContiguousCache& other) noexcept {
    std::swap(shape_, other.shape_);
    std::swap(capacity_, other.capacity_);
    std::swap(length_, other.length_);
    std::swap(key_block_, other.key_block_);
    std::swap(value_block_, other.value_block_);
    data_.swap(other.data_);
  }

  Index blocks() const noexcept { return ceil_div(capacity_, block_keys); }
  Index head_stride() const noexcept { return blocks() * (key_block_ + value_block_); }

  S& stored_key(Index g, Index place, Index d) noexcept { return data_[key_index(g, place, d)]; }
  S stored_key(Index g, Index place, Index d) const noexcept { return data_[key_index(g, place, d)]; }
  S& stored_value(Index g, Index place, Index d) noexcept { return data_[value_index(g, place, d)]; }
  S stored_value(Index g, Index place, Index d) const noexcept { return data_[value_index(g, place, d)]; }

  std::size_t key_index(Index g, Index place, Index d) const noexcept {
    return static_cast<std::size_t>(g * head_stride() + (place / block_keys) * key_block_ +
                                    BlockLayout<S>::key(place % block_keys, d, shape_.head_dim));
  }
  std::size_t value_index(Index g, Index place, Index d) const noexcept {
    return static_cast<std::size_t>(g * head_stride() + blocks() * key_block_ + (place / block_keys) * value_block_ +
                                    BlockLayout<S>::value(place % block_keys, d));
  }

  void store(View<const Compute, 3> keys, View<const Compute, 3> values, Index first) noexcept {
    for (Index t = 0; t < keys.extent[0]; ++t)
      for (Index g = 0; g < shape_.kv_heads; ++g) {
        for (Index d = 0; d < shape_.head_dim; ++d) stored_key(g, first + t, d) = narrow<S>(keys(t, g, d));
        for (Index d = 0; d < shape_.v_head_dim; ++d) stored_value(g, first + t, d) = narrow<S>(values(t, g, d));
      }
  }

  template <class Read>
  void read(const char* argument, View<S, 3> out, Index dim, Read element) const {
    raise_unless_ok(detail::check_shape(argument, out, {shape_.kv_heads, length_, dim}));
    for (Index g = 0; g < shape_.kv_heads; ++g)
      for (Index place = 0; place < length_; ++place)
        for (Index d = 0; d < dim; ++d) out(g, place, d) = element(g, place, d);
  }

  CacheShape shape_;
  Index capacity_ = 0;
  Index length_ = 0;
  Index key_block_ = 0;
  Index value_block_ = 0;
  AlignedVector<S> data_;
};

/// The contiguous cache with the layer's own element type as storage; a name only, until a layer rebinds it.
template <>
class ContiguousCache<void> {
 public:
  static constexpr PolicyKind policy_kind = PolicyKind::cache;
  template <class T>
  using rebind = ContiguousCache<T>;
};

static_assert(KeyValueCache<ContiguousCache<float>> && KeyValueCache<ContiguousCache<Eigen::bfloat16>>);

}  // namespace lockstep
