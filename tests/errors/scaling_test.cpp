// Every wrong number of a frequency scaling, of proportional rotary and of multimodal sections.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <limits>
#include <vector>

#include "errors/refusal.hpp"
#include "lockstep/position/rope.hpp"
#include "lockstep/position/scaling.hpp"

namespace ls = lockstep;
using errors::invalid;
using ls::Index;

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();

const float numbers[6] = {};

template <class S>
std::function<void()> table(S scaling, ls::RopeConfig config = {.rotary_dim = 8, .positions = 4}) {
  return [=] { const ls::RopeTable<float> made(config, scaling); };
}
ls::LongRopeScaling long_rope(std::size_t short_ones, std::size_t long_ones, double factor = 2) {
  return {.short_factors = std::vector<double>(short_ones, factor),
          .long_factors = std::vector<double>(long_ones, factor),
          .original_length = 100,
          .extended_length = 200};
}
ls::LongRopeScaling long_rope(Index original, Index extended, Index length, std::optional<double> magnitude = {}) {
  auto scaling = long_rope(4, 4);
  scaling.original_length = original;
  scaling.extended_length = extended;
  scaling.length = length;
  scaling.magnitude = magnitude;
  return scaling;
}
struct Broken {
  double frequency, magnitude;
  ls::Status check(const ls::RopeConfig&) const noexcept { return {}; }
  double apply(const ls::RopeConfig&, std::span<double> frequencies) const noexcept {
    frequencies[1] = frequency;
    return magnitude;
  }
};
std::function<void()> multimodal(Index time, Index height, Index width, Index axes = 3, Index tokens = 2) {
  return [=] {
    static const Index triples[6] = {};
    const ls::MultimodalRope<ls::HalfSplit, float> made(ls::RopeTable<float>({.rotary_dim = 8, .positions = 4}),
                                                        {time, height, width},
                                                        ls::View<const Index, 2>::contiguous(triples, {tokens, axes}));
  };
}
std::function<void()> borrowed(const float* cos, std::array<Index, 2> cos_stride, Index sin_rows,
                               std::array<Index, 2> sin_stride) {
  return [=] { (void)ls::RopeTable<float>::borrowed({cos, {2, 3}, cos_stride}, {numbers, {sin_rows, 3}, sin_stride}); };
}
std::function<void()> prepared(Index proportional_to, Index head_dim) {
  return [=] {
    ls::Rope<ls::HalfSplit, float> rope{
        ls::RopeTable<float>({.rotary_dim = 4, .positions = 4, .proportional_to = proportional_to})};
    rope.prepare(head_dim);
  };
}

struct Row {
  const char* name;
  errors::Refusal refusal;
  std::function<void()> call;
};

