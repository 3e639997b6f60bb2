// All kinds of policies in one layer, through every cache: one sequence, many ways to run it, the same bits.
#include <functional>
#include <optional>

#include "fixture.hpp"

namespace {

using namespace fixture;

constexpr Index window = 300, sinks = 5, tokens = 700;
const Shape shape{.hidden = 16, .heads = 4, .kv_heads = 2, .head_dim = 8};

template <class Kernel, class Cache>
using All = ls::Attention<float, ls::Dynamic, ls::Dynamic, ls::Rope<ls::HalfSplit>, ls::SlidingWindow, ls::SoftCap,
                          ls::Alibi<>, ls::LearnedSinks<>, ls::QkNorm<ls::BeforeRope>, Kernel, Cache>;

template <class Layer>
Layer make() {
  static const auto table = ls::RopeTable<float>(ls::RopeConfig{.rotary_dim = 8, .base = 10000, .positions = 2048},
                                                 ls::YarnScaling{.factor = 4, .original_length = 512});
  const auto sink = numbers<float>(shape.heads, 90), query_norm = numbers<float>(shape.head_dim, 91),
             key_norm = numbers<float>(shape.head_dim, 92);
  const auto vector = [](const std::vector<float>& v) { return ls::View<const float, 1>(v); };
  return make_layer<Layer>(shape, table, ls::SlidingWindow{window, sinks}, ls::SoftCap{.cap = 20},
                           typename Layer::Sinks(vector(sink)),
                           typename Layer::Norm(vector(query_norm), vector(key_norm)));
}

// How each kind of cache is made for a sequence of `most` tokens.
template <class Cache>
struct Make;
template <class S>
struct Make<ls::ContiguousCache<S>> {
  template <class Layer>
  ls::ContiguousCache<S> operator()(const Layer& layer, Index most) {
    return ls::ContiguousCache<S>(layer.cache_shape(), most);
  }
};
template <class S>
struct Make<ls::RingCache<S>> {
  template <class Layer>
  ls::RingCache<S> operator()(const Layer& layer, Index) {
    return ls::RingCache<S>(layer.cache_shape(), ls::RingSize{window, 64, sinks});
  }
};
template <class S>
struct Make<ls::PagedCache<S>> {
  template <class Layer>
  ls::PagedCache<S> operator()(const Layer& layer, Index most) {
    if (!pool) {
      pool.emplace(layer.cache_shape(), 40);
      // Pages in no order: what was taken in between was given back.
      std::vector<ls::PagedCache<S>> scattered;
      const std::vector<float> row(at(256 * shape.kv_heads * shape.head_dim));
      const auto rows = ls::View<const float, 3>::contiguous(row.data(), {256, shape.kv_heads, shape.head_dim});
      for (int i = 0; i < 12; ++i) scattered.emplace_back(*pool).append(rows, rows);
      for (int i = 0; i < 12; i += 2) scattered[at(i * 5 % 12)].clear();
      kept = std::move(scattered);
    }
    return ls::PagedCache<S>(*pool, most);
  }
  std::optional<ls::PagePool<S>> pool;
  std::vector<ls::PagedCache<S>> kept;
};

template <class Layer, class Cache>
void decode(const Layer& layer, Cache& cache, const std::vector<float>& x, const std::vector<Index>& plan,
            std::vector<float>& y) {
  Index first = 0;
  for (const Index rows : plan) {
    layer.forward(rows_of(x, first, rows, shape.hidden), cache, rows_of(y, first, rows, shape.hidden));
    first += rows;
  }
}

template <class C>
class Together : public ::testing::Test {};
using Caches = ::testing::Types<ls::RingCache<float>, ls::PagedCache<float>, ls::RingCache<std::int8_t>,
                                ls::ContiguousCache<Eigen::bfloat16>>;
TYPED_TEST_SUITE(Together, Caches);

TYPED_TEST(Together, ChunksDecodesForksAndTreesHaveTheBitsOfOnePass) {
  using Layer = All<ls::Tiled, TypeParam>;
  const auto layer = make<Layer>();
  Make<TypeParam> make_cache;
  const auto x = numbers<float>(tokens * shape.hidden, 1);
  const Index hidden = shape.hidden;
  std::vector<float> whole(x.size()), y(x.size());
  layer.forward(rows_of(x, 0, tokens, hidden), rows_of(whole, 0, tokens, hidden));

  for (const auto& plan : {steps(tokens, tokens), steps(tokens, 1), steps(tokens, 100), random_plan(tokens, 3)}) {
    SCOPED_TRACE(plan_name(plan));
    auto cache = make_cache(layer, tokens);
    std::fill(y.begin(), y.end(), nan<float>());
    decode(layer, cache, x, plan, y);
    EXPECT_TRUE(same_bits(whole, y, hidden));
  }
  // A copy goes its own way, and neither sees the other.
  {
    const Index shared = 520, own = 60;
    auto cache = make_cache(layer, tokens);
    decode(layer, cache, x, steps(shared, 77), y);
    auto fork = cache;
    const auto other = numbers<float>(own * hidden, 2);
    std::vector<float> other_y(other.size());
    decode(layer, fork, other, steps(own, 7), other_y);
    for (Index first = shared; first < tokens; ++first)
      layer.forward(rows_of(x, first, 1, hidden), cache, rows_of(y, first, 1, hidden));
    EXPECT_TRUE(same_bits(whole, y, hidden)) << "the first of two forks";
    auto joined = part(x, 0, shared * hidden);
    joined.insert(joined.end(), other.begin(), other.end());
    std::vector<float> joined_y(joined.size());
    layer.forward(rows_of(std::as_const(joined), 0, shared + own, hidden), rows_of(joined_y, 0, shared + own, hidden));
    EXPECT_TRUE(same_bits(part(joined_y, shared * hidden, own * hidden), other_y, hidden)) << "the second";
  }
  // A draft tree: two branches that take turns, of which the true one is kept.
  {
    const Index context = 505, depth = 20;
    auto cache = make_cache(layer, tokens);
    decode(layer, cache, x, steps(context, 101), y);
    std::vector<float> drafts, drafts_y(at(2 * depth * hidden));
    std::vector<Index> parents, path;
    const auto wrong = numbers<float>(depth * hidden, 4);
    for (Index i = 0; i < depth; ++i) {
      parents.insert(parents.end(), {2 * i - 2 < 0 ? -1 : 2 * i - 2, 2 * i - 1});
      path.push_back(2 * i);
      drafts.insert(drafts.end(), x.begin() + (context + i) * hidden, x.begin() + (context + i + 1) * hidden);
      drafts.insert(drafts.end(), wrong.begin() + i * hidden, wrong.begin() + (i + 1) * hidden);
    }
    layer.forward_tree(rows_of(std::as_const(drafts), 0, 2 * depth, hidden), parents, cache,
                       rows_of(drafts_y, 0, 2 * depth, hidden));
    for (Index i = 0; i < depth; ++i)
      EXPECT_TRUE(
          same_bits(part(whole, (context + i) * hidden, hidden), part(drafts_y, 2 * i * hidden, hidden), hidden))
          << "depth " << i;
    cache.keep(context, path);
    EXPECT_EQ(cache.length(), context + depth);
    for (Index first = context + depth; first < tokens; ++first)
      layer.forward(rows_of(x, first, 1, hidden), cache, rows_of(y, first, 1, hidden));
    const Index after = (context + depth) * hidden;
    EXPECT_TRUE(
        same_bits(part(whole, after, tokens * hidden - after), part(y, after, tokens * hidden - after), hidden));
  }
}

TYPED_TEST(Together, TiledHasTheBitsOfSpecification) {
  const auto fast = make<All<ls::Tiled, TypeParam>>();
  const auto exact = make<All<ls::Specification, TypeParam>>();
  const auto x = numbers<float>(tokens * shape.hidden, 5);
  std::vector<float> a(x.size()), b(x.size());
  fast.forward(rows_of(x, 0, tokens, shape.hidden), rows_of(a, 0, tokens, shape.hidden));
  exact.forward(rows_of(x, 0, tokens, shape.hidden), rows_of(b, 0, tokens, shape.hidden));
  EXPECT_TRUE(same_bits(a, b, shape.hidden));
}

}  // namespace
