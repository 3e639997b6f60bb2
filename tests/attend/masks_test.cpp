// attend() under masks of every kind against the reference: values, log-sum-exp, weights, and rows that see nothing.
#include "attend/problem.hpp"

namespace {

using namespace fixture;

template <class Case>
class AttendMasks : public ::testing::Test {
 protected:
  template <class Mask, class S, class Visible>
  static Attended<float> expect_reference(const Problem<S>& problem, const Mask& mask, Visible visible,
                                          std::optional<Index> offset = {}) {
    reference::Problem plain;
    plain.visible = [&](Index, Index row, Index key) { return visible(row, key); };
    auto result =
        problem.template attend<typename Case::Kernel, Mask>(problem.cache(), {.offset = offset, .mask = mask});
    problem.expect_close(problem.expected(plain), result);
    return result;
  }
};
using Cases = Cross<Kernels, List<float>>;
TYPED_TEST_SUITE(AttendMasks, Cases, CaseName);

std::vector<char> table(const Sizes& s, Index one_in) {
  Random random(static_cast<std::uint64_t>(one_in));
  std::vector<char> seen(at(s.q_len * s.kv_len));
  for (char& flag : seen) flag = random.below(one_in) == 0 ? 1 : 0;
  for (Index key = 0; key < s.kv_len; ++key) seen[at(key)] = 0;             // row 0 sees nothing,
  for (Index key = 0; key < s.kv_len; ++key) seen[at(s.kv_len + key)] = 1;  // row 1 everything,
  for (Index key = 0; key < s.kv_len; ++key)
    seen[at(2 * s.kv_len + key)] = key == s.kv_len - 1 ? 1 : 0;  // row 2 the last key
  return seen;
}

TYPED_TEST(AttendMasks, OfAnyPatternAreTheReferences) {
  for (const Sizes& s : {Sizes{9, 40, 4, 2, 8}, Sizes{7, 1300, 2, 1, 6}})
    for (const Index one_in : {1, 2, 50, 100000}) {
      const auto seen = table(s, one_in);
      const Problem<float> problem(s);
      const auto result = this->expect_reference(
          problem, ByTable(seen, s.kv_len), [&](Index row, Index key) { return seen[at(row * s.kv_len + key)] != 0; });
      expect_same(s, result,
                  problem.template attend<typename TypeParam::Kernel, ByTableInBlocks>(
                      problem.cache(), {.mask = ByTableInBlocks(seen, s.kv_len)}));
      EXPECT_TRUE(same_bits(std::vector<float>(at(s.heads * s.value_dim())),
                            part(result.context, 0, s.heads * s.value_dim()), s.value_dim()))
          << "row 0 sees nothing";
      for (Index h = 0; h < s.heads; ++h) {
        EXPECT_EQ(result.lse[at(h * s.q_len)], -infinity<float>());
        EXPECT_TRUE(same_bits(std::vector<float>(at(s.kv_len)), part(result.weights, h * s.q_len * s.kv_len, s.kv_len),
                              s.kv_len));
        EXPECT_EQ(result.weights[at((h * s.q_len + 3) * s.kv_len - 1)], 1.0F) << "row 2 sees one key";
      }
    }
}

TYPED_TEST(AttendMasks, NoneSeesWhateverKeysThereAre) {
  for (const Sizes& s : {Sizes{3, 300, 4, 2, 8}, Sizes{50, 20, 4, 2, 8}, Sizes{1, 1025, 2, 1, 6}})
    this->expect_reference(Problem<float>(s), ls::NoMask{}, [](Index, Index) { return true; });
}

TYPED_TEST(AttendMasks, TheOffsetPlacesTheFirstQuery) {
  const Sizes s{.q_len = 20, .kv_len = 300, .heads = 4, .kv_heads = 2, .head_dim = 8};
  for (const Index offset : {-30, -5, 0, 100, 280, 290, 1000})
    this->expect_reference(
        Problem<float>(s), ls::Causal{}, [=](Index row, Index key) { return key <= row + offset; }, offset);
  this->expect_reference(Problem<float>(s), ls::Causal{}, [](Index row, Index key) { return key <= row + 280; });
}

TYPED_TEST(AttendMasks, AnOffsetMaskGoesByRowsNotPlaces) {
  const Sizes s{.q_len = 20, .kv_len = 300, .heads = 4, .kv_heads = 2, .head_dim = 8};
  for (const Index offset : {-30, -5, 0, 100, 290})
    this->expect_reference(Problem<float>(s), ls::OffsetCausal(offset),
                           [=](Index row, Index key) { return key <= row + offset; });
}

TYPED_TEST(AttendMasks, ComposeAsIntersectionAndUnion) {
  const Sizes s{.q_len = 20, .kv_len = 600, .heads = 2, .kv_heads = 1, .head_dim = 8};
  Flags flags(1, s.kv_len);
  for (Index key = 0; key < s.kv_len; ++key) flags(0, key) = key % 3 == 0 && key != 300;
  const Problem<float> problem(s);
  this->expect_reference(problem, ls::Causal{} & flags.mask(),
                         [&](Index row, Index key) { return key <= row + 580 && flags(0, key); });
  this->expect_reference(problem, ls::OffsetCausal(10) | flags.mask(),
                         [&](Index row, Index key) { return key <= row + 10 || flags(0, key); });
  this->expect_reference(problem, (ls::OffsetCausal(10) | flags.mask()) & ls::OffsetCausal(400),
                         [&](Index row, Index key) { return key <= row + 400 && (key <= row + 10 || flags(0, key)); });
}

// pytorch/pytorch#103963: a row without keys must give zeros, and its neighbour the bits that it has alone.
TYPED_TEST(AttendMasks, ARowWithoutKeysLeavesTheOtherItsBits) {
  const Sizes s{.q_len = 2, .kv_len = 3, .heads = 1, .kv_heads = 1, .head_dim = 4};
  const std::vector<char> seen{1, 1, 1, 0, 0, 0};
  const Problem<float> problem(s);
  const auto both =
      problem.template attend<typename TypeParam::Kernel, ByTable>(problem.cache(), {.mask = ByTable(seen, 3)});
  Problem<float> first = problem;
  first.sizes.q_len = 1;
  first.q.resize(4);
  const auto alone = first.template attend<typename TypeParam::Kernel, ls::NoMask>(first.cache());
  EXPECT_TRUE(same_bits(alone.context, part(both.context, 0, 4), 4));
  EXPECT_EQ(alone.lse[0], both.lse[0]);
  EXPECT_TRUE(same_bits(std::vector<float>(4), part(both.context, 4, 4), 4));
  EXPECT_EQ(both.lse[1], -infinity<float>());
}

TYPED_TEST(AttendMasks, HiddenKeysMayHoldAnything) {
  const Sizes s{.q_len = 20, .kv_len = 600, .heads = 4, .kv_heads = 2, .head_dim = 6};
  Flags flags(1, s.kv_len);
  for (Index key = 0; key < s.kv_len; ++key) flags(0, key) = key % 7 != 0 && key / 100 != 2;
  const Problem<float> clean(s);
  const auto expected =
      clean.template attend<typename TypeParam::Kernel, ls::KeyPadding>(clean.cache(), {.mask = flags.mask()});
  for (const float garbage : {nan<float>(), infinity<float>(), -infinity<float>()}) {
    Problem<float> dirty = clean;
    for (Index g = 0; g < 2; ++g)
      for (Index key = 0; key < s.kv_len; ++key)
        for (Index d = 0; d < 6 && !flags(0, key); ++d)
          dirty.k[at((g * s.kv_len + key) * 6 + d)] = dirty.v[at((g * s.kv_len + key) * 6 + d)] = garbage;
    expect_same(
        s, expected,
        dirty.template attend<typename TypeParam::Kernel, ls::KeyPadding>(dirty.cache(), {.mask = flags.mask()}));
  }
}

TYPED_TEST(AttendMasks, SequencesOfABatchHaveEachTheirOwnFlags) {
  const Index batch = 3, kv_len = 290;
  Flags flags(batch, kv_len);
  for (Index b = 0; b < batch; ++b)
    for (Index key = 0; key < kv_len; ++key) flags(b, key) = (key + b) % (b + 2) == 0;
  std::vector<Problem<float>> problems;
  std::vector<ls::ContiguousCache<float>> caches;
  std::vector<float> q, context(at(batch * 2 * 8));
  for (Index b = 0; b < batch; ++b) {
    problems.emplace_back(Sizes{.q_len = 1, .kv_len = kv_len, .heads = 2, .kv_heads = 1, .head_dim = 8},
                          static_cast<std::uint64_t>(b));
    caches.push_back(problems.back().cache());
    q.insert(q.end(), problems.back().q.begin(), problems.back().q.end());
  }
  ls::attend<typename TypeParam::Kernel, ls::KeyPadding>(
      ls::View<const float, 4>::contiguous(q.data(), {batch, 1, 2, 8}), caches,
      ls::View<float, 4>::contiguous(context.data(), {batch, 1, 2, 8}), {.mask = flags.mask()});
  for (Index b = 0; b < batch; ++b) {
    reference::Problem plain;
    plain.visible = [&](Index, Index, Index key) { return flags(b, key); };
    EXPECT_LE(largest_difference(problems[at(b)].expected(plain).context, part(context, b * 16, 16)),
              problems[at(b)].tolerance());
  }
}

}  // namespace
