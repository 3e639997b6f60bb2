// Every position policy keeps the laws, and one that breaks a law is found.
#include <gtest/gtest.h>

#include "conformance/position.hpp"
#include "lockstep/position/none.hpp"
#include "lockstep/position/rope.hpp"

namespace ls = lockstep;
using conformance::SubjectName;
using ls::Index;

namespace {

template <class Style, class C, Index RotaryDim>
struct RopeSubject {
  using Compute = C;
  static constexpr const char* name = std::same_as<Style, ls::HalfSplit>
                                          ? (std::same_as<C, float> ? "HalfSplitFloat" : "HalfSplitDouble")
                                          : (std::same_as<C, float> ? "InterleavedFloat" : "InterleavedDouble");
  ls::Rope<Style, C> make() const {
    return ls::RopeTable<C>({.rotary_dim = RotaryDim, .base = 10000, .positions = 4096});
  }
};

struct LongRopeSubject {
  using Compute = float;
  static constexpr const char* name = "HalfSplitLong";
  ls::Rope<ls::HalfSplit, float> make() const {
    static const ls::RopeTable<float> table({.rotary_dim = 8, .base = 1e6, .positions = Index{1} << 20});
    return table;
  }
};

struct NoPositionSubject {
  using Compute = float;
  static constexpr const char* name = "NoPosition";
  ls::NoPosition make() const { return {}; }
};

// A user's rotation with a magnitude: every pair is turned by the same angle and scaled by two.
struct Spiral {
  static constexpr ls::PolicyKind policy_kind = ls::PolicyKind::position;
  void rotate(double* row, Index position) const noexcept {
    const double angle = 0.01 * static_cast<double>(position), a = row[0], b = row[1];
    row[0] = 2 * (a * std::cos(angle) - b * std::sin(angle));
    row[1] = 2 * (a * std::sin(angle) + b * std::cos(angle));
  }
  Index rotary_dim() const noexcept { return 2; }
  Index positions() const noexcept { return 5000; }
};
struct SpiralSubject {
  using Compute = double;
  static constexpr const char* name = "UserSpiral";
  static constexpr double magnitude = 2;
  Spiral make() const { return {}; }
};

using Subjects = testing::Types<NoPositionSubject, RopeSubject<ls::HalfSplit, float, 64>,
                                RopeSubject<ls::Interleaved, float, 64>, RopeSubject<ls::HalfSplit, double, 20>,
                                RopeSubject<ls::Interleaved, double, 2>, LongRopeSubject, SpiralSubject>;

// One law broken at a time.
struct Shifted : Spiral {
  void rotate(double* row, Index position) const noexcept { Spiral::rotate(row, position + 1); }
};
struct Growing : Spiral {
  void rotate(double* row, Index position) const noexcept {
    Spiral::rotate(row, position);
    row[0] *= 1 + 1e-6 * static_cast<double>(position);
  }
};
struct Squared : Spiral {
  void rotate(double* row, Index position) const noexcept { Spiral::rotate(row, position * position); }
};
struct TooWide : Spiral {
  void rotate(double* row, Index position) const noexcept {
    Spiral::rotate(row, position);
    row[4] = 0.5;
  }
};

}  // namespace

INSTANTIATE_TYPED_TEST_SUITE_P(Library, PositionLaws, Subjects, SubjectName);

TEST(PositionConformance, FindsEachBrokenLaw) {
  EXPECT_EQ(conformance::position_laws(SpiralSubject{}), "");
  EXPECT_NE(conformance::first_position_only_scales<double>(Shifted{}, 2), "");
  EXPECT_NE(conformance::first_position_only_scales<double>(Spiral{}, 1), "");
  EXPECT_NE(conformance::norms_scale_by_the_magnitude<double>(Growing{}, 2), "");
  EXPECT_NE(conformance::products_depend_on_the_distance<double>(Squared{}, 2), "");
  EXPECT_NE(conformance::the_rest_keeps_its_bits<double>(TooWide{}), "");
}
