// A cache knows by which rotary table its keys were rotated: layers with another one are refused, before anything is
// written.
#include "fixture.hpp"

namespace {

using namespace fixture;

using Layer = ls::Attention<float, ls::Dynamic, ls::Dynamic, ls::Rope<ls::HalfSplit>>;
using Plain = ls::Attention<float, ls::Dynamic, ls::Dynamic>;
const Shape shape{.hidden = 12, .heads = 4, .kv_heads = 2, .head_dim = 6};

ls::RopeTable<float> table(double base, Index positions) {
  return ls::RopeTable<float>(ls::RopeConfig{.rotary_dim = 6, .base = base, .positions = positions});
}

TEST(Tables, MixingThemIsRefused) {
  const auto layer = make_layer<Layer>(shape, table(10000, 64)), other = make_layer<Layer>(shape, table(10001, 64));
  const auto longer = make_layer<Layer>(shape, table(10000, 128));
  const auto plain = make_layer<Plain>(shape);
  const auto x = numbers<float>(3 * shape.hidden, 1);
  std::vector<float> y(x.size());
  const auto in = rows_of(x, 0, 3, shape.hidden);
  const auto out = rows_of(y, 0, 3, shape.hidden);

  auto cache = layer.make_cache(16);
  EXPECT_EQ(cache.table(), 0u);
  layer.forward(in, cache, out);
  EXPECT_NE(cache.table(), 0u);
  for (const ls::Status& status : {other.check(in, cache, out), plain.check(in, cache, out)}) {
    EXPECT_FALSE(status.ok());
    EXPECT_NE(std::string(status.message()).find("table"), std::string::npos) << status.message();
  }
  EXPECT_THROW(other.forward(in, cache, out), std::exception);
  EXPECT_EQ(cache.length(), 3);
  EXPECT_TRUE(longer.check(in, cache, out).ok()) << "the same angles, for more positions";
  auto copy = cache;
  EXPECT_FALSE(other.check(in, copy, out).ok()) << "copies know it too";

  cache.clear();
  EXPECT_TRUE(other.check(in, cache, out).ok()) << "an empty cache was rotated by none";
}

}  // namespace
