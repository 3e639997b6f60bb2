#include "lockstep/numeric/rounded.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>

namespace {

using lockstep::quotient;
using lockstep::rounded;

// Plain arrays that the compiler cannot fold, in loops that it would fuse, regroup and vectorise if it may.
template <class C>
struct Operands {
  std::array<C, 64> a;
  std::array<C, 64> b;

  Operands() {
    volatile C seed = C{1};
    for (std::size_t i = 0; i < a.size(); ++i) {
      a[i] = seed / static_cast<C>(3 + i);
      b[i] = seed / static_cast<C>(7 + 2 * i);
    }
  }
};

template <class C>
class RoundedType : public testing::Test {};
using ComputeTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(RoundedType, ComputeTypes);

TYPED_TEST(RoundedType, ProductIsNotFusedIntoTheAddition) {
  const Operands<TypeParam> x;
  std::array<TypeParam, 64> sum;
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = rounded(x.a[i] * x.b[i]) - x.b[i];
  for (std::size_t i = 0; i < sum.size(); ++i) {
    const volatile TypeParam product = x.a[i] * x.b[i];
    const volatile TypeParam expected = product - x.b[i];
    EXPECT_EQ(sum[i], expected) << i;
  }
}

TYPED_TEST(RoundedType, SumsAreNotRegrouped) {
  const Operands<TypeParam> x;
  std::array<TypeParam, 64> error;
  for (std::size_t i = 0; i < error.size(); ++i) {
    const TypeParam sum = rounded(TypeParam{8} + x.a[i]);
    error[i] = x.a[i] - rounded(sum - TypeParam{8});
  }
  int inexact = 0;
  for (std::size_t i = 0; i < error.size(); ++i) {
    const volatile TypeParam sum = TypeParam{8} + x.a[i];
    const volatile TypeParam part = sum - TypeParam{8};
    const volatile TypeParam expected = x.a[i] - part;
    EXPECT_EQ(error[i], expected) << i;
    inexact += error[i] != TypeParam{0};
  }
  EXPECT_GT(inexact, 32);
}

TYPED_TEST(RoundedType, FmaRoundsOnce) {
  const Operands<TypeParam> x;
  int fused = 0;
  for (std::size_t i = 0; i < x.a.size(); ++i) {
    const volatile TypeParam product = x.a[i] * x.b[i];
    const TypeParam residue = lockstep::fma(x.a[i], x.b[i], -TypeParam{product});
    EXPECT_EQ(residue, std::fma(x.a[i], x.b[i], -TypeParam{product}));
    fused += residue != TypeParam{0};
  }
  EXPECT_GT(fused, 32) << "most products have a rounding error";
}

TYPED_TEST(RoundedType, QuotientsByOneDivisorAreDivisions) {
  const Operands<TypeParam> x;
  const volatile TypeParam opaque_divisor = TypeParam{49} / TypeParam{10};
  const TypeParam divisor = opaque_divisor;
  std::array<TypeParam, 64> result;
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = quotient(x.a[i], divisor);
  for (std::size_t i = 0; i < result.size(); ++i) {
    const volatile TypeParam numerator = x.a[i];
    const volatile TypeParam expected = numerator / opaque_divisor;
    EXPECT_EQ(result[i], expected) << i;
  }
}

}  // namespace
