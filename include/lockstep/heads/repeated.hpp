// The comparison variant of head sharing: keys and values are copied once for every query head.
#pragma once

#include "lockstep/aligned.hpp"
#include "lockstep/concepts.hpp"
#include "lockstep/plain.hpp"

namespace lockstep {

/// Groups as in Grouped, but each query head gets a copy of its kv head before attention, as frameworks do that expand
/// to multi-head attention. Only kernel Materialized offers it: it exists to be compared with.
struct RepeatedHeads : Grouped {
  static constexpr const char* name = "repeated";
  static constexpr bool repeats = true;

  /// source [tokens, kv_heads, dim] into out [tokens, kv_heads group_size, dim], where head h is kv head h /
  /// group_size.
  template <class T>
  static void repeat(View<const T, 3> source, Index group_size, View<T, 3> out) noexcept {
    for (Index t = 0; t < source.extent[0]; ++t)
      for (Index h = 0; h < source.extent[1] * group_size; ++h)
        for (Index d = 0; d < source.extent[2]; ++d) out(t, h, d) = source(t, h / group_size, d);
  }
};

static_assert(HeadSharing<RepeatedHeads>);

/// Keys or values [tokens, heads, dim] of which each kv head stands group_size times; owns a copy unless group_size
/// is 1. Moves only: the rows of a copied object would go on viewing the first one's memory.
template <class T>
struct RepeatedRows {
  AlignedVector<T> copy;  ///< empty where nothing was repeated
  View<const T, 3> rows;  ///< of the copy, or of the source

  /// Views the rows as they are.
  explicit RepeatedRows(View<const T, 3> rows_) noexcept : rows(rows_) {}
  RepeatedRows(RepeatedRows&&) noexcept = default;
  RepeatedRows& operator=(RepeatedRows&&) noexcept = default;
};

/// Repeats kv heads: [tokens, kv_heads, dim] to [tokens, kv_heads group_size, dim], where head h is kv head h /
/// group_size. group_size 1 copies nothing: the result views the source. Errors: group_size below 1, or a copy beyond
/// 63 bits.
template <class T>
RepeatedRows<T> repeat_kv_heads(View<const T, 3> source, Index group_size) {
  if (group_size < 1) raise(Status::invalid("group_size", "given {}, allowed at least 1", group_size));
  raise_unless_ok(detail::check_shape("source", source, source.extent));
  RepeatedRows<T> result(source);
  if (group_size == 1) return result;
  Index numbers = 0;
  if (group_size > detail::size_limit || source.extent[1] > detail::size_limit ||
      __builtin_mul_overflow(source.size(), group_size, &numbers) ||
      numbers > INT64_MAX / static_cast<Index>(sizeof(T)))
    raise(Status::invalid("group_size", "given {} over {}, allowed what 63 bits of bytes hold", group_size,
                          source.extent));
  const typename View<T, 3>::Extents extent{source.extent[0], source.extent[1] * group_size, source.extent[2]};
  result.copy.resize(static_cast<std::size_t>(numbers));
  const auto out = View<T, 3>::contiguous(result.copy.data(), extent);
  RepeatedHeads::repeat<T>(source, group_size, out);
  result.rows = out;
  return result;
}

}  // namespace lockstep
