// Layers of different policies over one owner of their caches, which reads the position once a forward.
#include "fixture.hpp"

namespace {

using namespace fixture;

constexpr Index hidden = 12, tokens = 280;
using Rotated = ls::Attention<float, 4, 2, ls::Rope<ls::HalfSplit>>;
using Stored16 = ls::Attention<float, ls::Dynamic, ls::Dynamic, ls::ContiguousCache<Eigen::bfloat16>, ls::Materialized>;
using Caches = ls::ModelCache<Rotated::Cache, Stored16::Cache>;

class ModelCache : public ::testing::Test {
 protected:
  Rotated first =
      make_layer<Rotated>({.hidden = hidden, .heads = 4, .kv_heads = 2, .head_dim = 6}, rope<float>(6, tokens));
  Stored16 second = make_layer<Stored16>({.hidden = hidden, .heads = 3, .kv_heads = 3, .head_dim = 8});
  Rotated third = make_layer<Rotated>({.hidden = hidden, .heads = 4, .kv_heads = 2, .head_dim = 4, .v_head_dim = 10},
                                      rope<float>(4, tokens));
  std::vector<float> x = numbers<float>(tokens * hidden, 141);

  Caches make(Index capacity) const {
    Caches caches;
    caches.add(first.make_cache(capacity));
    caches.add(second.make_cache(capacity));
    caches.add(third.make_cache(capacity));
    return caches;
  }
  std::vector<float> forward(Caches& caches, Index first_row, Index rows) const {
    std::vector<float> a(at(rows * hidden)), b(a.size()), c(a.size());
    const auto step = caches.begin(rows);
    first.forward(rows_of(x, first_row, rows, hidden), caches.layer(0), rows_of(a, 0, rows, hidden),
                  {.offset = step.offset});
    second.forward(rows_of(std::as_const(a), 0, rows, hidden), caches.layer<Stored16::Cache>(1),
                   rows_of(b, 0, rows, hidden), {.offset = step.offset});
    third.forward(rows_of(std::as_const(b), 0, rows, hidden), caches.layer(2), rows_of(c, 0, rows, hidden),
                  {.offset = step.offset});
    return c;
  }
  std::vector<float> full_forward() const { return full(third, full(second, full(first, x).y).y).y; }
};

TEST_F(ModelCache, GivesTheBitsOfTheFullForwardUnderAnyChunks) {
  const auto expected = full_forward();
  for (const auto& plan : {std::vector<Index>{tokens}, steps(tokens, 1), random_plan(tokens, 11)}) {
    auto caches = make(tokens);
    std::vector<float> y;
    for (const Index rows : plan) {
      const auto chunk = forward(caches, caches.length(), rows);
      y.insert(y.end(), chunk.begin(), chunk.end());
    }
    EXPECT_TRUE(same_bits(expected, y, hidden)) << plan_name(plan);
  }
}

TEST_F(ModelCache, RewindsAllLayersTogether) {
  const auto expected = full_forward();
  auto caches = make(tokens);
  forward(caches, 0, 100);
  forward(caches, 150, 9);  // a draft that is thrown away
  caches.truncate(100);
  EXPECT_EQ(caches.length(), 100);
  EXPECT_TRUE(same_bits(part(expected, 100 * hidden, 50 * hidden), forward(caches, 100, 50), hidden));
  caches.clear();
  EXPECT_TRUE(same_bits(part(expected, 0, 20 * hidden), forward(caches, 0, 20), hidden));
}

TEST_F(ModelCache, AForwardThatFailedBetweenLayersIsRolledBack) {
  const auto expected = full_forward();
  auto caches = make(tokens);
  forward(caches, 0, 10);
  const auto step = caches.begin(5);
  std::vector<float> y(at(5 * hidden));
  first.forward(rows_of(x, 10, 5, hidden), caches.layer(0), rows_of(y, 0, 5, hidden), {.offset = step.offset});
  EXPECT_FALSE(caches.check_begin(5).ok());
  EXPECT_THROW(caches.begin(5), std::invalid_argument);
  caches.rollback(step);
  EXPECT_TRUE(same_bits(part(expected, 10 * hidden, 5 * hidden), forward(caches, 10, 5), hidden));
}

TEST_F(ModelCache, ALayerAStepAheadIsRefused) {
  auto caches = make(tokens);
  const auto step = caches.begin(1);
  std::vector<float> y(at(hidden), 7);
  first.forward(rows_of(x, 0, 1, hidden), caches.layer(0), rows_of(y, 0, 1, hidden), {.offset = step.offset});
  const auto written = y;
  EXPECT_THROW(
      first.forward(rows_of(x, 0, 1, hidden), caches.layer(0), rows_of(y, 0, 1, hidden), {.offset = step.offset}),
      std::invalid_argument);
  EXPECT_EQ(caches.layer(0).length(), 1);
  EXPECT_EQ(y, written);
}

TEST_F(ModelCache, ALayerThatIsFullRefusesTheWholeStep) {
  Caches caches;
  caches.add(first.make_cache(20));
  caches.add(second.make_cache(8));
  EXPECT_NO_THROW(caches.begin(8));
  EXPECT_THROW(caches.begin(9), std::length_error);
  EXPECT_EQ(caches.length(), 0);
}

// skyzh/tiny-llm#46, Blaizzy/mlx-vlm#1983: the position was advanced twice, or read again while the cache grew. Both
// layers store the key (cos p, sin p) for the key (1, 0) at position p.
TEST(RotaryPosition, IsReadOnceForAllLayers) {
  using Layer = ls::Attention<float, 1, 1, ls::Rope<ls::HalfSplit>>;
  const std::vector<float> one{1}, unit{1, 0}, both{1, 1};
  const ls::LayerWeights<float> weights{.query = rows_of(unit, 0, 2, 1),
                                        .key = rows_of(unit, 0, 2, 1),
                                        .value = rows_of(unit, 0, 2, 1),
                                        .output = rows_of(both, 0, 1, 2)};
  const ls::RopeTable<float> table({.rotary_dim = 2, .positions = 64});
  const Layer layer({.hidden = 1, .head_dim = 2}, weights, table);
  for (const auto& plan : {std::vector<Index>{60}, steps(60, 1), {5, 1, 54}}) {
    ls::ModelCache<Layer::Cache> caches;
    caches.add(layer.make_cache(60));
    caches.add(layer.make_cache(60));
    for (const Index rows : plan) {
      const std::vector<float> x(at(rows), 1.0F);
      std::vector<float> y(x.size());
      const auto step = caches.begin(rows);
      for (Index i = 0; i < 2; ++i)
        layer.forward(rows_of(x, 0, rows, 1), caches.layer(i), rows_of(y, 0, rows, 1), {.offset = step.offset});
    }
    for (Index i = 0; i < 2; ++i) {
      Outcome<Layer> stored;
      export_cache(caches.layer(i), stored);
      for (Index p = 0; p < 60; ++p) {
        EXPECT_NEAR(static_cast<double>(stored.keys[at(2 * p)]), std::cos(static_cast<double>(p)), 0x1p-25) << p;
        EXPECT_NEAR(static_cast<double>(stored.keys[at(2 * p + 1)]), std::sin(static_cast<double>(p)), 0x1p-25) << p;
      }
    }
  }
}

}  // namespace
