// Identities: equal for policies that rotate alike, different for any others.
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "lockstep/plain.hpp"
#include "lockstep/position/rope.hpp"
#include "lockstep/position/scaling.hpp"

namespace ls = lockstep;
using ls::Index;

namespace {

using Half = ls::Rope<ls::HalfSplit, float>;
using Pairs = ls::Rope<ls::Interleaved, float>;

std::uint64_t table_id(const ls::RopeConfig& config) { return ls::RopeTable<float>(config).identity(); }
template <class S>
std::uint64_t table_id(const ls::RopeConfig& config, const S& scaling) {
  return ls::RopeTable<float>(config, scaling).identity();
}

TEST(Identity, IsNoneWithoutATable) {
  EXPECT_EQ(ls::NoPosition{}.identity(), 0U);
  EXPECT_EQ(Half{}.identity(), 0U);
  EXPECT_EQ(ls::RopeTable<float>{}.identity(), 0U);
}

TEST(Identity, DoesNotKnowTheNumberOfPositions) {
  const auto id = table_id({.rotary_dim = 64, .positions = 10});
  EXPECT_NE(id, 0U);
  EXPECT_EQ(id, table_id({.rotary_dim = 64, .positions = 4096}));
  EXPECT_EQ(id, table_id({.rotary_dim = 64, .positions = 0}));
  EXPECT_EQ(id, table_id({.rotary_dim = 64, .positions = 10, .proportional_to = 64}));
  EXPECT_EQ(id, table_id({.rotary_dim = 64, .positions = 10}, ls::LinearScaling{.factor = 1}));
  EXPECT_EQ(id, ls::RopeTable<double>({.rotary_dim = 64, .positions = 10}).identity());
}

TEST(Identity, KnowsAllElse) {
  const ls::RopeConfig plain{.rotary_dim = 64, .positions = 10};
  const ls::YarnScaling yarn{.factor = 4, .original_length = 4096};
  ls::YarnScaling switched_off = yarn, exact = yarn;
  switched_off.magnitude = 1;
  exact.ramp = ls::YarnRamp::exact;
  const std::vector<std::uint64_t> ids{table_id(plain),
                                       table_id({.rotary_dim = 62, .positions = 10}),
                                       table_id({.rotary_dim = 64, .base = 10001, .positions = 10}),
                                       table_id({.rotary_dim = 64, .positions = 10, .proportional_to = 128}),
                                       table_id({.rotary_dim = 2, .positions = 10}),
                                       table_id({.rotary_dim = 2, .positions = 10, .proportional_to = 4}),
                                       table_id(plain, ls::LinearScaling{.factor = 2}),
                                       table_id(plain, ls::LinearScaling{.factor = 4}),
                                       table_id(plain, yarn),
                                       table_id(plain, switched_off),
                                       table_id(plain, exact)};
  EXPECT_EQ(std::set<std::uint64_t>(ids.begin(), ids.end()).size(), ids.size());
}

TEST(Identity, KnowsTheStyleAndTheSections) {
  const ls::RopeTable<float> table({.rotary_dim = 16, .positions = 10});
  const Index list[2][3] = {{1, 2, 3}, {4, 5, 6}};
  const auto view = [&](Index row) { return ls::View<const Index, 2>::contiguous(list[row], {1, 3}); };
  using Multimodal = ls::MultimodalRope<ls::HalfSplit, float>;
  EXPECT_EQ(Half(table).identity(), Half(ls::RopeTable<float>({.rotary_dim = 16, .positions = 20})).identity());
  EXPECT_EQ(Multimodal(table, {2, 3, 3}, view(0)).identity(), Multimodal(table, {2, 3, 3}, view(1)).identity());
  const std::set<std::uint64_t> ids{0,
                                    Half(table).identity(),
                                    Pairs(table).identity(),
                                    Multimodal(table, {2, 3, 3}, view(0)).identity(),
                                    Multimodal(table, {3, 2, 3}, view(0)).identity(),
                                    Multimodal(table, {8, 0, 0}, view(0)).identity(),
                                    ls::MultimodalRope<ls::Interleaved, float>(table, {2, 3, 3}, view(0)).identity()};
  EXPECT_EQ(ids.size(), 7U);
}

TEST(Identity, OfGivenNumbersIsAllOfThem) {
  const float a[6] = {1, 2, 3, 4, 5, 6}, b[6] = {1, 2, 3, 4, 5, 7};
  const auto id = [](const float* cos, const float* sin, Index rows, Index pairs) {
    return ls::RopeTable<float>(ls::View<const float, 2>::contiguous(cos, {rows, pairs}),
                                ls::View<const float, 2>::contiguous(sin, {rows, pairs}))
        .identity();
  };
  EXPECT_EQ(id(a, b, 3, 2), id(a, b, 3, 2));
  const std::set<std::uint64_t> ids{0,
                                    id(a, b, 3, 2),
                                    id(b, a, 3, 2),
                                    id(a, a, 3, 2),
                                    id(a, b, 2, 3),
                                    id(a, b, 2, 2),
                                    id(a, b, 6, 1),
                                    table_id({.rotary_dim = 4, .positions = 3})};
  EXPECT_EQ(ids.size(), 8U);
}

// A cache that is stored with the number must be recognised by another build on another machine: the frequencies are
// the same to the bit.
TEST(Identity, IsTheSameEverywhere) {
  EXPECT_EQ(Half(ls::RopeTable<float>({.rotary_dim = 8, .base = 10000, .positions = 1})).identity(),
            0xed558154015e53afU);
  const ls::RopeConfig config{.rotary_dim = 128, .base = 500000, .positions = 1};
  EXPECT_EQ(table_id(config), 0xcf4f5257271808f4U);
  EXPECT_EQ(table_id(config, ls::LinearScaling{.factor = 3}), 0x4f4d4cb4e584ec9dU);
  EXPECT_EQ(table_id(config, ls::DynamicNtkScaling{.factor = 3, .original_length = 2048, .length = 5000}),
            0xf707aece87a81748U);
  EXPECT_EQ(table_id(config, ls::YarnScaling{.factor = 40, .original_length = 4096}), 0x8fe769d640699711U);
  EXPECT_EQ(table_id(config, ls::YarnScaling{.factor = 40, .original_length = 4096, .ramp = ls::YarnRamp::exact}),
            0x80e193f089b5195fU);
  EXPECT_EQ(table_id(config, ls::Llama3Scaling{}), 0xe86f13c4e633b369U);
  ls::LongRopeScaling long_rope{.original_length = 4096, .extended_length = 131072, .length = 5000};
  long_rope.short_factors.assign(64, 1.1);
  long_rope.long_factors.assign(64, 12.3);
  EXPECT_EQ(table_id(config, long_rope), 0xc456268026c03310U);
}

}  // namespace
