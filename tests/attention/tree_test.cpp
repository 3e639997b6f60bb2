// Draft trees: every node has the bits of decoding its path token by token, whatever its siblings.
#include <array>

#include "fixture.hpp"

namespace {

using namespace fixture;

/// Parents of a tree: chains, bushes, and long paths that cross blocks of 256 places.
std::vector<Index> chain(Index nodes) {
  std::vector<Index> parents;
  for (Index i = 0; i < nodes; ++i) parents.push_back(i - 1);
  return parents;
}
std::vector<Index> bush(Index nodes, std::uint64_t seed) {
  Random random(seed);
  std::vector<Index> parents;
  for (Index i = 0; i < nodes; ++i) parents.push_back(random.below(i + 1) - 1);
  return parents;
}
std::vector<Index> braid(Index nodes) {
  std::vector<Index> parents;
  for (Index i = 0; i < nodes; ++i) parents.push_back(i < 2 ? -1 : i - 2);
  return parents;
}
std::vector<Index> path_of(const std::vector<Index>& parents, Index node) {
  std::vector<Index> path;
  for (; node >= 0; node = parents[at(node)]) path.insert(path.begin(), node);
  return path;
}

template <class Case>
class Tree : public ::testing::Test {
 protected:
  using T = typename Case::Element;
  using C = ls::compute_t<T>;
  using Layer = ls::Attention<T, ls::Dynamic, ls::Dynamic, ls::Rope<ls::HalfSplit>, typename Case::Kernel>;
  using Cache = typename Layer::Cache;
  static constexpr Shape shape{.hidden = 12, .heads = 6, .kv_heads = 2, .head_dim = 6};

  Layer layer = make_layer<Layer>(shape, rope<C>(shape.head_dim));

  Cache context(Index length, Index room) const {
    Cache cache = layer.make_cache(length + room);
    const auto x = numbers<T>(length * shape.hidden, 5000 + static_cast<std::uint64_t>(length));
    std::vector<T> y(x.size());
    layer.forward(rows_of(x, 0, length, shape.hidden), cache, rows_of(y, 0, length, shape.hidden));
    return cache;
  }
  static std::vector<T> drafts(Index nodes, std::uint64_t seed) {
    return numbers<T>(nodes * shape.hidden, 6000 + seed);
  }

