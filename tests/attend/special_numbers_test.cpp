// NaN, infinities, denormals, -0, huge and tiny numbers, in every place that a caller fills: hidden ones leave no
// trace, visible ones do what the contract says, and the fast kernel has the specification's bits.
#include <utility>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "attend/contract_kernels.hpp"
#include "attend/problem.hpp"

namespace {

using namespace fixture;
using ls::View;

constexpr Sizes sizes{.q_len = 5, .kv_len = 300, .heads = 4, .kv_heads = 2, .head_dim = 6, .v_head_dim = 5};
constexpr Index offset = 293;  // of the first query: the last two keys are seen by no row
constexpr Index barred = 100;  // a key that an addend of -inf hides from all rows

struct Special {
  const char* name;
  float number;
};
const Special specials[] = {{"NaN", nan<float>()},
                            {"NegativeNaN", -nan<float>()},
                            {"Infinity", infinity<float>()},
                            {"MinusInfinity", -infinity<float>()},
                            {"Denormal", 1e-40F},
                            {"Smallest", -std::numeric_limits<float>::denorm_min()},
                            {"MinusZero", -0.0F},
                            {"Huge", 1e38F},
                            {"MinusHuge", -3e38F},
                            {"Tiny", 1.2e-38F}};

/// Attention with everything that holds numbers.
struct Call {
  using Mask = ls::And<ls::Causal, ls::AdditiveMask<float>>;
  Problem<float> problem{sizes};
  std::vector<float> addends = numbers<float>(sizes.q_len * sizes.kv_len, 9);
  std::vector<float> sinks = numbers<float>(sizes.heads, 10), slopes{0.5F, 0.25F, 0.01F, 1e-30F};

  Call() {
    for (Index i = 0; i < sizes.q_len; ++i) addend(i, barred) = -infinity<float>();
  }
  float& addend(Index i, Index key) { return addends[at(i * sizes.kv_len + key)]; }
  float& key(Index g, Index t, Index d) { return problem.k[at((g * sizes.kv_len + t) * sizes.head_dim + d)]; }
  float& value(Index g, Index t, Index d) { return problem.v[at((g * sizes.kv_len + t) * sizes.v_head_dim + d)]; }
  float& query(Index i, Index h, Index d) { return problem.q[at((i * sizes.heads + h) * sizes.head_dim + d)]; }

