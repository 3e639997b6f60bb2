#include "lockstep/logit/soft_cap.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ls = lockstep;

namespace {

template <class C>
class SoftCap : public testing::Test {};
using Computes = testing::Types<float, double>;
TYPED_TEST_SUITE(SoftCap, Computes);

TYPED_TEST(SoftCap, IsCloseToTheExactFunction) {
  // One rounding of the quotient, whose relative error tanh does not enlarge, that of tanh, one of the product.
  const double ulp = std::numeric_limits<TypeParam>::epsilon();
  const double bound = (0.5 + ls::TanhConstants<TypeParam>::max_error_ulp + 0.5) * ulp;
  for (const double cap : {50.0, 30.0, 1.0, 2.5e-3, 7e5}) {
    const ls::SoftCap soft_cap{.cap = cap};
    const long double c = static_cast<TypeParam>(cap);
    for (double x = -12; x <= 12; x += 0.0137) {
      const auto logit = static_cast<TypeParam>(x * cap);
      const long double exact = c * std::tanh(static_cast<long double>(logit) / c);
      const long double got = soft_cap.apply(logit, {}, 0);
      ASSERT_LE(std::abs(got - exact), bound * std::abs(exact)) << "cap " << cap << ", logit " << logit;
    }
  }
}

TYPED_TEST(SoftCap, IsOddAndEndsAtTheCap) {
  using Limits = std::numeric_limits<TypeParam>;
  const ls::SoftCap soft_cap{.cap = 50};
  const auto capped = [&](TypeParam s) { return soft_cap.apply(s, {}, 0); };
  EXPECT_EQ(capped(Limits::infinity()), 50);
  EXPECT_EQ(capped(-Limits::infinity()), -50);
  EXPECT_EQ(capped(Limits::max()), 50);
  EXPECT_EQ(capped(0), 0);
  EXPECT_FALSE(std::signbit(capped(0)));
  EXPECT_TRUE(std::signbit(capped(static_cast<TypeParam>(-0.0))));
  EXPECT_NE(capped(Limits::quiet_NaN()), capped(Limits::quiet_NaN()));
  for (const double s : {1e-30, 0.1, 3.0, 49.0, 1e3})
    EXPECT_EQ(capped(static_cast<TypeParam>(-s)), -capped(static_cast<TypeParam>(s)));
}

TYPED_TEST(SoftCap, ScalesLikeThePlainLogit) {
  EXPECT_EQ(ls::SoftCap{}.scale(64), 0.125);
  EXPECT_EQ((ls::SoftCap{.cap = 50, .given = 0.5}.scale(64)), 0.5);
}

TYPED_TEST(SoftCap, RefusesCapsThatAreNoPositiveNumber) {
  for (const double cap : {0.0, -1.0, -0.0, std::numeric_limits<double>::quiet_NaN(),
                           std::numeric_limits<double>::infinity(), 1e-40, 1e300}) {
    const ls::Status status = ls::SoftCap{.cap = cap}.check();
    EXPECT_FALSE(status.ok()) << cap;
    EXPECT_NE(std::string(status.message()).find("softcap"), std::string::npos);
  }
  EXPECT_TRUE(ls::SoftCap{.cap = 50}.check().ok());
}

}  // namespace
