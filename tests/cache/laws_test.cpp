// Every cache keeps the laws, and one that breaks a law is found.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "conformance/cache.hpp"
#include "lockstep/cache/contiguous.hpp"
#include "lockstep/cache/paged.hpp"
#include "lockstep/cache/ring.hpp"

namespace ls = lockstep;
using conformance::SubjectName;
using ls::Index;

namespace {

template <class S>
constexpr const char* storage_name() {
  return std::same_as<S, float>             ? "Float"
         : std::same_as<S, double>          ? "Double"
         : std::same_as<S, Eigen::half>     ? "Half"
         : std::same_as<S, Eigen::bfloat16> ? "Bfloat16"
                                            : "Int8";
}
constexpr std::array<char, 32> joined(std::string_view first, std::string_view second) {
  std::array<char, 32> text{};
  std::copy(second.begin(), second.end(), std::copy(first.begin(), first.end(), text.begin()));
  return text;
}
template <class S>
struct Contiguous {
  using Cache = ls::ContiguousCache<S>;
  static constexpr auto text = joined("Contiguous", storage_name<S>());
  static constexpr const char* name = text.data();
};
// Starts without memory.
template <class S>
struct GrowingCache : ls::ContiguousCache<S> {
  GrowingCache(ls::CacheShape shape, Index capacity) : ls::ContiguousCache<S>(shape, capacity, {.initial = 0}) {}
};
template <class S>
struct Growing {
  using Cache = GrowingCache<S>;
  static constexpr auto text = joined("Growing", storage_name<S>());
  static constexpr const char* name = text.data();
};
template <class S>
struct Ring {
  using Cache = ls::RingCache<S>;
  static constexpr auto text = joined("Ring", storage_name<S>());
  static constexpr const char* name = text.data();
};
template <class S>
struct Paged {
  using Cache = ls::PagedCache<S>;
  static constexpr auto text = joined("Paged", storage_name<S>());
  static constexpr const char* name = text.data();
};

using Subjects =
    testing::Types<Contiguous<float>, Contiguous<double>, Contiguous<Eigen::half>, Contiguous<Eigen::bfloat16>,
                   Contiguous<std::int8_t>, Growing<float>, Growing<std::int8_t>, Ring<float>, Ring<Eigen::half>,
                   Ring<std::int8_t>, Paged<double>, Paged<Eigen::bfloat16>, Paged<std::int8_t>>;

// The contiguous cache with one law broken at a time.
using Good = ls::ContiguousCache<float>;
using Rows = ls::View<const float, 3>;
struct StartsFull : Good {
  StartsFull(ls::CacheShape shape, Index capacity) : Good(shape, capacity) {
    import(View3::contiguous(nothing, {shape.kv_heads, 0, shape.head_dim}),
           View3::contiguous(nothing, {shape.kv_heads, 0, shape.v_head_dim}));
  }
  using View3 = ls::View<const float, 3>;
  static constexpr const float* nothing = nullptr;
  Index length() const noexcept { return Good::length() + 1; }
};
struct SwapsTwoTokens : Good {
  using Good::Good;
  void append(Rows keys, Rows values) {
    if (keys.extent[0] == 7) std::swap(keys.data, values.data);
    Good::append(keys, values);
  }
};
struct AppendsWhatFits : Good {
  using Good::Good;
  void append(Rows keys, Rows values) {
    const Index room = capacity() - length();
    Good::append(keys.part(0, 0, std::min(room, keys.extent[0])), values.part(0, 0, std::min(room, keys.extent[0])));
  }
};
struct NeverTruncates : Good {
  using Good::Good;
  void truncate(Index length) { Good::truncate(length == 0 ? 0 : Good::length()); }
};
struct ForgetsInItsCopy : Good {
  using Good::Good;
  ForgetsInItsCopy(const ForgetsInItsCopy& other) : Good(other) { clear(); }
  ForgetsInItsCopy& operator=(const ForgetsInItsCopy&) = default;
};
struct ForetellsTooLittle : ls::RingCache<float> {
  using ls::RingCache<float>::RingCache;
  ls::KeyRange missing_after(Index) const noexcept { return ls::RingCache<float>::missing_after(0); }
};
struct ForgetsWhenMoved : Good {
  using Good::Good;
  ForgetsWhenMoved(ForgetsWhenMoved&& other) noexcept : Good(std::move(other)) { clear(); }
  ForgetsWhenMoved& operator=(ForgetsWhenMoved&&) = default;
};

}  // namespace

// A ring is made of its window, and keeps more than it; a paged cache is made of a pool.
template <class S>
struct conformance::CacheMaker<ls::RingCache<S>> {
  static ls::RingCache<S> make(ls::CacheShape shape, Index capacity) {
    return ls::RingCache<S>(shape, std::max<Index>(capacity, 1));
  }
};
template <class S>
struct conformance::CacheMaker<ls::PagedCache<S>> {
  static ls::PagedCache<S> make(ls::CacheShape shape, Index capacity) {
    // Room for a copy of each page besides.
    return ls::PagedCache<S>(ls::PagePool<S>(shape, 2 * ls::ceil_div(capacity, ls::block_keys)), capacity);
  }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Library, CacheLaws, Subjects, SubjectName);

TEST(CacheConformance, FindsEachBrokenLaw) {
  EXPECT_EQ(conformance::cache_laws<Good>(), "");
  EXPECT_NE(conformance::starts_empty<StartsFull>(), "");
  EXPECT_NE(conformance::reads_what_was_appended<SwapsTwoTokens>(), "");
  EXPECT_NE(conformance::refuses_when_full<AppendsWhatFits>(), "");
  EXPECT_NE(conformance::truncates_to_the_first_places<NeverTruncates>(), "");
  EXPECT_NE(conformance::moves_with_its_contents<ForgetsWhenMoved>(), "");
  EXPECT_NE(conformance::copies_are_independent<ForgetsInItsCopy>(), "");
  EXPECT_NE(conformance::foretells_what_is_missing<ForetellsTooLittle>(), "");
}