  template <class Kernel>
  Attended<float> by() const {
    ls::AttendOptions<float, Kernel, Mask, ls::LearnedSinks<>, ls::Alibi<>> options;
    options.offset = offset;
    options.mask.b =
        ls::AdditiveMask<float>(View<const float, 4>::contiguous(addends.data(), {1, 1, sizes.q_len, sizes.kv_len}));
    options.sinks = ls::LearnedSinks<float>(View<const float, 1>(sinks));
    options.bias = ls::Alibi<float>(View<const float, 1>(slopes));
    return problem.attend<Kernel, Mask, ls::LearnedSinks<>, ls::Alibi<>>(problem.cache(), options);
  }
  /// The specification's results, which the fast kernel has too.
  Attended<float> results() const {
    const auto expected = by<ls::Specification>();
    for_each_instruction_set([&] { expect_same(sizes, expected, by<ls::Tiled>()); });
    return expected;
  }
};

/// Whether row (i, h) has the same bits in both.
template <class C>
::testing::AssertionResult same_row(const Attended<C>& a, const Attended<C>& b, Index i, Index h) {
  const auto of = [&](const std::vector<C>& all, Index row, Index width) { return part(all, row * width, width); };
  if (auto r = same_bits(of(a.context, i * sizes.heads + h, sizes.v_head_dim),
                         of(b.context, i * sizes.heads + h, sizes.v_head_dim), sizes.v_head_dim);
      !r)
    return r;
  if (auto r = same_bits(of(a.lse, h * sizes.q_len + i, 1), of(b.lse, h * sizes.q_len + i, 1), 1); !r) return r;
  return same_bits(of(a.weights, h * sizes.q_len + i, sizes.kv_len), of(b.weights, h * sizes.q_len + i, sizes.kv_len),
                   sizes.kv_len);
}
template <class C>
bool is_nan(const Attended<C>& a, Index i, Index h) {
  for (Index d = 0; d < sizes.v_head_dim; ++d)
    if (!std::isnan(a.context[at((i * sizes.heads + h) * sizes.v_head_dim + d)])) return false;
  return true;
}
/// Whether row i sees key t, as the base case has it.
bool sees(Index i, Index t) { return t <= offset + i && t != barred; }

template <class F>
void for_each_row(F&& f) {
  for (Index i = 0; i < sizes.q_len; ++i)
    for (Index h = 0; h < sizes.heads; ++h) f(i, h);
}
constexpr Index keys_to_try[] = {0, 99, barred, 255, 256, offset, offset + 2, sizes.kv_len - 1};

/// Numbers of all kinds, a twelfth of them special: NaNs meet infinities and each other.
std::vector<float> mixture(Index n, std::uint64_t seed) {
  std::vector<float> all = numbers<float>(n, seed);
  Random random(seed + 1);
  for (float& x : all)
    if (const Index which = random.below(120); which < 10) x = specials[which].number;
  return all;
}
/// The one NaN that results hold: processors differ in those that they make.
Index other_nans(const std::vector<float>& all) {
  Index count = 0;
  for (const float x : all) count += std::isnan(x) && !same_bits<float>({x}, {nan<float>()}, 1) ? 1 : 0;
  return count;
}

class SpecialNumbers : public ::testing::TestWithParam<Special> {
 protected:
  const Attended<float> base = Call().results();
  const float number = GetParam().number;
  const bool finite = std::isfinite(number);
};

TEST_P(SpecialNumbers, InAKeyReachTheRowsThatSeeItAndNoOther) {
  for (const Index t : keys_to_try)
    for (const Index d : {0, 5}) {
      SCOPED_TRACE("key " + std::to_string(t) + ", number " + std::to_string(d));
      Call call;
      call.key(1, t, d) = number;
      const auto now = call.results();
      for_each_row([&](Index i, Index h) {
        if (h / 2 != 1 || !sees(i, t)) {
          EXPECT_TRUE(same_row(base, now, i, h)) << i << " " << h;
        } else if (std::isnan(number)) {
          EXPECT_TRUE(is_nan(now, i, h)) << i << " " << h;
        }
      });
    }
}

TEST_P(SpecialNumbers, InAValueReachItsOwnDimensionOfTheRowsThatSeeIt) {
  for (const Index t : keys_to_try) {
    SCOPED_TRACE("value " + std::to_string(t));
    Call call;
    call.value(0, t, 3) = number;
    const auto now = call.results();
    for_each_row([&](Index i, Index h) {
      if (h / 2 != 0 || !sees(i, t)) {
        EXPECT_TRUE(same_row(base, now, i, h)) << i << " " << h;
        return;
      }
      for (Index d = 0; d < sizes.v_head_dim; ++d) {
        const float before = base.context[at((i * sizes.heads + h) * sizes.v_head_dim + d)],
                    after = now.context[at((i * sizes.heads + h) * sizes.v_head_dim + d)];
        if (d != 3) {
          EXPECT_EQ(before, after);
        } else if (!finite) {  // also where its weight is +0
          EXPECT_FALSE(std::isfinite(after));
        }
      }
    });
  }
}

TEST_P(SpecialNumbers, InAQueryReachItsOwnRow) {
  for (const Index d : {0, 5}) {
    Call call;
    call.query(2, 3, d) = number;
    const auto now = call.results();
    for_each_row([&](Index i, Index h) {
      if (i != 2 || h != 3) {
        EXPECT_TRUE(same_row(base, now, i, h)) << i << " " << h;
      } else if (!finite) {
        EXPECT_TRUE(is_nan(now, i, h));
      }
    });
  }
}

TEST_P(SpecialNumbers, InAnAddendReachItsOwnRow) {
  for (const Index t : keys_to_try) {
    SCOPED_TRACE("addend of key " + std::to_string(t));
    Call call;
    call.addend(4, t) = number;
    const auto now = call.results();
    for_each_row([&](Index i, Index h) {
      if (i != 4 || t > offset + 4) {
        EXPECT_TRUE(same_row(base, now, i, h)) << i << " " << h;
      } else if (std::isnan(number) || number == infinity<float>()) {
        EXPECT_TRUE(is_nan(now, i, h)) << i << " " << h;
      } else if (number == -infinity<float>()) {
        EXPECT_EQ(now.weights[at((h * sizes.q_len + i) * sizes.kv_len + t)], 0);
      }
    });
  }
}

TEST_P(SpecialNumbers, InASinkAreRefusedOrReachItsOwnHead) {
  Call call;
  call.sinks[1] = number;
  if (std::isnan(number) || number == infinity<float>()) {
    EXPECT_THROW(call.by<ls::Specification>(), std::invalid_argument);
    return;
  }
  const auto now = call.results();
  for_each_row([&](Index i, Index h) {
    if (h != 1) {
      EXPECT_TRUE(same_row(base, now, i, h)) << i << " " << h;
    } else if (number == 1e38F) {  // it takes all weight
      EXPECT_EQ(now.context[at((i * sizes.heads + h) * sizes.v_head_dim)], 0);
    }
  });
}

TEST_P(SpecialNumbers, InASlopeAreRefusedOrReachItsOwnHead) {
  Call call;
  call.slopes[2] = number;
  if (!finite) {
    EXPECT_THROW(call.by<ls::Specification>(), std::invalid_argument);
    return;
  }
  const auto now = call.results();
  for_each_row([&](Index i, Index h) {
    if (h != 2) {
      EXPECT_TRUE(same_row(base, now, i, h)) << i << " " << h;
    }
  });
}

TEST_P(SpecialNumbers, SeenByNoRowLeaveZerosAndTheSink) {
  Call call;
  for (Index t = 0; t < sizes.kv_len; ++t) {
    call.addend(1, t) = -infinity<float>();
    for (Index d = 0; d < sizes.head_dim; ++d) call.key(0, t, d) = number;
    for (Index d = 0; d < sizes.v_head_dim; ++d) call.value(0, t, d) = number;
  }
  const auto now = call.results();
  for_each_row([&](Index i, Index h) {
    if (h / 2 == 1 && i != 1) {
      EXPECT_TRUE(same_row(base, now, i, h)) << i << " " << h;
    }
    if (i != 1) return;
    EXPECT_TRUE(same_bits(part(now.context, (i * sizes.heads + h) * sizes.v_head_dim, sizes.v_head_dim),
                          std::vector<float>(at(sizes.v_head_dim), 0.0F), sizes.v_head_dim));
    EXPECT_EQ(now.lse[at(h * sizes.q_len + i)], call.sinks[at(h)]);
  });
}

TEST_P(SpecialNumbers, AllOverTheCacheHaveTheBitsOfTheSpecification) {
  Call call;
  Random random(3);
  for (auto* all : {&call.problem.q, &call.problem.k, &call.problem.v, &call.addends})
    for (float& x : *all)
      if (random.below(3) == 0) x = number;
  EXPECT_EQ(other_nans(call.results().context), 0);
}

/// The same in the other element types, under capped logits.
template <class S>
class SpecialNumbersOf : public ::testing::Test {
 protected:
  using C = ls::compute_t<S>;
  template <class Kernel>
  Attended<C> by() const {
    ls::AttendOptions<C, Kernel, ls::SoftCap> options{.logits = {.cap = 30}};
    options.offset = offset;
    return problem.template attend<Kernel, ls::SoftCap>(problem.cache(), options);
  }
  Attended<C> results() const {
    const auto expected = by<ls::Specification>();
    for_each_instruction_set([&] { expect_same(sizes, expected, by<ls::Tiled>()); });
    return expected;
  }
  /// With `number` in place of one that is there: rows that see(i, h) it may differ, and are NaN where it is.
  template <class Sees>
  void expect_reach(S& place, S number, Sees&& see) {
    const S before = std::exchange(place, number);
    const auto now = results();
    place = before;
    for_each_row([&](Index i, Index h) {
      if (!see(i, h)) {
        EXPECT_TRUE(same_row(base, now, i, h)) << i << " " << h;
      } else if (!(number == number)) {
        EXPECT_TRUE(std::isnan(now.context[at((i * sizes.heads + h) * sizes.v_head_dim + 3)])) << i << " " << h;
      }
    });
  }

