#include <gtest/gtest.h>

#include <cmath>

#include "conformance/logit.hpp"
#include "conformance/mask.hpp"
#include "custom_mask/every_nth.hpp"
#include "custom_mask/length_scaled.hpp"
#include "lockstep/mask/compose.hpp"
#include "lockstep/mask/causal.hpp"

namespace {

namespace ls = lockstep;

template <int N>
struct EveryNthSubject {
  static constexpr const char* name = "EveryNth";
  auto make() const { return custom::EveryNth{.n = N}; }
  bool sees(ls::QueryRow q, ls::Index key) const { return key <= q.place && (q.place - key) % N == 0; }
};
struct StridedSubject {
  [[maybe_unused]] static constexpr const char* name = "Strided";
  auto make() const { return ls::SlidingWindow{.window = 7} | custom::EveryNth{.n = 7}; }
  bool sees(ls::QueryRow q, ls::Index key) const {
    return key <= q.place && (q.place - key < 7 || (q.place - key) % 7 == 0);
  }
};
using Masks =
    testing::Types<EveryNthSubject<1>, EveryNthSubject<2>, EveryNthSubject<13>, EveryNthSubject<300>, StridedSubject>;
INSTANTIATE_TYPED_TEST_SUITE_P(Custom, MaskLaws, Masks);

template <class C>
struct LengthScaledSubject {
  using Compute = C;
  auto make() const { return custom::LengthScaled{.strength = 0.5}; }
};
using Logits = testing::Types<LengthScaledSubject<float>, LengthScaledSubject<double>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Custom, LogitLaws, Logits);

TEST(EveryNth, RefusesToCountByLessThanOne) {
  EXPECT_FALSE(custom::EveryNth{}.check().ok());
  EXPECT_FALSE(custom::EveryNth{.n = -1}.check().ok());
  EXPECT_TRUE(custom::EveryNth{.n = 1}.check().ok());
}

TEST(EveryNth, NamesBlocksWithoutAVisibleKey) {
  const custom::EveryNth mask{.n = 100};
  EXPECT_EQ(mask.block({.place = 250}, {51, 150}), ls::Visibility::none);
  EXPECT_EQ(mask.block({.place = 250}, {50, 150}), ls::Visibility::some);
  EXPECT_EQ(mask.block({.place = 250}, {51, 151}), ls::Visibility::some);
}

TEST(LengthScaled, GrowsWithTheLogarithmOfTheRowsLength) {
  const custom::LengthScaled logits{.strength = 0.5};
  EXPECT_EQ(logits.apply(3.0, {.place = 0}, 0), 0);
  EXPECT_NEAR(logits.apply(3.0, {.place = 99}, 5), 1.5 * std::log(100.0), 1e-14);
  EXPECT_NEAR(logits.apply(3.0, {.row = 4, .place = 999}, 5), 1.5 * std::log(1000.0), 1e-14);
}

TEST(LengthScaled, RefusesStrengthsThatAreNotPositiveAndFinite) {
  for (const double strength : {0.0, -1.0, HUGE_VAL, std::nan("")})
    EXPECT_FALSE(custom::LengthScaled{.strength = strength}.check().ok()) << strength;
}

}  // namespace
