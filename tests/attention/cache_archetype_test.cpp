// A user's cache with storage of its own offers what the concept asks and nothing more, and has the bits of the
// library's.
#include <memory>

#include "fixture.hpp"

namespace {

using namespace fixture;

/// Blocks of 256 places, each in memory of its own, taken when the first token of it arrives.
template <class S>
class Paged {
 public:
  static constexpr ls::PolicyKind policy_kind = ls::PolicyKind::cache;
  using Storage = S;
  using Layout = ls::BlockLayout<S>;

  Paged(ls::CacheShape shape, Index capacity) : shape_(shape), capacity_(capacity) {}
  Paged(Paged&&) = default;
  Paged& operator=(Paged&&) = default;

  ls::CacheShape shape() const noexcept { return shape_; }
  Index length() const noexcept { return length_; }
  Index capacity() const noexcept { return capacity_; }
  Index bytes() const noexcept {
    return static_cast<Index>(pages_.size()) * (key_block() + value_block()) * static_cast<Index>(sizeof(S));
  }
  ls::Status check_append(Index tokens) const noexcept {
    return tokens <= capacity_ - length_ ? ls::Status{} : ls::Status::length("cache", "given {} tokens", tokens);
  }

  void append(ls::View<const ls::compute_t<S>, 3> keys, ls::View<const ls::compute_t<S>, 3> values) {
    for (Index t = 0; t < keys.extent[0]; ++t, ++length_)
      for (Index g = 0; g < shape_.kv_heads; ++g) {
        const Index place = length_ % ls::block_keys;
        S* page = page_of(g, length_ / ls::block_keys);
        for (Index d = 0; d < shape_.head_dim; ++d)
          page[Layout::key(place, d, shape_.head_dim)] = ls::narrow<S>(keys(t, g, d));
        for (Index d = 0; d < shape_.v_head_dim; ++d)
          page[key_block() + Layout::value(place, d)] = ls::narrow<S>(values(t, g, d));
      }
  }
  void truncate(Index length) { length_ = length; }
  ls::CacheBlock<S> block(Index g, Index b) const noexcept {
    const S* page = pages_[at(b * shape_.kv_heads + g)].get();
    return {page, page + key_block()};
  }

 private:
  Index key_block() const noexcept { return Layout::key_block(shape_.head_dim); }
  Index value_block() const noexcept { return Layout::value_block(shape_.v_head_dim); }
  S* page_of(Index g, Index b) {
    while (static_cast<Index>(pages_.size()) <= b * shape_.kv_heads + g) {
      pages_.push_back(std::make_unique<S[]>(at(key_block() + value_block())));
      std::fill_n(pages_.back().get(), key_block() + value_block(), nan<S>());
    }
    return pages_[at(b * shape_.kv_heads + g)].get();
  }

  ls::CacheShape shape_;
  Index capacity_, length_ = 0;
  std::vector<std::unique_ptr<S[]>> pages_;
};
static_assert(!std::copyable<Paged<float>> && !std::default_initializable<Paged<float>>);

template <class Case>
class CacheArchetype : public ::testing::Test {
 protected:
  template <class Cache>
  using LayerOf = ls::Attention<float, ls::Dynamic, ls::Dynamic, ls::Rope<ls::HalfSplit>, typename Case::Kernel, Cache>;
};
using Cases = Cross<Kernels, List<float, Eigen::half>>;
TYPED_TEST_SUITE(CacheArchetype, Cases, CaseName);

TYPED_TEST(CacheArchetype, HasTheBitsOfTheContiguousCache) {
  using Storage = typename TypeParam::Element;
  using Layer = typename TestFixture::template LayerOf<Paged<Storage>>;
  const Shape shape{.hidden = 12, .heads = 4, .kv_heads = 2, .head_dim = 6, .v_head_dim = 5};
  const Index tokens = 600;
  const auto contiguous = make_layer<typename TestFixture::template LayerOf<ls::ContiguousCache<Storage>>>(shape);
  const auto layer = make_layer<Layer>(shape);
  const auto x = numbers<float>(tokens * shape.hidden, 161);
  const auto expected = run(contiguous, x, {tokens});
  expect_same_outputs(contiguous, expected, full(layer, x));
  for (const auto& plan : {std::vector<Index>{tokens}, steps(tokens, 1), random_plan(tokens, 14)}) {
    auto cache = layer.make_cache(tokens);
    std::vector<float> y(x.size());
    Index first = 0;
    for (const Index rows : plan) {
      layer.forward(rows_of(x, first, rows, shape.hidden), cache, rows_of(y, first, rows, shape.hidden));
      first += rows;
    }
    EXPECT_TRUE(same_bits(expected.y, y, shape.hidden)) << plan_name(plan);
    EXPECT_THROW(layer.forward(rows_of(x, 0, 1, shape.hidden), cache, rows_of(y, 0, 1, shape.hidden)),
                 std::length_error);
    EXPECT_EQ(cache.length(), tokens);
  }
}

TYPED_TEST(CacheArchetype, ServesABatchAndAttend) {
  using Storage = typename TypeParam::Element;
  using Layer = typename TestFixture::template LayerOf<Paged<Storage>>;
  const Shape shape{.hidden = 12, .heads = 4, .kv_heads = 2, .head_dim = 6};
  const auto layer = make_layer<Layer>(shape);
  const auto x = numbers<float>(2 * 30 * shape.hidden, 162);
  std::vector<float> y(x.size());
  std::vector<Paged<Storage>> caches;
  for (int b = 0; b < 2; ++b) caches.push_back(layer.make_cache(30));
  layer.forward(ls::View<const float, 3>::contiguous(x.data(), {2, 30, shape.hidden}), caches,
                ls::View<float, 3>::contiguous(y.data(), {2, 30, shape.hidden}));
  for (Index b = 0; b < 2; ++b)
    EXPECT_TRUE(same_bits(full(layer, part(x, b * 30 * shape.hidden, 30 * shape.hidden)).y,
                          part(y, b * 30 * shape.hidden, 30 * shape.hidden), shape.hidden));
  const auto q = numbers<float>(2 * 4 * 6, 163);
  std::vector<float> context(q.size()), alone(q.size());
  const auto heads = [](auto& v, Index batch) {
    return ls::View<std::remove_reference_t<decltype(v[0])>, 4>::contiguous(v.data(), {batch, 2 / batch, 4, 6});
  };
  ls::attend<typename TypeParam::Kernel>(heads(q, 2), caches, heads(context, 2));
  for (Index b = 0; b < 2; ++b) {
    const auto one = part(q, b * 24, 24);
    std::vector<float> out(24);
    ls::attend<typename TypeParam::Kernel>(ls::View<const float, 3>::contiguous(one.data(), {1, 4, 6}), caches[at(b)],
                                           ls::View<float, 3>::contiguous(out.data(), {1, 4, 6}));
    EXPECT_TRUE(same_bits(out, part(context, b * 24, 24), 6));
  }
}

}  // namespace