  Problem<S> problem{sizes};
  Attended<C> base = results();
};
using OtherElements = ::testing::Types<double, Eigen::half, Eigen::bfloat16>;
TYPED_TEST_SUITE(SpecialNumbersOf, OtherElements);

TYPED_TEST(SpecialNumbersOf, KeysAndValuesReachTheRowsThatSeeThemAndNoOther) {
  using Limits = std::numeric_limits<TypeParam>;
  const TypeParam zero(0);
  for (const TypeParam number : {Limits::quiet_NaN(), static_cast<TypeParam>(-Limits::quiet_NaN()), Limits::infinity(),
                                 static_cast<TypeParam>(-Limits::infinity()), Limits::denorm_min(),
                                 static_cast<TypeParam>(-Limits::denorm_min()), static_cast<TypeParam>(-zero),
                                 (Limits::max)(), Limits::lowest(), (Limits::min)()}) {
    SCOPED_TRACE(static_cast<double>(number));
    for (const Index t : {Index{0}, Index{255}, Index{256}, offset, offset + 2, sizes.kv_len - 1}) {
      SCOPED_TRACE("key " + std::to_string(t));
      const auto sees = [t](Index i) { return t <= offset + i; };
      this->expect_reach(this->problem.k[at((sizes.kv_len + t) * sizes.head_dim + 4)], number,
                         [&](Index i, Index h) { return h / 2 == 1 && sees(i); });
      this->expect_reach(this->problem.v[at(t * sizes.v_head_dim + 3)], number,
                         [&](Index i, Index h) { return h / 2 == 0 && sees(i); });
    }
  }
}

#if defined(__SSE__)
// Denormal results and operands: what a host that flushes them, or rounds another way, would change.
TEST(SpecialNumbers, HaveTheSameBitsInAnyEnvironmentOfTheHost) {
  Call call;
  for (float& v : call.problem.v) v *= 1e-38F;
  for (float& k : call.problem.k) k *= 10;
  const auto expected = call.results();
  for (const unsigned host : {0x1F80U | 0x8040U, 0x1F80U | 0x4000U, 0x1F80U | 0x6000U, 0x1F80U | 0x2000U}) {
    const unsigned before = _mm_getcsr();
    _mm_setcsr(host);
    const auto got = call.by<ls::Tiled>();
    const unsigned after = _mm_getcsr();
    _mm_setcsr(before);
    EXPECT_EQ(after & 0xffc0U, host) << "restored";
    expect_same(sizes, expected, got);
  }
}
#endif

INSTANTIATE_TEST_SUITE_P(All, SpecialNumbers, ::testing::ValuesIn(specials),
                         [](const auto& special) { return special.param.name; });

TEST(Project, OfSpecialNumbersHasTheSameBitsOnEveryInstructionSetAndOneNan) {
  constexpr Index in = 300, out = 70;
  for (const int place : {0, 1, 2, 3}) {
    SCOPED_TRACE("in place " + std::to_string(place));
    const auto at_place = [place](int here, Index n) {
      return place == here || place == 3 ? mixture(n, 5) : numbers<float>(n, 6);
    };
    const auto x = at_place(0, 7 * in), w = at_place(1, out * in), b = at_place(2, out);
    ls::PackedWeights<float> packed(out, in);
    packed.place(0, View<const float, 2>::contiguous(w.data(), {out, in}), View<const float, 1>(b));
    for (const Index rows : {1, 7}) {
      std::vector<float> first;
      for_each_instruction_set([&] {
        std::vector<float> y(at(rows * out));
        ls::project(View<const float, 2>::contiguous(x.data(), {rows, in}), packed,
                    View<float, 2>::contiguous(y.data(), {rows, out}), ls::Serial{});
        EXPECT_EQ(other_nans(y), 0);
        if (first.empty()) first = y;
        EXPECT_TRUE(same_bits(first, y, out));
      });
    }
  }
}

TEST(HeadRows, OfSpecialNumbersHaveTheSameBitsOnEveryInstructionSetAndOneNan) {
  constexpr Index dim = 70, count = 20;
  const ls::Rope<ls::HalfSplit, float> half(rope<float>(dim, 100));
  const ls::Rope<ls::Interleaved, float> interleaved(rope<float>(dim, 100));
  const std::vector<float> given = mixture(count * dim, 8), weight = mixture(dim, 9);
  for (const int what : {0, 1, 2}) {
    SCOPED_TRACE(what == 0 ? "half-split" : what == 1 ? "interleaved" : "normalised");
    std::vector<float> first;
    for_each_instruction_set([&] {
      std::vector<float> rows = given;
      for (Index i = 0; i < count; ++i) {
        float* const row = rows.data() + i * dim;
        if (what == 0) half.rotate(row, 3 * i);
        if (what == 1) interleaved.rotate(row, 3 * i);
        if (what == 2) ls::rms_norm<float>(row, weight.data(), dim, 1e-6F);
      }
      EXPECT_EQ(other_nans(rows), 0);
      if (first.empty()) first = rows;
      EXPECT_TRUE(same_bits(first, rows, dim));
    });
  }
}

}  // namespace
