// A sequence among batch mates has the bits of the sequence alone.
#include <array>

#include "fixture.hpp"

namespace {

using namespace fixture;

template <class Case>
class Batch : public ::testing::Test {
 protected:
  using T = typename Case::Element;
  using C = ls::compute_t<T>;
  using Layer = ls::Attention<T, ls::Dynamic, ls::Dynamic, ls::Rope<ls::HalfSplit>, typename Case::Kernel>;
  using Cache = typename Layer::Cache;
  static constexpr Shape shape{.hidden = 12, .heads = 4, .kv_heads = 2, .head_dim = 6};

  Layer layer = make_layer<Layer>(shape, rope<C>(shape.head_dim));

  /// A cache that holds `length` tokens of sequence `seed`, with room for q_len more.
  Cache filled(Index length, Index q_len, std::uint64_t seed) const {
    Cache cache = layer.make_cache(length + q_len);
    const auto x = numbers<T>(length * shape.hidden, 1000 + seed);
    std::vector<T> y(x.size());
    layer.forward(rows_of(x, 0, length, shape.hidden), cache, rows_of(y, 0, length, shape.hidden));
    return cache;
  }
  static std::vector<T> input(Index q_len, std::uint64_t seed) { return numbers<T>(q_len * shape.hidden, 2000 + seed); }

  Outcome<Layer> alone(Index length, Index q_len, std::uint64_t seed) const {
    Cache cache = filled(length, q_len, seed);
    const auto x = input(q_len, seed);
    Outcome<Layer> result;
    result.y.resize(x.size());
    result.lse.resize(at(shape.heads * q_len));
    layer.forward(rows_of(x, 0, q_len, shape.hidden), cache, rows_of(result.y, 0, q_len, shape.hidden),
                  {.lse = ls::View<C, 3>::contiguous(result.lse.data(), {1, shape.heads, q_len})});
    export_cache(cache, result);
    return result;
  }

  /// Sequences 0, 1, ... with caches of these lengths in one call.
  std::vector<Outcome<Layer>> together(const std::vector<Index>& lengths, Index q_len) const {
    const Index batch = static_cast<Index>(lengths.size()), numbers_each = q_len * shape.hidden,
                lse_each = shape.heads * q_len;
    std::vector<Cache> caches;
    std::vector<T> x, y(at(batch * numbers_each));
    std::vector<C> lse(at(batch * lse_each));
    for (Index b = 0; b < batch; ++b) {
      caches.push_back(filled(lengths[at(b)], q_len, static_cast<std::uint64_t>(b)));
      const auto one = input(q_len, static_cast<std::uint64_t>(b));
      x.insert(x.end(), one.begin(), one.end());
    }
    layer.forward(ls::View<const T, 3>::contiguous(x.data(), {batch, q_len, shape.hidden}), caches,
                  ls::View<T, 3>::contiguous(y.data(), {batch, q_len, shape.hidden}),
                  {.lse = ls::View<C, 3>::contiguous(lse.data(), {batch, shape.heads, q_len})});
    std::vector<Outcome<Layer>> results(at(batch));
    for (Index b = 0; b < batch; ++b) {
      results[at(b)].y.assign(y.begin() + b * numbers_each, y.begin() + (b + 1) * numbers_each);
      results[at(b)].lse.assign(lse.begin() + b * lse_each, lse.begin() + (b + 1) * lse_each);
      export_cache(caches[at(b)], results[at(b)]);
    }
    return results;
  }
};
using Cases = Cross<Kernels, List<float, Eigen::bfloat16>>;
TYPED_TEST_SUITE(Batch, Cases, CaseName);

TYPED_TEST(Batch, MatesWithCachesOfOtherLengthsChangeNothing) {
  const std::vector<Index> lengths{300, 0, 1, 15, 16, 255, 256, 700};
  for (const Index q_len : {1, 3, 50}) {  // 8 x 50 rows are more than the layer takes at once
    const auto results = this->together(lengths, q_len);
    for (std::size_t b = 0; b < lengths.size(); ++b) {
      SCOPED_TRACE("cache of " + std::to_string(lengths[b]) + ", " + std::to_string(q_len) + " queries");
      expect_same_outcome(this->layer, this->alone(lengths[b], q_len, b), results[b]);
    }
  }
}

// vllm-project/vllm#51902, flashinfer-ai/flashinfer#2424: tiles or splits that were chosen from facts of the batch.
TYPED_TEST(Batch, NumberAndLengthOfTheMatesChangeNothing) {
  const auto alone = this->alone(300, 1, 0);
  for (const std::size_t mates : {1U, 7U, 32U, 33U, 64U}) {
    SCOPED_TRACE(mates);
    std::vector<Index> lengths(mates + 1, 9);
    lengths[0] = 300;
    expect_same_outcome(this->layer, alone, this->together(lengths, 1)[0]);
  }
  expect_same_outcome(this->layer, alone, this->together({300, 9}, 1)[0]);
  expect_same_outcome(this->layer, alone, this->together({300, 10}, 1)[0]);
}

TYPED_TEST(Batch, PointersToCachesAreTakenInAnyOrder) {
  using Number = typename TypeParam::Element;
  const Index q_len = 2, hidden = this->shape.hidden;
  auto first = this->filled(5, q_len, 0), second = this->filled(40, q_len, 1);
  std::vector<Number> x = this->input(q_len, 1), y(at(2 * q_len * hidden));
  const auto x0 = this->input(q_len, 0);
  x.insert(x.end(), x0.begin(), x0.end());
  const std::array caches{&second, &first};
  this->layer.forward(ls::View<const Number, 3>::contiguous(x.data(), {2, q_len, hidden}), caches,
                      ls::View<Number, 3>::contiguous(y.data(), {2, q_len, hidden}));
  EXPECT_TRUE(same_bits(this->alone(40, q_len, 1).y, part(y, 0, q_len * hidden), hidden));
  EXPECT_TRUE(same_bits(this->alone(5, q_len, 0).y, part(y, q_len * hidden, q_len * hidden), hidden));
}

TYPED_TEST(Batch, CachelessSequencesHaveTheBitsOfEachAlone) {
  using Number = typename TypeParam::Element;
  const Index batch = 5, q_len = 110, hidden = this->shape.hidden;
  const auto x = numbers<Number>(batch * q_len * hidden, 31);
  std::vector<Number> y(x.size());
  this->layer.forward(ls::View<const Number, 3>::contiguous(x.data(), {batch, q_len, hidden}),
                      ls::View<Number, 3>::contiguous(y.data(), {batch, q_len, hidden}));
  for (Index b = 0; b < batch; ++b) {
    const auto one = part(x, b * q_len * hidden, q_len * hidden);
    EXPECT_TRUE(same_bits(full(this->layer, one).y, part(y, b * q_len * hidden, q_len * hidden), hidden))
        << "sequence " << b;
  }
}

}  // namespace
