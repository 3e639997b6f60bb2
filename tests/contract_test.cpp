#include "lockstep/contract.hpp"

#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace ls = lockstep;
using ls::Index;

namespace {

TEST(Contract, FixesWhatBitsDependOn) {
  static_assert(std::is_same_v<Index, std::int64_t>);
  static_assert(ls::block_keys == 256 && ls::split_keys == 1024 && ls::lanes == 16 && ls::projection_block == 256);
  static_assert(ls::split_keys % ls::block_keys == 0 && ls::block_keys % ls::lanes == 0);
  static_assert(ls::numerics_version >= 1);
}

TEST(Contract, ComputesHalfAndBfloat16InFloat) {
  static_assert(std::is_same_v<ls::compute_t<float>, float> && std::is_same_v<ls::compute_t<double>, double>);
  static_assert(std::is_same_v<ls::compute_t<Eigen::half>, float> &&
                std::is_same_v<ls::compute_t<Eigen::bfloat16>, float>);
  static_assert(!ls::Element<int> && !ls::Element<long double> && !ls::Element<const float> && !ls::Element<float&>);
  static_assert(ls::CacheElement<std::int8_t> && !ls::Element<std::int8_t> && ls::CacheElement<float> &&
                !ls::CacheElement<int>);
}

TEST(Contract, RoundsUpWithoutWrappingAt32Bits) {
  static_assert(ls::round_up(0, 256) == 0 && ls::round_up(1, 256) == 256 && ls::round_up(256, 256) == 256);
  static_assert(ls::ceil_div((Index{1} << 40) + 1, 256) == (Index{1} << 32) + 1);
  static_assert(ls::ceil_div(std::numeric_limits<Index>::max(), 256) == Index{1} << 55);
}

TEST(Status, IsOkWithoutAText) {
  const ls::Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), ls::StatusCode::ok);
  EXPECT_STREQ(status.message(), "");
}

TEST(Status, NamesArgumentGivenAndAllowed) {
  const ls::Status status = ls::Status::invalid("rotary_dim", "given {}, allowed even numbers", Index{7});
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.code(), ls::StatusCode::invalid_argument);
  EXPECT_STREQ(status.message(), "lockstep: rotary_dim: given 7, allowed even numbers");
  EXPECT_EQ(ls::Status::length("cache", "full").code(), ls::StatusCode::length_error);
}

TEST(Status, ShowsNumbersNamesAndShapesInPlaceOfBraces) {
  const std::array<Index, 3> shape{2, -1, 40};
  EXPECT_STREQ(ls::Status::invalid("x", "{} {}{}", -7, std::size_t{8}, std::int8_t{-9}).message(),
               "lockstep: x: -7 8-9");
  EXPECT_STREQ(ls::Status::invalid("x", "{}, {} and {}", 0.5, 1e300, -std::numeric_limits<float>::infinity()).message(),
               "lockstep: x: 0.5, 1e+300 and -inf");
  EXPECT_STREQ(ls::Status::invalid("x", "{}: {}", "100% {}", shape).message(), "lockstep: x: 100% {}: [2, -1, 40]");
  EXPECT_STREQ(ls::Status::invalid("x", "{}", std::numeric_limits<Index>::min()).message(),
               "lockstep: x: -9223372036854775808");
}

TEST(Status, CutsALongTextInsteadOfAllocating) {
  const std::string argument(500, 'a'), text(500, 'b');
  EXPECT_LT(std::strlen(ls::Status::invalid(argument.c_str(), "{}", text.c_str()).message()), 240U);
  EXPECT_LT(std::strlen(ls::Status::invalid("x", "{}", text.c_str()).message()), 240U);
  EXPECT_EQ(std::string(ls::Status::invalid("x", "{}", text.c_str()).message()).rfind("lockstep: x: bbb", 0), 0U);
  const std::vector<Index> shape(100, 12345);
  EXPECT_EQ(std::strlen(ls::Status::invalid("x", "{}, {}", shape, shape).message()), 239U);
}

TEST(Status, IsCopiedAsBytes) {
  static_assert(std::is_trivially_copyable_v<ls::Status> && std::is_nothrow_default_constructible_v<ls::Status>);
  const ls::Status first = ls::Status::invalid("x", "given 1");
  const ls::Status second = first;
  EXPECT_STREQ(first.message(), second.message());
  EXPECT_NE(first.message(), second.message());
}

TEST(Raise, ThrowsTheKindOfErrorThatTheStatusNames) {
  EXPECT_THROW(ls::raise(ls::Status::invalid("x", "given 1")), std::invalid_argument);
  EXPECT_THROW(ls::raise(ls::Status::length("x", "given 1")), std::length_error);
  EXPECT_NO_THROW(ls::raise_unless_ok({}));
  try {
    ls::raise_unless_ok(ls::Status::length("x", "given {}, allowed {}", 3, 2));
    FAIL();
  } catch (const std::logic_error& error) {
    EXPECT_STREQ(error.what(), "lockstep: x: given 3, allowed 2");
  }
}

TEST(ErrorHandler, IsHandedBackWhenAnotherIsSet) {
  const auto ignore = [](const ls::Status&) {};
  const ls::ErrorHandler before = ls::set_error_handler(ignore);
  EXPECT_EQ(ls::set_error_handler(before), static_cast<ls::ErrorHandler>(ignore));
}

TEST(FloatEnvironment, RoundsToNearestAndPutsTheCallersModeBack) {
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO, FE_TONEAREST}) {
    std::fesetround(mode);
    float inside = 0;
    {
      const ls::FloatEnvironment environment;
      const volatile float one = 1, tiny = 0x1p-25F;
      inside = one + tiny;
    }
    const volatile float one = 1, tiny = 0x1p-25F;
    const float outside = one + tiny;
    const float below = one - tiny;
    std::fesetround(FE_TONEAREST);
    EXPECT_EQ(inside, 1);
    EXPECT_EQ(outside, mode == FE_UPWARD ? std::nextafter(1.0F, 2.0F) : 1.0F);
    EXPECT_EQ(below, mode == FE_DOWNWARD || mode == FE_TOWARDZERO ? std::nextafter(1.0F, 0.0F) : 1.0F);
  }
}

#if defined(__SSE__)
TEST(FloatEnvironment, KeepsDenormalsWhereTheCallerFlushesThem) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);  // flush results and operands to zero
  float inside = 0, outside = 0;
  const volatile float smallest = std::numeric_limits<float>::denorm_min(), one = 1;
  {
    const ls::FloatEnvironment environment;
    const volatile float product = smallest * one;
    std::memcpy(&inside, const_cast<const float*>(&product), sizeof inside);
  }
  const volatile float product = smallest * one;
  std::memcpy(&outside, const_cast<const float*>(&product), sizeof outside);
  const unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  const auto is_zero = [](float x) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &x, sizeof bits);
    return bits == 0;
  };
  EXPECT_FALSE(is_zero(inside));
  EXPECT_TRUE(is_zero(outside));
  EXPECT_EQ(after & 0x8040, 0x8040U);
}
#endif

TEST(FloatEnvironment, IsNotCopied) {
  static_assert(!std::is_copy_constructible_v<ls::FloatEnvironment> &&
                !std::is_copy_assignable_v<ls::FloatEnvironment>);
}

}  // namespace
