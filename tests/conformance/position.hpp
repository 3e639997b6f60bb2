// The laws of position policies, for ours and for a user's own.
//
//     struct MyPositionSubject {
//       static constexpr const char* name = "MyPosition";
//       using Compute = float;
//       static constexpr double magnitude = 1;                          // optional: what norms are scaled by
//       auto make() const { return MyPosition{...}; }
//     };
//     INSTANTIATE_TYPED_TEST_SUITE_P(Mine, PositionLaws, MyPositionSubject, conformance::SubjectName);
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "conformance/report.hpp"
#include "lockstep/concepts.hpp"

namespace conformance {

using lockstep::Index;

/// Numbers of a row that stand behind the rotated ones.
inline constexpr Index position_rest = 6;

template <class C>
std::vector<C> position_row(Index size, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<C> row(static_cast<std::size_t>(size));
  for (C& x : row) x = static_cast<C>(normal(random));
  return row;
}

template <class C>
double product(const std::vector<C>& a, const std::vector<C>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

/// Positions to try: the first, the last, and some between.
template <class P>
std::vector<Index> some_positions(const P& position) {
  const Index end = std::min(position.positions(), Index{1} << 20);
  std::vector<Index> some{0, 1, 2, 3, 7, 64, 255, 1000, end / 2, end - 2, end - 1};
  std::erase_if(some, [end](Index p) { return p < 0 || p >= end; });
  return some;
}

/// What rounding may do to a product of two rows, relative to their norms: a few roundings of the compute type, and the
/// rounding of the angle in double.
template <class C, class P>
double product_tolerance(const P& position) {
  return 8 * static_cast<double>(std::numeric_limits<C>::epsilon()) +
         static_cast<double>(std::min(position.positions(), Index{1} << 20)) * 0x1p-51;
}

template <class C, class P>
std::vector<C> rotated(const P& position, std::vector<C> row, Index at) {
  position.rotate(row.data(), at);
  return row;
}

template <class Subject>
constexpr double magnitude_of() {
  if constexpr (requires { Subject::magnitude; })
    return Subject::magnitude;
  else
    return 1;
}

/// Position 0 only scales by the stated magnitude.
template <class C, class P>
Report first_position_only_scales(const P& position, double magnitude) {
  const std::vector<C> row = position_row<C>(position.rotary_dim() + position_rest, 1);
  const std::vector<C> turned = rotated<C>(position, row, 0);
  for (Index d = 0; d < position.rotary_dim(); ++d) {
    const auto i = static_cast<std::size_t>(d);
    if (turned[i] != static_cast<C>(magnitude * static_cast<double>(row[i])))
      return said("position 0 makes ", turned[i], " of ", row[i], " (number ", d, ")");
  }
  return {};
}

/// Norms scale by the stated magnitude.
template <class C, class P>
Report norms_scale_by_the_magnitude(const P& position, double magnitude) {
  for (const Index p : some_positions(position))
    for (unsigned seed = 0; seed < 4; ++seed) {
      std::vector<C> row = position_row<C>(position.rotary_dim() + position_rest, seed);
      std::vector<C> turned = rotated<C>(position, row, p);
      row.resize(static_cast<std::size_t>(position.rotary_dim()));
      turned.resize(row.size());
      const double before = std::sqrt(product(row, row)), after = std::sqrt(product(turned, turned));
      if (std::abs(after - magnitude * before) > product_tolerance<C>(position) * (1 + magnitude * before))
        return said("the norm ", before, " becomes ", after, " at position ", p);
    }
  return {};
}

/// The product of a rotated query and key depends on their distance alone.
template <class C, class P>
Report products_depend_on_the_distance(const P& position, double magnitude) {
  const std::vector<C> q = position_row<C>(position.rotary_dim() + position_rest, 5);
  const std::vector<C> k = position_row<C>(position.rotary_dim() + position_rest, 6);
  const double allowed =
      product_tolerance<C>(position) * (1 + magnitude * magnitude) * std::sqrt(product(q, q) * product(k, k));
  for (const Index distance : some_positions(position)) {
    const double first = product(rotated<C>(position, q, distance), rotated<C>(position, k, 0));
    for (const Index p : some_positions(position)) {
      if (p < distance) continue;
      const double here = product(rotated<C>(position, q, p), rotated<C>(position, k, p - distance));
      if (!(std::abs(here - first) <= allowed))
        return said("at distance ", distance, " the product is ", first, " at position ", distance, " and ", here,
                    " at position ", p);
    }
  }
  return {};
}

/// Numbers from rotary_dim() on keep their bits.
template <class C, class P>
Report the_rest_keeps_its_bits(const P& position) {
  for (const Index p : some_positions(position)) {
    std::vector<C> row = position_row<C>(position.rotary_dim() + position_rest, 7);
    row[row.size() - 1] = std::numeric_limits<C>::quiet_NaN();
    row[row.size() - 2] = std::numeric_limits<C>::denorm_min();
    row[row.size() - 3] = C(-0.0);
    const std::vector<C> turned = rotated<C>(position, row, p);
    const auto from = static_cast<std::size_t>(position.rotary_dim());
    if (std::memcmp(row.data() + from, turned.data() + from, (row.size() - from) * sizeof(C)) != 0)
      return said("position ", p, " changes a number behind the first ", position.rotary_dim());
  }
  return {};
}

/// A rotation depends on row and position alone: the same bits again, and from a copy.
template <class C, class P>
Report rotations_repeat(const P& position) {
  const P copy = position;
  for (const Index p : some_positions(position)) {
    const std::vector<C> row = position_row<C>(position.rotary_dim() + position_rest, 8);
    const std::vector<C> once = rotated<C>(position, row, p), again = rotated<C>(copy, row, p);
    if (std::memcmp(once.data(), again.data(), once.size() * sizeof(C)) != 0)
      return said("other bits the second time at position ", p);
  }
  return {};
}

/// A shift rotates on without scaling, and leaves the rest alone. Nothing to hold where there is none.
template <class C, class P>
Report shifts_rotate_on(const P& position) {
  if constexpr (requires(C* row, Index n) {
                  position.shift(row, n);
                  position.check_shift(n);
                }) {
    const std::vector<Index> all = some_positions(position);
    for (const Index from : all)
      for (const Index to : all) {
        const std::vector<C> row = position_row<C>(position.rotary_dim() + position_rest, 9);
        std::vector<C> moved = rotated<C>(position, row, from);
        const std::vector<C> direct = rotated<C>(position, row, to);
        if (!position.check_shift(to - from).ok()) return said("a shift from ", from, " to ", to, " is refused");
        position.shift(moved.data(), to - from);
        const double allowed = product_tolerance<C>(position) * std::sqrt(product(direct, direct));
        for (std::size_t i = 0; i < row.size(); ++i)
          if (!(std::abs(static_cast<double>(moved[i]) - static_cast<double>(direct[i])) <= allowed))
            return said("number ", i, " shifted from position ", from, " to ", to, " is ", moved[i], ", not ",
                        direct[i]);
        const auto rest = static_cast<std::size_t>(position.rotary_dim());
        if (std::memcmp(moved.data() + rest, row.data() + rest, (row.size() - rest) * sizeof(C)) != 0)
          return said("a shift changes a number behind the first ", rest);
      }
  }
  return {};
}

/// All laws.
template <class Subject>
Report position_laws(const Subject& subject) {
  using C = typename Subject::Compute;
  constexpr double magnitude = magnitude_of<Subject>();
  const auto position = subject.make();
  static_assert(lockstep::Position<std::remove_const_t<decltype(position)>, C>);
  for (Report r :
       {first_position_only_scales<C>(position, magnitude), norms_scale_by_the_magnitude<C>(position, magnitude),
        products_depend_on_the_distance<C>(position, magnitude), the_rest_keeps_its_bits<C>(position),
        rotations_repeat<C>(position), shifts_rotate_on<C>(position)})
    if (!r.empty()) return r;
  return {};
}

}  // namespace conformance

template <class Subject>
class PositionLaws : public testing::Test {
 protected:
  using C = typename Subject::Compute;
  static constexpr double magnitude = conformance::magnitude_of<Subject>();
  Subject subject;
};
TYPED_TEST_SUITE_P(PositionLaws);
TYPED_TEST_P(PositionLaws, FirstPositionOnlyScales) {
  EXPECT_EQ(conformance::first_position_only_scales<typename TypeParam::Compute>(this->subject.make(), this->magnitude),
            "");
}
TYPED_TEST_P(PositionLaws, NormsScaleByTheMagnitude) {
  EXPECT_EQ(
      conformance::norms_scale_by_the_magnitude<typename TypeParam::Compute>(this->subject.make(), this->magnitude),
      "");
}
TYPED_TEST_P(PositionLaws, ProductsDependOnTheDistance) {
  EXPECT_EQ(
      conformance::products_depend_on_the_distance<typename TypeParam::Compute>(this->subject.make(), this->magnitude),
      "");
}
TYPED_TEST_P(PositionLaws, TheRestKeepsItsBits) {
  EXPECT_EQ(conformance::the_rest_keeps_its_bits<typename TypeParam::Compute>(this->subject.make()), "");
}
TYPED_TEST_P(PositionLaws, RotationsRepeat) {
  EXPECT_EQ(conformance::rotations_repeat<typename TypeParam::Compute>(this->subject.make()), "");
}
TYPED_TEST_P(PositionLaws, ShiftsRotateOn) {
  EXPECT_EQ(conformance::shifts_rotate_on<typename TypeParam::Compute>(this->subject.make()), "");
}
REGISTER_TYPED_TEST_SUITE_P(PositionLaws, FirstPositionOnlyScales, NormsScaleByTheMagnitude,
                            ProductsDependOnTheDistance, TheRestKeepsItsBits, RotationsRepeat, ShiftsRotateOn);
