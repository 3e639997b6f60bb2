// Every position policy keeps the laws, and one that breaks a law is found.
#include <gtest/gtest.h>

#include <vector>

#include "conformance/position.hpp"
#include "lockstep/plain.hpp"
#include "lockstep/position/rope.hpp"
#include "lockstep/position/scaling.hpp"

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

struct LongTableSubject {
  using Compute = float;
  static constexpr const char* name = "HalfSplitLong";
  ls::Rope<ls::HalfSplit, float> make() const {
    static const ls::RopeTable<float> table({.rotary_dim = 8, .base = 1e6, .positions = Index{1} << 20});
    return table;
  }
};

// Scaled tables. The magnitude is that of the compute type: a table rounds it once.
struct Linear {
  static constexpr const char* name = "LinearFloat";
  static auto scaling() { return ls::LinearScaling{.factor = 4}; }
};
struct DynamicNtk {
  static constexpr const char* name = "DynamicNtkFloat";
  static auto scaling() { return ls::DynamicNtkScaling{.factor = 2, .original_length = 2048, .length = 8192}; }
};
struct Yarn {
  static constexpr const char* name = "YarnFloat";
  static constexpr double magnitude = 0x1.7c3644p+0;  // 0.1 ln 128 + 1, to float
  static auto scaling() { return ls::YarnScaling{.factor = 128, .original_length = 4096}; }
};
struct Llama3 {
  static constexpr const char* name = "Llama3Float";
  static auto scaling() { return ls::Llama3Scaling{.factor = 8, .original_length = 1024}; }
};
struct LongRope {
  static constexpr const char* name = "LongRopeFloat";
  static constexpr double magnitude = 1.25;
  static auto scaling() {
    return ls::LongRopeScaling{.short_factors = std::vector<double>(32, 1.5),
                               .long_factors = std::vector<double>(32, 7.25),
                               .original_length = 1024,
                               .length = 4096,
                               .magnitude = magnitude};
  }
};
template <class Kind>
struct ScaledSubject : Kind {
  using Compute = float;
  ls::Rope<ls::HalfSplit, float> make() const {
    return ls::RopeTable<float>({.rotary_dim = 64, .positions = 4096}, Kind::scaling());
  }
};

template <class Style>
struct ProportionalSubject {
  using Compute = float;
  static constexpr const char* name = Style::adjacent ? "InterleavedProportional" : "HalfSplitProportional";
  ls::Rope<Style, float> make() const {
    return ls::RopeTable<float>({.rotary_dim = 24, .positions = 4096, .proportional_to = 64});
  }
};

// Each axis moves by the same number of positions from row to row, which is what the laws are about.
struct MultimodalSubject {
  using Compute = float;
  static constexpr const char* name = "HalfSplitMultimodal";
  ls::MultimodalRope<ls::HalfSplit, float> make() const {
    static const std::vector<Index> list = [] {
      std::vector<Index> rows;
      for (Index p = 0; p < 3000; ++p) rows.insert(rows.end(), {p, p, p});
      return rows;
    }();
    return {ls::RopeTable<float>({.rotary_dim = 64, .positions = 4096}),
            {8, 12, 12},
            ls::View<const Index, 2>::contiguous(list.data(), {3000, 3})};
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

using Subjects =
    testing::Types<NoPositionSubject, RopeSubject<ls::HalfSplit, float, 64>, RopeSubject<ls::Interleaved, float, 64>,
                   RopeSubject<ls::HalfSplit, double, 20>, RopeSubject<ls::Interleaved, double, 2>, LongTableSubject,
                   ScaledSubject<Linear>, ScaledSubject<DynamicNtk>, ScaledSubject<Yarn>, ScaledSubject<Llama3>,
                   ScaledSubject<LongRope>, ProportionalSubject<ls::HalfSplit>, ProportionalSubject<ls::Interleaved>,
                   MultimodalSubject, SpiralSubject>;

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
struct ScalingShift : Spiral {
  void shift(double* row, Index delta) const noexcept { rotate(row, delta); }
  ls::Status check_shift(Index) const noexcept { return {}; }
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
  EXPECT_NE(conformance::shifts_rotate_on<double>(ScalingShift{}), "");
}
