// attend() under windows, prefixes and arrays: Specification against the reference, and kernels of the contract bit for
// bit equal to it on every instruction set; hidden keys leave no trace, and hidden blocks are not touched.
#include "attend/contract_kernels.hpp"
#include "attend/problem.hpp"
#include "attention/hook.hpp"

namespace {

using namespace fixture;

template <class Mask>
using Under = ls::AttendOptions<float, ls::Specification, Mask>;

/// The result of Specification, which ls::Tiled shares on each instruction set.
template <class Mask, class Cache>
Attended<float> same_on_all_kernels(const Problem<float>& problem, const Cache& cache, const Mask& mask,
                                    std::optional<Index> offset = {}) {
  auto expected = problem.attend<ls::Specification, Mask>(cache, {.offset = offset, .mask = mask});
  for_each_instruction_set([&] {
    expect_same(problem.sizes, expected, problem.attend<ls::Tiled, Mask>(cache, {.offset = offset, .mask = mask}));
  });
  return expected;
}

/// The same, close to the reference; visible(head, row, key), and b(head, row, key) is added to the logit.
template <class Mask, class Visible>
Attended<float> expect_reference(const Problem<float>& problem, const Mask& mask, Visible visible,
                                 std::optional<Index> offset = {},
                                 std::function<double(Index, Index, Index)> addend = {}) {
  reference::Problem plain;
  plain.visible = visible;
  if (addend)
    plain.transform = [&](double logit, Index head, Index row, Index key) { return logit + addend(head, row, key); };
  auto result = same_on_all_kernels(problem, problem.cache(), mask, offset);
  problem.expect_close(problem.expected(plain), result);
  return result;
}

constexpr Index windows[] = {1, 2, 15, 16, 17, 255, 256, 257, 1023, 1024, 1025, 1099, 1100, 5000};

auto sliding(Index offset, Index window, Index sinks) {
  return [=](Index, Index row, Index key) {
    const Index place = row + offset;
    return key <= place && (key > place - window || key < sinks);
  };
}

TEST(AttendWindows, OfEveryLengthAndNumberOfSinksAreTheReferences) {
  for (const Sizes& s : {Sizes{20, 1100, 2, 1, 4}, Sizes{1, 1300, 3, 1, 4}, Sizes{290, 290, 1, 1, 4}}) {
    const Problem<float> problem(s);
    const Index offset = s.kv_len - s.q_len;
    for (const Index window : windows)
      for (const Index sinks : {0, 1, 4, 300}) {
        if (s.q_len == 290 && sinks == 1) continue;
        SCOPED_TRACE(::testing::PrintToString(s) + ", window " + std::to_string(window) + ", sinks " +
                     std::to_string(sinks));
        expect_reference(problem, ls::SlidingWindow{window, sinks}, sliding(offset, window, sinks));
      }
  }
}

TEST(AttendWindows, OfRealHeadSizesAreTheReferences) {
  const Problem<float> problem({.q_len = 33, .kv_len = 700, .heads = 14, .kv_heads = 2, .head_dim = 64});
  expect_reference(problem, ls::SlidingWindow{300, 4}, sliding(667, 300, 4));
}

TEST(AttendWindows, AsLongAsTheKeysHaveTheBitsOfCausal) {
  for (const Sizes& s : {Sizes{70, 330, 6, 2, 5}, Sizes{1, 1300, 3, 1, 4}, Sizes{300, 300, 2, 1, 4}}) {
    const Problem<float> problem(s);
    const auto causal = problem.attend<ls::Specification, ls::Causal>(problem.cache());
    for (const Index window : {s.kv_len, s.kv_len + 1, ls::all_keys}) {
      expect_same(s, causal, same_on_all_kernels(problem, problem.cache(), ls::SlidingWindow{window}));
      expect_same(s, causal, same_on_all_kernels(problem, problem.cache(), ls::SlidingWindow{1, window}));
    }
    expect_same(s, causal, same_on_all_kernels(problem, problem.cache(), ls::Window{.right = 0}));
    expect_same(s, causal, same_on_all_kernels(problem, problem.cache(), ls::PrefixLm{}));
  }
}

TEST(AttendWindows, WithTwoBoundsAreTheReferences) {
  constexpr Index all = ls::Window::unbounded;
  const Problem<float> problem({.q_len = 20, .kv_len = 600, .heads = 2, .kv_heads = 1, .head_dim = 4});
  for (const Index offset : {-5, 0, 300, 580, 650})
    for (const auto& [left, right] :
         {std::pair<Index, Index>{0, 0}, {16, 0}, {15, 17}, {255, 256}, {all, 1}, {3, all}, {all, all}, {700, 700}}) {
      const ls::Window mask{left, right};
      SCOPED_TRACE("offset " + std::to_string(offset) + ", " + std::to_string(left) + " before, " +
                   std::to_string(right) + " after");
      expect_reference(
          problem, mask,
          [=](Index, Index row, Index key) {
            return row + offset - key <= mask.left && key - row - offset <= mask.right;
          },
          offset);
    }
}

TEST(AttendWindows, PrefixesAreTheReferences) {
  const Problem<float> problem({.q_len = 20, .kv_len = 600, .heads = 2, .kv_heads = 1, .head_dim = 4});
  for (const Index offset : {-5, 0, 250, 580})
    for (const Index prefix : {0, 1, 16, 255, 256, 257, 599, 1000})
      expect_reference(
          problem, ls::PrefixLm(prefix),
          [=](Index, Index row, Index key) { return key < prefix || key <= row + offset; }, offset);
}

TEST(AttendArrays, OfFlagsForEachHeadAreTheReferences) {
  for (const Sizes& s : {Sizes{20, 600, 4, 2, 4}, Sizes{1, 1100, 4, 2, 4}}) {
    const Problem<float> problem(s);
    for (const Index keys : {s.kv_len, s.kv_len - 50, s.kv_len + 9})
      for (const Index one_in : {1, 2, 300}) {
        Random random(static_cast<std::uint64_t>(one_in));
        const auto flags = std::make_unique<bool[]>(at(s.heads * s.q_len * keys));
        for (Index i = 0; i < s.heads * s.q_len * keys; ++i)
          flags[at(i)] = (random.below(one_in) == 0) == (i / keys % 3 != 0);
        expect_reference(problem,
                         ls::BooleanMask(ls::View<const bool, 3>::contiguous(flags.get(), {s.heads, s.q_len, keys})),
                         [&](Index head, Index row, Index key) {
                           return key < keys && flags[at((head * s.q_len + row) * keys + key)];
                         });
      }
  }
}

TEST(AttendArrays, OfTheCausalTriangleHaveTheBitsOfCausal) {
  const Sizes s{.q_len = 70, .kv_len = 330, .heads = 6, .kv_heads = 2, .head_dim = 5};
  const Problem<float> problem(s);
  const auto causal = problem.attend<ls::Specification, ls::Causal>(problem.cache());
  const auto addends = ls::causal_mask(s.q_len, s.kv_len, s.kv_len - s.q_len);
  Eigen::Matrix<bool, Eigen::Dynamic, Eigen::Dynamic> flags = addends.array() == 0.0F;  // column by column in memory
  expect_same(s, causal, same_on_all_kernels(problem, problem.cache(), ls::AdditiveMask<>(addends)));
  expect_same(s, causal, same_on_all_kernels(problem, problem.cache(), ls::BooleanMask(flags)));
}

TEST(AttendArrays, OfZerosHaveTheBitsOfNoMask) {
  for (const Sizes& s : {Sizes{20, 600, 4, 2, 4}, Sizes{1, 1100, 4, 2, 64}}) {
    const Problem<float> problem(s);
    const auto none = problem.attend<ls::Specification, ls::NoMask>(problem.cache());
    const std::vector<float> zeros(at(s.kv_len));
    expect_same(s, none,
                same_on_all_kernels(problem, problem.cache(), ls::AdditiveMask<>(ls::View<const float, 1>(zeros))));
  }
}

TEST(AttendArrays, OfAddendsAreTheReferences) {
  for (const Sizes& s : {Sizes{20, 600, 4, 2, 4}, Sizes{1, 1100, 4, 2, 4}}) {
    const Problem<float> problem(s);
    for (const Index one_in : {1, 2, 30}) {
      Random random(static_cast<std::uint64_t>(one_in));
      auto addends = normal_numbers<float>(s.heads * s.q_len * s.kv_len, 5);
      for (float& b : addends)
        if (random.below(one_in + 1) == 0) b = -infinity<float>();
      const auto of = [&](Index head, Index row, Index key) {
        return static_cast<double>(addends[at((head * s.q_len + row) * s.kv_len + key)]);
      };
      const ls::AdditiveMask<> mask(ls::View<const float, 3>::contiguous(addends.data(), {s.heads, s.q_len, s.kv_len}));
      const auto visible = [&](Index head, Index row, Index key) { return std::isfinite(of(head, row, key)); };
      expect_reference(problem, mask, visible, {}, of);
      const Index offset = s.kv_len - s.q_len;
      expect_reference(
          problem, ls::SlidingWindow{300, 4} & mask,
          [&](Index head, Index row, Index key) {
            return visible(head, row, key) && sliding(offset, 300, 4)(head, row, key);
          },
          {}, of);
    }
  }
}

TEST(AttendArrays, MayHoldNotANumberWhichSpoilsItsRowAlone) {
  const Sizes s{.q_len = 3, .kv_len = 300, .heads = 2, .kv_heads = 1, .head_dim = 4};
  const Problem<float> problem(s);
  std::vector<float> addends(at(3 * 300));
  addends[at(300 + 280)] = nan<float>();
  const auto result = same_on_all_kernels(
      problem, problem.cache(), ls::AdditiveMask<>(ls::View<const float, 2>::contiguous(addends.data(), {3, 300})));
  for (Index i = 0; i < 3 * 8; ++i) EXPECT_EQ(std::isnan(result.context[at(i)]), i / 8 == 1);
}

/// Garbage in keys and values that no row sees.
Problem<float> spoiled(Problem<float> problem, float garbage, const std::vector<char>& seen) {
  const Sizes& s = problem.sizes;
  for (Index g = 0; g < s.kv_heads; ++g)
    for (Index key = 0; key < s.kv_len; ++key)
      for (Index d = 0; d < s.head_dim && seen[at(key)] == 0; ++d)
        problem.k[at((g * s.kv_len + key) * s.head_dim + d)] = problem.v[at((g * s.kv_len + key) * s.head_dim + d)] =
            garbage;
  return problem;
}

template <class Mask>
void expect_no_trace_of_hidden_keys(const Sizes& s, const Mask& mask) {
  const Problem<float> clean(s, 3);
  std::vector<char> seen(at(s.kv_len));
  for (Index row = 0; row < s.q_len; ++row)
    for (Index key = 0; key < s.kv_len; ++key) {
      const ls::QueryRow q{0, 0, row, s.kv_len - s.q_len + row};
      const ls::KeyRange range = mask.range(q, s.kv_len);
      if (range.first <= key && key < range.last && mask.visible(q, key)) seen[at(key)] = 1;
    }
  ASSERT_NE(std::count(seen.begin(), seen.end(), 0), 0);
  const auto expected = same_on_all_kernels(clean, clean.cache(), mask);
  for (const float garbage : {nan<float>(), infinity<float>(), -infinity<float>()})
    expect_same(s, expected,
                same_on_all_kernels(spoiled(clean, garbage, seen), spoiled(clean, garbage, seen).cache(), mask));
}

TEST(AttendWindows, HiddenKeysMayHoldAnything) {
  for (const Index q_len : {1, 20}) {
    const Sizes s{.q_len = q_len, .kv_len = 1100, .heads = 4, .kv_heads = 2, .head_dim = 6};
    for (const Index window : {1, 16, 255, 300, 1000})
      for (const Index sinks : {0, 4, 20}) expect_no_trace_of_hidden_keys(s, ls::SlidingWindow{window, sinks});
    std::vector<float> addends(at(s.kv_len), 0.5F);
    const auto flags = std::make_unique<bool[]>(at(s.kv_len));
    for (Index key = 0; key < s.kv_len; ++key)
      if (flags[at(key)] = key / 100 % 3 != 1 && key % 9 != 4; !flags[at(key)]) addends[at(key)] = -infinity<float>();
    expect_no_trace_of_hidden_keys(s, ls::AdditiveMask<>(ls::View<const float, 1>(addends)));
    expect_no_trace_of_hidden_keys(
        s, ls::SlidingWindow{300, 20} & ls::BooleanMask(ls::View<const bool, 1>::contiguous(flags.get(), {s.kv_len})));
  }
}

/// A cache without memory for some blocks: who touches them crashes.
class Holey : public ls::ContiguousCache<float> {
 public:
  using ls::ContiguousCache<float>::ContiguousCache;
  std::vector<char> kept;
  ls::CacheBlock<float> block(Index g, Index b) const noexcept {
    return kept[at(b)] != 0 ? ls::ContiguousCache<float>::block(g, b) : ls::CacheBlock<float>{};
  }
};
static_assert(ls::KeyValueCache<Holey>);

template <class Mask>
void expect_blocks_suffice(const Sizes& s, const Mask& mask, const std::vector<Index>& blocks, Index threads = 1) {
  const Problem<float> problem(s);
  Holey cache({s.kv_heads, s.head_dim, s.value_dim()}, s.kv_len);
  cache.import(problem.keys(), problem.values());
  cache.kept.assign(at(ls::ceil_div(s.kv_len, ls::block_keys)), 0);
  for (const Index b : blocks) cache.kept[at(b)] = 1;
  const auto expected = problem.attend<ls::Specification, Mask>(problem.cache(), {.mask = mask});
  expect_same(s, expected, same_on_all_kernels(problem, cache, mask));
  TestPool pool{TaskOrder::threads};
  expect_same(s, expected,
              problem.attend<ls::Tiled, Mask, ls::Hook>(cache, {.mask = mask, .executor = pool.hook(threads)}));
}

TEST(AttendWindows, NeverTouchBlocksThatNobodySees) {
  for (const Index threads : {1, 3}) {
    // 3100 keys are 13 blocks of 256, the last of 28; the window of 300 from the last one reaches back to key 2800.
    const Sizes one{.q_len = 1, .kv_len = 3100, .heads = 4, .kv_heads = 2, .head_dim = 8};
    expect_blocks_suffice(one, ls::SlidingWindow{300}, {10, 11, 12}, threads);
    expect_blocks_suffice(one, ls::SlidingWindow{28}, {12}, threads);
    expect_blocks_suffice(one, ls::SlidingWindow{29}, {11, 12}, threads);
    expect_blocks_suffice(one, ls::SlidingWindow{300, 4}, {0, 10, 11, 12}, threads);
    expect_blocks_suffice(one, ls::SlidingWindow{1, 257}, {0, 1, 12}, threads);
    Sizes many = one;
    many.q_len = 100;  // the first stands at 3000
    expect_blocks_suffice(many, ls::SlidingWindow{441}, {10, 11, 12}, threads);
    expect_blocks_suffice(many, ls::SlidingWindow{442, 1}, {0, 9, 10, 11, 12}, threads);
    const auto flags = std::make_unique<bool[]>(3100);
    for (Index key = 600; key < 700; ++key) flags[at(key)] = true;
    expect_blocks_suffice(
        many, ls::Causal{} & ls::BooleanMask(ls::View<const bool, 1>::contiguous(flags.get(), {3100})), {2}, threads);
  }
}

/// Causal without every third key of the block from 512 on; notes the keys that it is asked about one by one.
struct Asked : ls::Causal {
  static inline Index least = 0, most = 0, times = 0;
  ls::Visibility block(ls::QueryRow, ls::KeyRange keys) const noexcept {
    return keys.last <= 512 || keys.first >= 768 ? ls::Visibility::all : ls::Visibility::some;
  }
  bool visible(ls::QueryRow q, Index key) const noexcept {
    least = times == 0 || key < least ? key : least;
    most = times == 0 || key > most ? key : most;
    ++times;
    return ls::Causal::visible(q, key) && (key < 512 || key >= 768 || key % 3 != 0);
  }
};

TEST(AttendWindows, AskAboutSingleKeysOnlyWhereABlockIsNotVisibleAsAWhole) {
  for (const Index q_len : {1, 7, 100}) {
    const Sizes s{.q_len = q_len, .kv_len = 1500, .heads = 4, .kv_heads = 2, .head_dim = 8};
    const Problem<float> problem(s);
    const auto expected = problem.attend<ls::Specification, Asked>(problem.cache(), {});
    Asked::times = 0;
    expect_same(s, expected, problem.attend<ls::Tiled, Asked>(problem.cache(), {}));
    EXPECT_GE(Asked::times, q_len);
    EXPECT_GE(Asked::least, 512) << q_len;
    EXPECT_LT(Asked::most, 768) << q_len;
  }
}

/// A cache far from the start of its sequence, of which only the last keys are held.
class Far : public ls::ContiguousCache<float> {
 public:
  using Base = ls::ContiguousCache<float>;
  using Base::Base;
  static constexpr Index start = Index{1} << 33;
  Index length() const noexcept { return start + Base::length(); }
  ls::CacheBlock<float> block(Index g, Index b) const noexcept {
    constexpr Index first = start / ls::block_keys;
    return b < first ? ls::CacheBlock<float>{} : Base::block(g, b - first);
  }
};
static_assert(ls::KeyValueCache<Far>);

TEST(AttendWindows, CostThreadsNothingThatGrowsWithTheSequence) {
  for (const Index q_len : {1, 40}) {
    const Sizes s{.q_len = q_len, .kv_len = 5000, .heads = 4, .kv_heads = 2, .head_dim = 8};
    const Problem<float> problem(s);
    Far cache({s.kv_heads, s.head_dim, s.value_dim()}, s.kv_len);
    cache.import(problem.keys(), problem.values());
    for (const Index window : {20, 1500, 3000}) {
      const ls::SlidingWindow mask{window};
      TestPool pool{TaskOrder::threads};
      const auto expected = problem.attend<ls::Specification, ls::SlidingWindow>(problem.cache(), {.mask = mask});
      std::vector<float> context(expected.context.size()), lse(expected.lse.size());
      ls::AttendOptions<float, ls::SlidingWindow, ls::Hook> options{.mask = mask, .executor = pool.hook(3)};
      options.lse = ls::View<float, 3>::contiguous(lse.data(), {1, s.heads, q_len});
      const Index bytes = ls::attend_workspace_bytes<ls::SlidingWindow, ls::Hook>(problem.query(), cache, options);
      EXPECT_LT(bytes, Index{4} << 20);
      std::vector<std::byte> memory(at(bytes));
      ls::Workspace workspace(memory.data(), bytes);
      options.workspace = &workspace;
      ls::attend<ls::SlidingWindow, ls::Hook>(
          problem.query(), cache, ls::View<float, 3>::contiguous(context.data(), {q_len, s.heads, s.value_dim()}),
          options);
      EXPECT_TRUE(same_bits(expected.context, context, s.heads * s.value_dim()));
      EXPECT_TRUE(same_bits(expected.lse, lse, q_len));
      EXPECT_GT(pool.calls, 0);
    }
  }
}

TEST(AttendSplits, BeyondOneRoundOfThemHaveTheBitsOfOneRowAfterTheOther) {
  // 66,000 keys are 65 splits: two rounds of 32, and one more.
  const Sizes s{.q_len = 3, .kv_len = 66000, .heads = 4, .kv_heads = 2, .head_dim = 8};
  const Problem<float> problem(s);
  const auto cache = problem.cache();
  const auto expect_on_threads = [&](const auto& mask) {
    using Mask = std::remove_cvref_t<decltype(mask)>;
    const auto expected = problem.attend<ls::Specification, Mask>(cache, {.mask = mask});
    for (const TaskOrder order : {TaskOrder::threads, TaskOrder::reverse}) {
      TestPool pool{order};
      expect_same(s, expected,
                  problem.attend<ls::Tiled, Mask, ls::Hook>(cache, {.mask = mask, .executor = pool.hook(3)}));
      EXPECT_GT(pool.calls, 2);
    }
  };
  expect_on_threads(ls::Causal{});
  expect_on_threads(ls::SlidingWindow{40000});
  expect_on_threads(ls::SlidingWindow{40000, 20});
  // Nothing is seen in the first round, or in the last.
  const auto flags = std::make_unique<bool[]>(66000);
  for (Index key = 40000; key < 66000; ++key) flags[at(key)] = true;
  expect_on_threads(ls::Causal{} & ls::BooleanMask(ls::View<const bool, 1>::contiguous(flags.get(), {66000})));
  for (Index key = 0; key < 66000; ++key) flags[at(key)] = key == 7;
  expect_on_threads(ls::Causal{} & ls::BooleanMask(ls::View<const bool, 1>::contiguous(flags.get(), {66000})));
}

}  // namespace
