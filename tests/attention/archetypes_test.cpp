// Masks, logit transforms and head sharings of a user: each offers what its concept asks and nothing more, not even a
// default constructor.
#include "attention/archetype.hpp"

namespace {

using namespace fixture;
using namespace fixture::archetype;

/// A mask: a query sees the last `window` keys, its own among them.
class Window {
 public:
  static constexpr ls::PolicyKind policy_kind = ls::PolicyKind::mask;
  explicit Window(Index window) : window_(window) {}
  ls::KeyRange range(ls::QueryRow q, Index kv_len) const noexcept {
    return {std::max<Index>(0, q.place + 1 - window_), std::min(kv_len, q.place + 1)};
  }
  ls::Visibility block(ls::QueryRow, ls::KeyRange) const noexcept { return ls::Visibility::all; }
  bool visible(ls::QueryRow, Index) const noexcept { return true; }
  Index keys_needed(ls::QueryRow q) const noexcept { return q.place + 1; }

 private:
  Index window_;
};

/// A mask that says nothing of blocks: every head sees every other key.
class Striped {
 public:
  static constexpr ls::PolicyKind policy_kind = ls::PolicyKind::mask;
  explicit Striped(Index stripes) : stripes_(stripes) {}
  ls::KeyRange range(ls::QueryRow, Index kv_len) const noexcept { return {0, kv_len}; }
  ls::Visibility block(ls::QueryRow, ls::KeyRange) const noexcept { return ls::Visibility::some; }
  bool visible(ls::QueryRow q, Index key) const noexcept { return key <= q.place && (key + q.head) % stripes_ == 0; }
  Index keys_needed(ls::QueryRow q) const noexcept { return q.place + 1; }

 private:
  Index stripes_;
};

/// A logit transform: a penalty for distance, twice as steep for each head.
class Distance {
 public:
  static constexpr ls::PolicyKind policy_kind = ls::PolicyKind::logits;
  explicit Distance(float slope) : slope_(slope) {}
  double scale(Index) const noexcept { return 0.25; }
  float apply(float logit, ls::QueryRow q, Index key) const noexcept {
    return std::fma(-slope_ * static_cast<float>(q.head + 1), static_cast<float>(q.place - key), logit);
  }
  void apply(float* block, ls::QueryRow q, ls::KeyRange keys) const noexcept {
    for (Index i = 0; i < keys.size(); ++i) block[i] = apply(block[i], q, keys.first + i);
  }

 private:
  float slope_;
};

/// A sharing of heads: the last kv head first, for any two numbers of heads.
class Reversed {
 public:
  static constexpr ls::PolicyKind policy_kind = ls::PolicyKind::heads;
  explicit Reversed(Index shift) : shift_(shift) {}
  Index kv_head(Index head, Index, Index kv_heads) const noexcept { return kv_heads - 1 - (head + shift_) % kv_heads; }

 private:
  Index shift_;
};

template <class Case>
class Archetypes : public WithArchetype<Case> {};
TYPED_TEST_SUITE(Archetypes, FloatCases, CaseName);

TYPED_TEST(Archetypes, OfAMaskServe) {
  for (const Index window : {1, 20, 256, 1000}) {
    auto problem = this->problem(this->shape);
    problem.visible = [=](Index, Index row, Index key) { return key <= row && key > row - window; };
    this->expect_right(make_layer<typename TestFixture::template LayerOf<Window>>(this->shape, Window(window)),
                       this->expected(this->shape, problem, this->x));
  }
}

TYPED_TEST(Archetypes, OfAMaskOfPairsComposeWithOthers) {
  auto problem = this->problem(this->shape);
  problem.visible = [](Index head, Index row, Index key) {
    return key <= row && key > row - 50 && (key + head) % 3 == 0;
  };
  using Both = ls::And<Striped, Window>;
  const Both mask{Striped(3), Window(50)};
  this->expect_right(make_layer<typename TestFixture::template LayerOf<Both>>(this->shape, mask),
                     this->expected(this->shape, problem, this->x));
}

TYPED_TEST(Archetypes, OfALogitTransformServe) {
  auto problem = this->problem(this->shape);
  problem.scale = 0.25;
  problem.transform = [](double logit, Index head, Index row, Index key) {
    return logit - 0.125 * static_cast<double>((head + 1) * (row - key));
  };
  this->expect_right(make_layer<typename TestFixture::template LayerOf<Distance>>(this->shape, Distance(0.125F)),
                     this->expected(this->shape, problem, this->x));
}

TYPED_TEST(Archetypes, OfAHeadSharingServe) {
  const Shape uneven{.hidden = hidden, .heads = 5, .kv_heads = 2, .head_dim = 8};
  auto problem = this->problem(uneven);
  problem.kv_head = [](Index head) { return 1 - (head + 1) % 2; };
  this->expect_right(make_layer<typename TestFixture::template LayerOf<Reversed>>(uneven, Reversed(1)),
                     this->expected(uneven, problem, this->x));
}

}  // namespace
