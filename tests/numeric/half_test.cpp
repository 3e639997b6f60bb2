#include "lockstep/numeric/half.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "lockstep/contract.hpp"
#include "numeric/measure.hpp"

namespace {

using Eigen::bfloat16;
using Eigen::half;
using lockstep::FloatEnvironment;
using lockstep::narrow;
using lockstep::widen;
using numeric_test::BitHash;

static_assert(std::is_same_v<decltype(widen(half{})), float>);
static_assert(std::is_same_v<decltype(widen(bfloat16{})), float>);
static_assert(std::is_same_v<decltype(widen(1.0F)), float>);
static_assert(std::is_same_v<decltype(widen(1.0)), double>);

/// Flushes denormal operands and results for its lifetime, as a caller's process may.
class FlushingEnvironment {
#if defined(__SSE__)
 public:
  FlushingEnvironment() { _mm_setcsr(_mm_getcsr() | 0x8040U); }

 private:
  FloatEnvironment restore_;
#elif defined(__aarch64__)
 public:
  FlushingEnvironment() { asm volatile("msr fpcr, %0" : : "r"(std::uint64_t{1} << 24) : "memory"); }

 private:
  FloatEnvironment restore_;
#endif
};

template <class S>
struct Format;
template <>
struct Format<half> {
  static constexpr int exponent_bits = 5;
  static constexpr int mantissa_bits = 10;
};
template <>
struct Format<bfloat16> {
  static constexpr int exponent_bits = 8;
  static constexpr int mantissa_bits = 7;
};

template <class S>
class StorageType : public testing::Test {
 public:
  static constexpr int mantissa_bits = Format<S>::mantissa_bits;
  static constexpr std::uint32_t infinity_bits = ((1U << Format<S>::exponent_bits) - 1U) << mantissa_bits;

  static S from_bits(std::uint32_t bits) { return std::bit_cast<S>(static_cast<std::uint16_t>(bits)); }
  static std::uint32_t to_bits(S value) { return std::bit_cast<std::uint16_t>(value); }
  static std::uint32_t float_bits(float value) { return std::bit_cast<std::uint32_t>(value); }

  /// The meaning of the format, in double: (-1)^s 2^(e - bias) 1.m, denormals 2^(1 - bias) 0.m.
  static double meaning(std::uint32_t magnitude) {
    const int bias = (1 << (Format<S>::exponent_bits - 1)) - 1;
    const int exponent = static_cast<int>(magnitude >> mantissa_bits);
    const int mantissa = static_cast<int>(magnitude & ((1U << mantissa_bits) - 1U));
    const int leading = exponent == 0 ? 0 : 1 << mantissa_bits;
    return std::ldexp(leading + mantissa, (exponent == 0 ? 1 : exponent) - bias - mantissa_bits);
  }

  /// float bits of each non-negative finite value, and of the middle between it and the next: the one past the last
  /// value is the threshold of overflow.
  struct Values {
    std::vector<std::uint32_t> value;
    std::vector<std::uint32_t> middle;
  };

  static Values values() {
    const FloatEnvironment environment;
    Values result;
    for (std::uint32_t bits = 0; bits < infinity_bits; ++bits) {
      result.value.push_back(float_bits(static_cast<float>(meaning(bits))));
      result.middle.push_back(float_bits(static_cast<float>((meaning(bits) + meaning(bits + 1)) / 2)));
    }
    return result;
  }

  static void expect_widening_is_exact(const Values& values) {
    for (std::uint32_t bits = 0; bits < infinity_bits; ++bits) {
      ASSERT_EQ(float_bits(widen(from_bits(bits))), values.value[bits]) << bits;
      ASSERT_EQ(float_bits(widen(from_bits(bits | 0x8000U))), values.value[bits] | 0x80000000U) << bits;
    }
  }