// clang-format off
const Row rows[] = {
    {"LinearFactorBelowOne", {invalid, "factor", "0.5", "from 1"}, table(ls::LinearScaling{.factor = 0.5})},
    {"LinearFactorNan", {invalid, "factor", "nan", "finite"}, table(ls::LinearScaling{.factor = nan})},
    {"LinearFactorInfinite", {invalid, "factor", "inf", "finite"}, table(ls::LinearScaling{.factor = infinity})},
    {"DynamicFactorBelowOne", {invalid, "factor", "0.99", "from 1"}, table(ls::DynamicNtkScaling{.factor = 0.99, .original_length = 100, .length = 1})},
    {"DynamicWithoutLength", {invalid, "original_length", "0", "1 to"}, table(ls::DynamicNtkScaling{.factor = 2, .length = 1})},
    {"DynamicOfNegativeLength", {invalid, "length", "-1", "0 to"}, table(ls::DynamicNtkScaling{.factor = 2, .original_length = 100, .length = -1})},
    {"YarnFactorBelowOne", {invalid, "factor", "-4", "from 1"}, table(ls::YarnScaling{.factor = -4, .original_length = 4096})},
    {"YarnWithoutLength", {invalid, "original_length", "0", "1 to"}, table(ls::YarnScaling{.factor = 4})},
    {"YarnLengthBeyond32Bits", {invalid, "original_length", "9223372036854775807", "2^31"}, table(ls::YarnScaling{.factor = 4, .original_length = std::numeric_limits<Index>::max()})},
    {"YarnBetasOutOfOrder", {invalid, "beta_fast, beta_slow", "1, 32", "beta_fast >= beta_slow"}, table(ls::YarnScaling{.factor = 4, .original_length = 4096, .beta_fast = 1, .beta_slow = 32})},
    {"YarnBetaZero", {invalid, "beta_fast, beta_slow", "32, 0", "> 0"}, table(ls::YarnScaling{.factor = 4, .original_length = 4096, .beta_slow = 0})},
    {"YarnBetaNan", {invalid, "beta_fast, beta_slow", "nan, 1", "finite"}, table(ls::YarnScaling{.factor = 4, .original_length = 4096, .beta_fast = nan})},
    {"YarnMagnitudeZero", {invalid, "magnitude", "0", "positive"}, table(ls::YarnScaling{.factor = 4, .original_length = 4096, .magnitude = 0})},
    {"YarnBaseOne", {invalid, "base", "1", "above 1"}, table(ls::YarnScaling{.factor = 4, .original_length = 4096}, {.rotary_dim = 8, .base = 1, .positions = 4})},
    {"YarnLengthWithoutATurn", {invalid, "original_length", "1", "beta_slow 1 times"}, table(ls::YarnScaling{.factor = 4, .original_length = 1}, {.rotary_dim = 64, .positions = 4})},
    {"Llama3FactorBelowOne", {invalid, "factor", "0", "from 1"}, table(ls::Llama3Scaling{.factor = 0})},
    {"Llama3WithoutLength", {invalid, "original_length", "0", "1 to"}, table(ls::Llama3Scaling{.original_length = 0})},
    {"Llama3BandsOutOfOrder", {invalid, "low_frequency_factor, high_frequency_factor", "4, 1", "low < high"}, table(ls::Llama3Scaling{.low_frequency_factor = 4, .high_frequency_factor = 1})},
    {"Llama3BandsEqual", {invalid, "low_frequency_factor, high_frequency_factor", "4, 4", "low < high"}, table(ls::Llama3Scaling{.low_frequency_factor = 4})},
    {"LongRopeFewShortFactors", {invalid, "short_factors", "3 factors", "rotary_dim/2 = 4"}, table(long_rope(std::size_t{3}, std::size_t{4}))},
    {"LongRopeManyLongFactors", {invalid, "long_factors", "8 factors", "rotary_dim/2 = 4"}, table(long_rope(std::size_t{4}, std::size_t{8}))},
    {"LongRopeFactorZero", {invalid, "short_factors", "0", "positive"}, table(long_rope(std::size_t{4}, std::size_t{4}, 0))},
    {"LongRopeFactorNan", {invalid, "short_factors", "nan", "finite"}, table(long_rope(std::size_t{4}, std::size_t{4}, nan))},
    {"LongRopeLengthOne", {invalid, "original_length", "1", "2 to"}, table(long_rope(Index{1}, 200, 0))},
    {"LongRopeOfNegativeLength", {invalid, "length", "-5", "0 to"}, table(long_rope(Index{100}, 200, -5))},
    {"LongRopeShortened", {invalid, "extended_length", "99", "100 to"}, table(long_rope(Index{100}, 99, 0))},
    {"LongRopeMagnitudeNegative", {invalid, "magnitude", "-1", "positive"}, table(long_rope(Index{100}, 200, 0, -1))},
    {"FrequencyNegative", {invalid, "scaling", "-0.5", "from 0"}, table(Broken{-0.5, 1})},
    {"FrequencyNan", {invalid, "scaling", "nan", "from 0"}, table(Broken{nan, 1})},
    {"FrequencyTooHigh", {invalid, "scaling", "1e+09", "2^31"}, table(Broken{1e9, 1})},
    {"MagnitudeInfinite", {invalid, "magnitude", "inf", "finite"}, table(Broken{0.5, infinity})},
    {"ProportionalToLess", {invalid, "proportional_to", "6", "from rotary_dim 8"}, table(ls::Unscaled{}, {.rotary_dim = 8, .proportional_to = 6})},
    {"ProportionalToOdd", {invalid, "proportional_to", "9", "even"}, table(ls::Unscaled{}, {.rotary_dim = 8, .proportional_to = 9})},
    {"ProportionalToNegative", {invalid, "proportional_to", "-16", "0 or even"}, table(ls::Unscaled{}, {.rotary_dim = 8, .proportional_to = -16})},
    {"ProportionalWithMagnitude", {invalid, "proportional_to", "1.5", "allowed 1"}, table(ls::YarnScaling{.factor = 4, .original_length = 4096, .magnitude = 1.5}, {.rotary_dim = 8, .proportional_to = 16})},
    {"ProportionalToAnotherHead", {invalid, "proportional_to", "8", "head_dim 16"}, prepared(8, 16)},
    {"BorrowedNull", {invalid, "cos", "null", "[2, 3]"}, borrowed(nullptr, {3, 1}, 2, {3, 1})},
    {"BorrowedSinesOfAnotherLength", {invalid, "sin", "[1, 3]", "[2, 3]"}, borrowed(numbers, {3, 1}, 1, {3, 1})},
    {"BorrowedCosinesWithGaps", {invalid, "cos", "2 apart", "1"}, borrowed(numbers, {1, 2}, 2, {3, 1})},
    {"BorrowedSinesWithGaps", {invalid, "sin", "2 apart", "1"}, borrowed(numbers, {3, 1}, 2, {1, 2})},
    {"SectionsTooMany", {invalid, "sections", "1, 2, 2", "rotary_dim/2 = 4"}, multimodal(1, 2, 2)},
    {"SectionsTooFew", {invalid, "sections", "1, 1, 1", "rotary_dim/2 = 4"}, multimodal(1, 1, 1)},
    {"SectionNegative", {invalid, "sections", "-1, 3, 2", "rotary_dim/2 = 4"}, multimodal(-1, 3, 2)},
    {"SectionsThatOverflow", {invalid, "sections", "", "rotary_dim/2 = 4"}, multimodal(std::numeric_limits<Index>::max(), 3, 2)},
    {"PositionsOfTwoAxes", {invalid, "positions", "[2, 2]", "[2, 3]"}, multimodal(1, 1, 2, 2)},
    {"PositionsOfNegativeTokens", {invalid, "positions", "[-2, 3]", "from 0"}, multimodal(1, 1, 2, 3, -2)},
    {"MultimodalWithoutTable", {invalid, "table", "empty", "with positions"}, [] { const ls::MultimodalRope<ls::HalfSplit, float> made({}, {0, 0, 0}, nullptr); }},
};
// clang-format on

class PositionRefuses : public testing::TestWithParam<Row> {};

TEST_P(PositionRefuses, WrongNumbers) {
  EXPECT_TRUE(errors::is_refusal(errors::outcome_of(GetParam().call), GetParam().refusal));
}

INSTANTIATE_TEST_SUITE_P(Errors, PositionRefuses, testing::ValuesIn(rows), errors::RowName());

TEST(PositionErrors, LeaveWhatIsAllowed) {
  EXPECT_NO_THROW(table(ls::LinearScaling{.factor = 1})());
  EXPECT_NO_THROW(table(ls::YarnScaling{.factor = 1, .original_length = 4096, .beta_fast = 1})());
  EXPECT_NO_THROW(table(long_rope(Index{100}, 0, 0, 1))());
  EXPECT_NO_THROW(table(ls::LinearScaling{.factor = 2}, {.rotary_dim = 8, .proportional_to = 16})());
  EXPECT_NO_THROW(table(Broken{0.5e9, 1})());
  EXPECT_NO_THROW(multimodal(0, 4, 0)());
  EXPECT_NO_THROW(prepared(16, 16)());
  EXPECT_NO_THROW(prepared(0, 16)());
}

}  // namespace
