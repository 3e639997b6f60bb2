// Every cache keeps the laws, and one that breaks a law is found.
#include <gtest/gtest.h>

#include "conformance/cache.hpp"
#include "lockstep/cache/contiguous.hpp"

namespace ls = lockstep;
using conformance::SubjectName;
using ls::Index;

namespace {

template <class S>
struct ContiguousSubject {
  using Cache = ls::ContiguousCache<S>;
  static constexpr const char* name = std::same_as<S, float>         ? "ContiguousFloat"
                                      : std::same_as<S, double>      ? "ContiguousDouble"
                                      : std::same_as<S, Eigen::half> ? "ContiguousHalf"
                                                                     : "ContiguousBfloat16";
};

using Subjects = testing::Types<ContiguousSubject<float>, ContiguousSubject<double>, ContiguousSubject<Eigen::half>,
                                ContiguousSubject<Eigen::bfloat16>>;

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
struct ForgetsWhenMoved : Good {
  using Good::Good;
  ForgetsWhenMoved(ForgetsWhenMoved&& other) noexcept : Good(std::move(other)) { clear(); }
  ForgetsWhenMoved& operator=(ForgetsWhenMoved&&) = default;
};

}  // namespace

INSTANTIATE_TYPED_TEST_SUITE_P(Library, CacheLaws, Subjects, SubjectName);

TEST(CacheConformance, FindsEachBrokenLaw) {
  EXPECT_EQ(conformance::cache_laws<Good>(), "");
  EXPECT_NE(conformance::starts_empty<StartsFull>(), "");
  EXPECT_NE(conformance::reads_what_was_appended<SwapsTwoTokens>(), "");
  EXPECT_NE(conformance::refuses_when_full<AppendsWhatFits>(), "");
  EXPECT_NE(conformance::truncates_to_the_first_places<NeverTruncates>(), "");
  EXPECT_NE(conformance::moves_with_its_contents<ForgetsWhenMoved>(), "");
}