  /// Narrowing steps from one value to the next exactly at the middle, which goes to the even one; being monotone
  /// between, it is right everywhere.
  static void expect_narrowing_is_to_nearest_even(const Values& values) {
    for (std::uint32_t bits = 0; bits < infinity_bits; ++bits) {
      const std::uint32_t middle = values.middle[bits];
      const std::uint32_t even = bits + (bits & 1U);
      for (const std::uint32_t sign : {0U, 1U}) {
        const auto narrowed = [sign](std::uint32_t magnitude) {
          return to_bits(narrow<S>(std::bit_cast<float>(magnitude | sign << 31))) ^ sign << 15;
        };
        ASSERT_EQ(narrowed(middle - 1), bits);
        ASSERT_EQ(narrowed(middle), even);
        ASSERT_EQ(narrowed(middle + 1), bits + 1);
      }
    }
  }
};

using StorageTypes = testing::Types<half, bfloat16>;
TYPED_TEST_SUITE(StorageType, StorageTypes);

TYPED_TEST(StorageType, WideningIsExactDenormalsIncluded) {
  TestFixture::expect_widening_is_exact(TestFixture::values());
}

TYPED_TEST(StorageType, NarrowingIsToNearestEvenDenormalsIncluded) {
  TestFixture::expect_narrowing_is_to_nearest_even(TestFixture::values());
}

TYPED_TEST(StorageType, FlushModesLeaveNoTrace) {
  const auto values = TestFixture::values();
  const FlushingEnvironment flushing;
  TestFixture::expect_widening_is_exact(values);
  TestFixture::expect_narrowing_is_to_nearest_even(values);
}

TYPED_TEST(StorageType, WideningThenNarrowingIsTheIdentity) {
  for (std::uint32_t bits = 0; bits <= TestFixture::infinity_bits; ++bits) {
    const std::uint32_t negative = bits | 0x8000U;
    ASSERT_EQ(TestFixture::to_bits(narrow<TypeParam>(widen(TestFixture::from_bits(bits)))), bits);
    ASSERT_EQ(TestFixture::to_bits(narrow<TypeParam>(widen(TestFixture::from_bits(negative)))), negative);
  }
}

TYPED_TEST(StorageType, InfinityStaysAndOverflowBecomesIt) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  constexpr std::uint32_t expected = TestFixture::infinity_bits;
  EXPECT_EQ(widen(TestFixture::from_bits(expected)), infinity);
  EXPECT_EQ(widen(TestFixture::from_bits(expected | 0x8000U)), -infinity);
  EXPECT_EQ(TestFixture::to_bits(narrow<TypeParam>(infinity)), expected);
  EXPECT_EQ(TestFixture::to_bits(narrow<TypeParam>(std::numeric_limits<float>::max())), expected);
  EXPECT_EQ(TestFixture::to_bits(narrow<TypeParam>(-std::numeric_limits<float>::max())), expected | 0x8000U);
}

TYPED_TEST(StorageType, EveryNanNarrowsToThePositiveQuietOne) {
  const std::uint32_t canonical = TestFixture::infinity_bits | 1U << (TestFixture::mantissa_bits - 1);
  for (const std::uint32_t bits : {0x7fc00000U, 0xffc00000U, 0x7f800001U, 0xff800001U, 0x7fffffffU, 0xffffffffU}) {
    EXPECT_EQ(TestFixture::to_bits(narrow<TypeParam>(std::bit_cast<float>(bits))), canonical);
  }
  for (std::uint32_t bits = TestFixture::infinity_bits + 1; bits < 0x8000U; ++bits) {
    ASSERT_GT(TestFixture::float_bits(widen(TestFixture::from_bits(bits))), 0x7f800000U) << bits;
  }
}

TYPED_TEST(StorageType, NarrowingIsMonotone) {
  std::uint32_t previous = 0;
  for (std::uint32_t bits = 0; bits <= 0x7f800000U; bits += 101) {
    const std::uint32_t result = TestFixture::to_bits(narrow<TypeParam>(std::bit_cast<float>(bits)));
    ASSERT_GE(result, previous) << bits;
    previous = result;
  }
}

TEST(Narrow, EveryNanOfAComputeTypeBecomesThePositiveQuietOne) {
  for (const std::uint32_t bits : {0x7fc00000U, 0xffc00000U, 0x7f800001U, 0xffffffffU})
    EXPECT_EQ(std::bit_cast<std::uint32_t>(narrow<float>(std::bit_cast<float>(bits))), 0x7fc00000U);
  for (const std::uint64_t bits : {0x7ff8000000000000U, 0xfff8000000000000U, 0x7ff0000000000001U, 0xffffffffffffffffU})
    EXPECT_EQ(std::bit_cast<std::uint64_t>(narrow<double>(std::bit_cast<double>(bits))), 0x7ff8000000000000U);
}

TEST(Narrow, IsTheIdentityBetweenEqualTypes) {
  const FloatEnvironment environment;
  for (const float x : {0.0F, -0.0F, 1.5F, 0x1p-149F, HUGE_VALF}) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(narrow<float>(widen(x))), std::bit_cast<std::uint32_t>(x));
    const double d = x;
    EXPECT_EQ(std::bit_cast<std::uint64_t>(narrow<double>(widen(d))), std::bit_cast<std::uint64_t>(d));
  }
}

TEST(Narrow, HasTheGoldenBits) {
  BitHash hash;
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += 4093) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    hash.add(std::uint64_t{std::bit_cast<std::uint16_t>(narrow<half>(x))});
    hash.add(std::uint64_t{std::bit_cast<std::uint16_t>(narrow<bfloat16>(x))});
  }
  EXPECT_EQ(hash.value(), 0xf34df1353e61dde5U);
}

}  // namespace
