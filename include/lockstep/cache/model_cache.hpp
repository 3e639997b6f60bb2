// All layers' caches of one sequence: one position a forward, handed to every layer.
#pragma once

#include <utility>
#include <variant>
#include <vector>

#include "lockstep/concepts.hpp"

namespace lockstep {

/// Owns one cache a layer; layers of different policies bring different cache types. A forward through the model reads
/// the position once, by begin(), and hands step.offset to every layer, which refuses a cache of another length: no
/// layer can be a step ahead or behind.
///
/// ```cpp
/// auto step = caches.begin(tokens);
/// for (Index i = 0; i < layers; ++i) layer[i].forward(x, caches.layer(i), y, {.offset = step.offset});
/// ```
template <KeyValueCache... Caches>
class ModelCache {
  static_assert(sizeof...(Caches) >= 1);
  using Any = std::variant<Caches...>;

 public:
  /// What every layer of a forward is told.
  struct Step {
    Index offset = 0;  ///< keys before this forward's first query
    Index tokens = 0;  ///< that each layer appends
  };

  /// Adds the next layer's cache. Errors: a cache whose length differs from the others'.
  template <class K>
  void add(K cache) {
    if (!caches_.empty() && cache.length() != length())
      raise(Status::invalid("cache", "given length {}, allowed the other layers' {}", cache.length(), length()));
    caches_.push_back(Any(std::move(cache)));
  }

  /// How many caches there are.
  Index layers() const noexcept { return static_cast<Index>(caches_.size()); }

  /// Layer i's cache. Errors: no such layer, or one with a cache of another type than K.
  template <class K = std::variant_alternative_t<0, Any>>
  K& layer(Index i) {
    if (i < 0 || i >= layers()) raise(Status::invalid("layer", "given {}, allowed 0 to {}", i, layers() - 1));
    K* cache = std::get_if<K>(&caches_[static_cast<std::size_t>(i)]);
    if (cache == nullptr)
      raise(Status::invalid("layer", "given {}, whose cache is of another type than the one asked for", i));
    return *cache;
  }

  /// Tokens stored: that of the first layer, which all share between forwards.
  Index length() const noexcept { return caches_.empty() ? 0 : length_of(caches_.front()); }
  /// Bytes of all layers.
  Index bytes() const noexcept {
    Index sum = 0;
    for (const Any& any : caches_) sum += std::visit([](const auto& cache) { return cache.bytes(); }, any);
    return sum;
  }

  /// ok if every layer stands at the same position and all have room for `tokens` more.
  Status check_begin(Index tokens) const noexcept {
    for (const Any& any : caches_) {
      if (length_of(any) != length())
        return Status::invalid(
            "caches", "given layers of lengths {} and {}, allowed one length: roll back the forward that failed",
            length(), length_of(any));
      if (Status s = std::visit([tokens](const auto& cache) { return detail::check_append_all(cache, tokens); }, any);
          !s.ok())
        return s;
    }
    return first_error(detail::check_append_together<Caches>(
        layers(), [this](Index i) { return std::get_if<Caches>(&caches_[static_cast<std::size_t>(i)]); },
        [tokens](Index) { return tokens; })...);
  }
  /// The one reading of the position. Errors: those of check_begin().
  Step begin(Index tokens) const {
    raise_unless_ok(check_begin(tokens));
    return {length(), tokens};
  }

  /// Forgets what layers have appended since begin(): after a forward that failed between layers. A cache that takes
  /// back so many tokens is as it was. Errors: a layer whose cache no longer holds what it needs there, which a step of
  /// at most append_limit() tokens does not bring about; nothing is changed then.
  void rollback(const Step& step) { shorten<true>(step.offset); }
  /// Keeps the first `length` tokens in every layer. Errors: a length beyond a layer's, or below 0, or one at which a
  /// layer's cache no longer holds what it needs; nothing is changed then.
  void truncate(Index length) { shorten<false>(length); }
  void clear() { rollback({}); }  ///< forgets all tokens

 private:
  /// Every cache, or every longer one rolled back, down to `length`: all of them or none.
  template <bool back>
  void shorten(Index length) {
    const auto stays = [length](const auto& cache) { return back && cache.length() <= length; };
    for (const Any& any : caches_)
      raise_unless_ok(std::visit(
          [&](const auto& cache) { return stays(cache) ? Status{} : detail::check_truncate(cache, length); }, any));
    for (Any& any : caches_)
      std::visit(
          [&](auto& cache) {
            if (stays(cache)) return;
            if constexpr (back)
              detail::roll_back(cache, length);
            else
              cache.truncate(length);
          },
          any);
  }
  static Index length_of(const Any& any) noexcept {
    return std::visit([](const auto& cache) { return cache.length(); }, any);
  }
  std::vector<Any> caches_;
};

}  // namespace lockstep
