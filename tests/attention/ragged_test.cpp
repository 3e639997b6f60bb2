// Sequences of different lengths in one call: each has the bits of the sequence alone, with caches and as packed
// documents.
#include <array>
#include <numeric>

#include "fixture.hpp"

namespace {

using namespace fixture;

template <class Case>
class Ragged : public ::testing::Test {
 protected:
  using T = typename Case::Element;
  using C = ls::compute_t<T>;
  using Layer = ls::Attention<T, ls::Dynamic, ls::Dynamic, ls::Rope<ls::HalfSplit>, typename Case::Kernel>;
  using Cache = typename Layer::Cache;
  static constexpr Shape shape{.hidden = 12, .heads = 4, .kv_heads = 2, .head_dim = 6};

  Layer layer = make_layer<Layer>(shape, rope<C>(shape.head_dim));

  static std::vector<T> document(Index tokens, std::size_t seed) {
    return numbers<T>(tokens * shape.hidden, 3000 + seed);
  }

  /// Sequence b goes on with rows [done[b], done[b] + lengths[b]) of its document; gives y and lse of each.
  std::vector<Outcome<Layer>> forward(const std::vector<std::vector<T>>& documents, const std::vector<Index>& done,
                                      const std::vector<Index>& lengths, std::vector<Cache>* caches) const {
    const Index tokens = std::accumulate(lengths.begin(), lengths.end(), Index{0});
    std::vector<T> x, y(at(tokens * shape.hidden));
    std::vector<C> lse(at(shape.heads * tokens));
    for (std::size_t b = 0; b < lengths.size(); ++b) {
      const auto from = documents[b].begin() + done[b] * shape.hidden;
      x.insert(x.end(), from, from + lengths[b] * shape.hidden);
    }
    typename Layer::Options options{.lengths = lengths,
                                    .lse = ls::View<C, 3>::contiguous(lse.data(), {1, shape.heads, tokens})};
    const auto in = rows_of(std::as_const(x), 0, tokens, shape.hidden);
    if (caches == nullptr)
      layer.forward(in, rows_of(y, 0, tokens, shape.hidden), options);
    else
      layer.forward(in, *caches, rows_of(y, 0, tokens, shape.hidden), options);

    std::vector<Outcome<Layer>> results(lengths.size());
    Index first = 0;
    for (std::size_t b = 0; b < lengths.size(); ++b) {
      results[b].y = part(y, first * shape.hidden, lengths[b] * shape.hidden);
      for (Index h = 0; h < shape.heads; ++h) {
        const auto row = lse.begin() + h * tokens + first;
        results[b].lse.insert(results[b].lse.end(), row, row + lengths[b]);
      }
      first += lengths[b];
    }
    return results;
  }
};
using Cases = Cross<List<ls::Tiled, ls::Materialized>, List<float, Eigen::bfloat16>>;
TYPED_TEST_SUITE(Ragged, Cases, CaseName);

// More rows in all than the layer takes at once, so that chunks begin and end within sequences.
const std::vector<Index> document_lengths{300, 0, 1, 17, 16, 0, 0, 257, 5, 255, 1};

TYPED_TEST(Ragged, PackedDocumentsHaveTheBitsTheyHaveAlone) {
  std::vector<std::vector<typename TestFixture::T>> documents;
  for (std::size_t b = 0; b < document_lengths.size(); ++b) documents.push_back(this->document(document_lengths[b], b));
  const std::vector<Index> none(documents.size(), 0);
  const auto packed = this->forward(documents, none, document_lengths, nullptr);
  for (std::size_t b = 0; b < documents.size(); ++b) {
    SCOPED_TRACE("document " + std::to_string(b) + " of " + std::to_string(document_lengths[b]));
    expect_same_outputs(this->layer, full(this->layer, documents[b]), packed[b]);
  }
}

TYPED_TEST(Ragged, PromptsAndSingleTokensMixThroughTheirCaches) {
  std::vector<std::vector<typename TestFixture::T>> documents;
  std::vector<typename TestFixture::Cache> caches;
  for (std::size_t b = 0; b < document_lengths.size(); ++b) {
    documents.push_back(this->document(document_lengths[b], b));
    caches.push_back(this->layer.make_cache(document_lengths[b]));
  }
  // Rounds in which some sequences prefill, some decode, some rest.
  std::vector<Index> done(documents.size(), 0);
  std::vector<Outcome<typename TestFixture::Layer>> gathered(documents.size());
  Random random(7);
  for (bool more = true; more;) {
    std::vector<Index> lengths;
    more = false;
    for (std::size_t b = 0; b < documents.size(); ++b) {
      const Index left = document_lengths[b] - done[b];
      lengths.push_back(left == 0 ? 0 : random.below(3) == 0 ? random.below(left + 1) : left < 2 ? left : left / 2);
      more = more || left > lengths.back();
    }
    const auto results = this->forward(documents, done, lengths, &caches);
    for (std::size_t b = 0; b < documents.size(); ++b) {
      gathered[b].y.insert(gathered[b].y.end(), results[b].y.begin(), results[b].y.end());
      done[b] += lengths[b];
    }
  }
  for (std::size_t b = 0; b < documents.size(); ++b) {
    SCOPED_TRACE("sequence " + std::to_string(b) + " of " + std::to_string(document_lengths[b]));
    EXPECT_EQ(caches[b].length(), document_lengths[b]);
    EXPECT_TRUE(same_bits(full(this->layer, documents[b]).y, gathered[b].y, this->shape.hidden));
  }
}

TYPED_TEST(Ragged, AttentionBelowTheProjectionsTakesLengthsToo) {
  using Number = typename TestFixture::C;
  const Index heads = this->shape.heads, kv_heads = this->shape.kv_heads, head_dim = this->shape.head_dim;
  const std::vector<Index> kv_lengths{300, 7, 1, 260}, q_lengths{40, 0, 1, 260};
  const Index tokens = 301;
  std::vector<ls::ContiguousCache<Number>> caches;
  for (std::size_t b = 0; b < kv_lengths.size(); ++b) {
    caches.emplace_back(ls::CacheShape{kv_heads, head_dim, head_dim}, kv_lengths[b]);
    const auto keys = numbers<Number>(kv_lengths[b] * kv_heads * head_dim, 50 + b),
               values = numbers<Number>(kv_lengths[b] * kv_heads * head_dim, 60 + b);
    const std::array<Index, 3> extent{kv_lengths[b], kv_heads, head_dim};
    caches.back().append(ls::View<const Number, 3>::contiguous(keys.data(), extent),
                         ls::View<const Number, 3>::contiguous(values.data(), extent));
  }
  const auto q = numbers<Number>(tokens * heads * head_dim, 70);
  std::vector<Number> together(q.size()), alone(q.size());
  const auto rows = [&](auto* data, Index first, Index count) {
    return ls::View<std::remove_pointer_t<decltype(data)>, 3>::contiguous(data + first * heads * head_dim,
                                                                          {count, heads, head_dim});
  };
  using Kernel = typename TestFixture::Layer::Kernel;
  ls::attend<Kernel>(rows(q.data(), 0, tokens), caches, rows(together.data(), 0, tokens), {.lengths = q_lengths});
  Index first = 0;
  for (std::size_t b = 0; b < caches.size(); ++b) {
    ls::attend<Kernel>(rows(q.data(), first, q_lengths[b]), caches[b], rows(alone.data(), first, q_lengths[b]));
    first += q_lengths[b];
  }
  EXPECT_TRUE(same_bits(alone, together, heads * head_dim));
}

using FloatLayer = ls::Attention<float, ls::Dynamic, ls::Dynamic, ls::Rope<ls::HalfSplit>>;

TEST(RaggedErrors, LengthsMustAddUpToTheTokens) {
  const Shape shape{.hidden = 12, .heads = 4, .kv_heads = 2, .head_dim = 6};
  const auto layer = make_layer<FloatLayer>(shape, rope<float>(shape.head_dim));
  std::vector<float> x(at(6 * shape.hidden)), y(x.size());
  const auto in = rows_of(std::as_const(x), 0, 6, shape.hidden);
  const auto out = rows_of(y, 0, 6, shape.hidden);
  for (const std::vector<Index>& lengths :
       {std::vector<Index>{2, 3}, std::vector<Index>{4, 3}, std::vector<Index>{7, -1}, std::vector<Index>{7}}) {
    const auto status = layer.check(in, out, {.lengths = lengths});
    EXPECT_FALSE(status.ok());
    EXPECT_NE(std::string(status.message()).find("lengths"), std::string::npos) << status.message();
  }
  const std::vector<Index> right{2, 4};
  EXPECT_TRUE(layer.check(in, out, {.lengths = right}).ok());
  const ls::View<const float, 3> tensor(x.data(), {2, 3, shape.hidden}, {3 * shape.hidden, shape.hidden, 1});
  const ls::View<float, 3> results(y.data(), {2, 3, shape.hidden}, {3 * shape.hidden, shape.hidden, 1});
  EXPECT_FALSE(layer.check(tensor, results, {.lengths = right}).ok()) << "a batch beside lengths";
  std::vector<FloatLayer::Cache> caches;
  caches.push_back(layer.make_cache(8));
  EXPECT_FALSE(layer.check(in, caches, out, {.lengths = right}).ok()) << "one cache for two sequences";
  caches.push_back(layer.make_cache(3));
  EXPECT_FALSE(layer.check(in, caches, out, {.lengths = right}).ok()) << "a cache without room for its sequence";
}

}  // namespace