  /// What decoding the path of a node gives at its end, after what the cache holds.
  std::vector<T> decoded(Cache cache, const std::vector<T>& x, const std::vector<Index>& path) const {
    std::vector<T> y(at(shape.hidden));
    for (const Index node : path)
      layer.forward(rows_of(x, node, 1, shape.hidden), cache, rows_of(y, 0, 1, shape.hidden));
    return y;
  }
};
using Cases = Cross<List<ls::Tiled, ls::Specification>, List<float, Eigen::bfloat16>>;
TYPED_TEST_SUITE(Tree, Cases, CaseName);

// PaddlePaddle/FastDeploy#3514, sgl-project/sglang-jax#1611: nodes saw their siblings where a whole tile of keys lay
// under the diagonal.
TYPED_TEST(Tree, NodesHaveTheBitsOfDecodingTheirPaths) {
  using Number = typename TestFixture::T;
  const Index hidden = this->shape.hidden;
  for (const Index length : {0, 1, 15, 16, 250, 255, 256, 1020, 1024})
    for (const auto& parents : {chain(1), chain(9), bush(13, 1), bush(40, 2), braid(30)}) {
      const Index nodes = static_cast<Index>(parents.size());
      SCOPED_TRACE("context " + std::to_string(length) + ", " + std::to_string(nodes) + " nodes");
      const auto before = this->context(length, nodes);
      auto cache = before;
      const auto x = this->drafts(nodes, 1);
      std::vector<Number> y(x.size());
      this->layer.forward_tree(rows_of(x, 0, nodes, hidden), parents, cache, rows_of(y, 0, nodes, hidden));
      EXPECT_EQ(cache.length(), length + nodes);
      for (Index node = 0; node < nodes; node += nodes > 20 ? 7 : 1)
        EXPECT_TRUE(same_bits(this->decoded(before, x, path_of(parents, node)), part(y, node * hidden, hidden), hidden))
            << "node " << node;
    }
}

// More nodes than the layer takes at once, on paths that pass a whole block.
TYPED_TEST(Tree, LongPathsCrossBlocksAndChunks) {
  using Number = typename TestFixture::T;
  const Index hidden = this->shape.hidden, nodes = 620, length = 200;
  const auto parents = braid(nodes);
  const auto before = this->context(length, nodes);
  auto cache = before;
  const auto x = this->drafts(nodes, 2);
  std::vector<Number> y(x.size());
  this->layer.forward_tree(rows_of(x, 0, nodes, hidden), parents, cache, rows_of(y, 0, nodes, hidden));
  for (const Index node : {Index{111}, Index{112}, Index{255}, Index{300}, nodes - 1})
    EXPECT_TRUE(same_bits(this->decoded(before, x, path_of(parents, node)), part(y, node * hidden, hidden), hidden))
        << "node " << node;
}

TYPED_TEST(Tree, TreesOfSeveralSequencesShareACall) {
  using Number = typename TestFixture::T;
  const Index hidden = this->shape.hidden;
  const std::vector<Index> contexts{300, 0, 17}, lengths{5, 12, 1};
  std::vector<Index> parents;
  std::vector<typename TestFixture::Cache> caches;
  std::vector<std::vector<Index>> trees;
  for (std::size_t b = 0; b < contexts.size(); ++b) {
    trees.push_back(bush(lengths[b], 10 + b));
    parents.insert(parents.end(), trees[b].begin(), trees[b].end());
    caches.push_back(this->context(contexts[b], lengths[b]));
  }
  const auto before = caches;
  const auto x = this->drafts(18, 3);
  std::vector<Number> y(x.size());
  this->layer.forward_tree(rows_of(x, 0, 18, hidden), parents, caches, rows_of(y, 0, 18, hidden), {.lengths = lengths});
  Index first = 0;
  for (std::size_t b = 0; b < contexts.size(); first += lengths[b], ++b)
    for (Index node = 0; node < lengths[b]; ++node)
      EXPECT_TRUE(
          same_bits(this->decoded(before[b], part(x, first * hidden, lengths[b] * hidden), path_of(trees[b], node)),
                    part(y, (first + node) * hidden, hidden), hidden))
          << "sequence " << b << " node " << node;
}

// The accepted path stays, the rest is dropped, and decoding goes on as if the path had been decoded.
TYPED_TEST(Tree, TheCacheKeepsAnAcceptedPath) {
  using Number = typename TestFixture::T;
  const Index hidden = this->shape.hidden, length = 245, nodes = 40;
  const auto before = this->context(length, nodes + 1);
  const auto parents = braid(nodes);
  const auto x = this->drafts(nodes + 1, 5);
  std::vector<Number> y(x.size());
  for (const Index node : {Index{0}, Index{1}, Index{27}, nodes - 1}) {
    SCOPED_TRACE(node);
    const auto path = path_of(parents, node);
    auto decoded = before, drafted = before;
    for (const Index n : path) this->layer.forward(rows_of(x, n, 1, hidden), decoded, rows_of(y, n, 1, hidden));
    this->layer.forward_tree(rows_of(x, 0, nodes, hidden), parents, drafted, rows_of(y, 0, nodes, hidden));
    drafted.keep(length, path);
    Outcome<typename TestFixture::Layer> a, b;
    const auto next = [&](auto& cache, auto& outcome) {
      outcome.y.resize(at(hidden));
      this->layer.forward(rows_of(x, nodes, 1, hidden), cache, rows_of(outcome.y, 0, 1, hidden));
      export_cache(cache, outcome);
    };
    next(decoded, a);
    next(drafted, b);
    EXPECT_EQ(decoded.length(), drafted.length());
    expect_same_outcome(this->layer, a, b);
  }
  auto cache = before;
  this->layer.forward_tree(rows_of(x, 0, nodes, hidden), parents, cache, rows_of(y, 0, nodes, hidden));
  const std::vector<std::vector<Index>> wrong{{nodes}, {2, 1}, {3, 3}, {-1}};
  for (const auto& path : wrong) {
    EXPECT_THROW(cache.keep(length, path), std::exception);
    EXPECT_EQ(cache.length(), length + nodes);
  }
  EXPECT_THROW(cache.keep(length + nodes + 1, {}), std::exception);
}

// The rows of a chain are rows of a plain chunk, also in the results on request.
TYPED_TEST(Tree, AChainHasTheResultsOfAChunk) {
  using Number = typename TestFixture::T;
  using Compute = typename TestFixture::C;
  const Index hidden = this->shape.hidden, heads = this->shape.heads, length = 250, nodes = 12;
  const auto x = this->drafts(nodes, 4);
  std::vector<std::vector<Number>> y(2, std::vector<Number>(x.size()));
  std::vector<std::vector<Compute>> lse(2, std::vector<Compute>(at(heads * nodes))),
      weights(2, std::vector<Compute>(at(heads * nodes * (length + nodes))));
  for (std::size_t run = 0; run < 2; ++run) {
    auto cache = this->context(length, nodes);
    const typename TestFixture::Layer::Options options{
        .weights = ls::View<Compute, 4>::contiguous(weights[run].data(), {1, heads, nodes, length + nodes}),
        .lse = ls::View<Compute, 3>::contiguous(lse[run].data(), {1, heads, nodes})};
    const auto in = rows_of(x, 0, nodes, hidden);
    if (run == 0)
      this->layer.forward(in, cache, rows_of(y[run], 0, nodes, hidden), options);
    else
      this->layer.forward_tree(in, chain(nodes), cache, rows_of(y[run], 0, nodes, hidden), options);
  }
  EXPECT_TRUE(same_bits(y[0], y[1], hidden));
  EXPECT_TRUE(same_bits(lse[0], lse[1], nodes));
  EXPECT_TRUE(same_bits(weights[0], weights[1], length + nodes));
}

// Below the projections: the cache holds context and nodes already. Queries of more than 256 numbers lie in parts.
TYPED_TEST(Tree, AttentionBelowTheProjectionsTakesTreesToo) {
  using Number = typename TestFixture::C;
  using Kernel = typename TestFixture::Layer::Kernel;
  for (const Index head_dim : {6, 260}) {
    const Index width = 2 * head_dim;
    const ls::CacheShape cache_shape{2, head_dim, head_dim};
    const Index length = 250, heads = 6, nodes = 20;
    const auto parents = bush(nodes, 3);
    const auto keys = numbers<Number>((length + nodes) * width, 80),
               values = numbers<Number>((length + nodes) * width, 81),
               q = numbers<Number>(nodes * heads * head_dim, 82);
    const auto tokens = [&](const std::vector<Number>& all, Index first, Index count) {
      return ls::View<const Number, 3>::contiguous(all.data() + first * width, {count, 2, head_dim});
    };
    const auto rows = [&](auto* data, Index first, Index count) {
      return ls::View<std::remove_pointer_t<decltype(data)>, 3>::contiguous(data + first * heads * head_dim,
                                                                            {count, heads, head_dim});
    };
    ls::ContiguousCache<Number> cache(cache_shape, length + nodes);
    cache.append(tokens(keys, 0, length + nodes), tokens(values, 0, length + nodes));
    std::vector<Number> context(q.size()), alone(at(heads * head_dim));
    const auto queries = rows(q.data(), 0, nodes);
    const auto out = rows(context.data(), 0, nodes);
    const Index bytes = ls::attend_tree_workspace_bytes<Kernel>(queries, cache);
    std::vector<std::byte> memory(at(bytes));
    ls::Workspace workspace(memory.data(), bytes), small(memory.data(), bytes - 1);
    EXPECT_THROW(ls::attend_tree<Kernel>(queries, parents, cache, out, {.workspace = &small}), std::length_error);
    ls::attend_tree<Kernel>(queries, parents, cache, out, {.workspace = &workspace});
    for (Index node = 0; node < nodes; ++node) {
      cache.truncate(0);
      cache.append(tokens(keys, 0, length), tokens(values, 0, length));
      for (const Index n : path_of(parents, node))
        cache.append(tokens(keys, length + n, 1), tokens(values, length + n, 1));
      ls::attend<Kernel>(rows(q.data(), node, 1), cache, rows(alone.data(), 0, 1));
      EXPECT_TRUE(same_bits(alone, part(context, node * heads * head_dim, heads * head_dim), heads * head_dim))
          << "node " << node << ", head_dim " << head_dim;
    }
  }
}

using FloatLayer = ls::Attention<float, ls::Dynamic, ls::Dynamic, ls::Rope<ls::HalfSplit>>;

TEST(TreeErrors, ParentsMustStandBeforeTheirNodes) {
  const Shape shape{.hidden = 12, .heads = 4, .kv_heads = 2, .head_dim = 6};
  const auto layer = make_layer<FloatLayer>(shape, rope<float>(shape.head_dim));
  std::vector<float> x(at(3 * shape.hidden)), y(x.size());
  auto cache = layer.make_cache(8);
  const auto in = rows_of(std::as_const(x), 0, 3, shape.hidden);
  const auto out = rows_of(y, 0, 3, shape.hidden);
  for (const std::vector<Index>& parents : {std::vector<Index>{-1, 0}, std::vector<Index>{-1, 1, 0},
                                            std::vector<Index>{-2, -1, -1}, std::vector<Index>{0, -1, -1}}) {
    const auto status = layer.check_tree(in, parents, cache, out);
    EXPECT_FALSE(status.ok());
    EXPECT_NE(std::string(status.message()).find("parents"), std::string::npos) << status.message();
  }
  EXPECT_TRUE(layer.check_tree(in, std::vector<Index>{-1, -1, 1}, cache, out).ok());
  // Workspace as told is enough.
  std::vector<std::byte> memory(at(layer.tree_workspace_bytes(1, 3, 3)));
  ls::Workspace workspace(memory.data(), static_cast<Index>(memory.size()));
  layer.forward_tree(in, std::vector<Index>{-1, -1, 1}, cache, out, {.workspace = &workspace});
  EXPECT_EQ(cache.length(), 3);
}

// A tree's nodes stand at the end of the cache, whatever offset is given: what they see must be held there.
TEST(TreeErrors, AttentionLooksForKeysWhereTheNodesStandAndNotAtAnOffset) {
  ls::RingCache<float> cache({1, 4, 4}, 64, 300);
  const std::vector<float> tokens(at(100 * 4), 0.5F), q(at(3 * 4), 0.25F);
  for (int i = 0; i < 20; ++i)
    cache.append(ls::View<const float, 3>::contiguous(tokens.data(), {100, 1, 4}),
                 ls::View<const float, 3>::contiguous(tokens.data(), {100, 1, 4}));
  ASSERT_GT(cache.first(), 64);
  std::vector<float> context(q.size());
  const auto in = ls::View<const float, 3>::contiguous(q.data(), {3, 1, 4});
  const auto out = ls::View<float, 3>::contiguous(context.data(), {3, 1, 4});
  const std::vector<Index> parents{-1, 0, 1};
  using Options = ls::AttendOptions<float, ls::SlidingWindow>;
  EXPECT_NO_THROW(ls::attend_tree<ls::SlidingWindow>(in, parents, cache, out, Options{.offset = 0, .mask = {64}}));
  EXPECT_THROW(ls::attend_tree<ls::SlidingWindow>(in, parents, cache, out, Options{.offset = 9000, .mask = {2000}}),
               std::invalid_argument);
}

TEST(TreeErrors, AttentionNeedsTheNodesInTheCache) {
  ls::ContiguousCache<float> cache({1, 4, 4}, 8);
  const std::vector<float> numbers(12, 0.5F);
  const auto tokens = [&](Index n) { return ls::View<const float, 3>::contiguous(numbers.data(), {n, 1, 4}); };
  cache.append(tokens(2), tokens(2));
  std::vector<float> context(12, 7);
  const std::vector<Index> parents{-1, 0, 1};
  try {
    ls::attend_tree(tokens(3), parents, cache, ls::View<float, 3>::contiguous(context.data(), {3, 1, 4}));
    FAIL() << "taken";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("caches: given 2 tokens for 3 nodes"), std::string::npos) << error.what();
  }
  EXPECT_EQ(context, std::vector<float>(12, 7));
}

}  // namespace
