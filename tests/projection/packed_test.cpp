#include "lockstep/projection/packed.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/executor/hook.hpp"
#include "lockstep/plain.hpp"

namespace ls = lockstep;
using ls::Index;
using ls::View;

namespace {

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

template <class T>
std::vector<T> normal_numbers(Index n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<T> numbers(at(n));
  for (T& x : numbers) x = static_cast<T>(normal(random));
  return numbers;
}

// A product of sizes, with its contract in scalar code: chains of 256 from +0, added in order, then the bias.
template <class T, class S = T>
struct Product {
  using C = ls::compute_t<S>;

  Product(Index rows_, Index out_, Index in_, bool with_bias)
      : rows(rows_),
        out(out_),
        in(in_),
        x(normal_numbers<T>(rows * in, 1)),
        w(normal_numbers<S>(out * in, 2)),
        bias(with_bias ? normal_numbers<S>(out, 3) : std::vector<S>()),
        packed(out, in) {
    packed.template place<S>(0, View<const S, 2>::contiguous(w.data(), {out, in}), bias_view());
  }
  View<const S, 1> bias_view() const { return bias.empty() ? View<const S, 1>{} : View<const S, 1>(bias); }
  View<const T, 2> x_view() const { return View<const T, 2>::contiguous(x.data(), {rows, in}); }

  T expected(Index row, Index n) const {
    C total = 0;
    for (Index first = 0; first < in; first += 256) {
      C sum = 0;
      for (Index k = first; k < in && k < first + 256; ++k)
        sum = std::fma(ls::widen(x[at(row * in + k)]), ls::widen(w[at(n * in + k)]), sum);
      total = first == 0 ? sum : total + sum;
    }
    return ls::narrow<T>(bias.empty() ? total : total + ls::widen(bias[at(n)]));
  }
  template <class Run = ls::Serial>
  std::vector<T> of(View<const T, 2> some_rows, const Run& executor = {}) const {
    std::vector<T> y(at(some_rows.extent[0] * out));
    std::vector<C> scratch(at(ls::project_scratch<C>(some_rows)));
    ls::project(some_rows, packed, View<T, 2>::contiguous(y.data(), {some_rows.extent[0], out}), executor,
                scratch.data());
    return y;
  }

  Index rows, out, in;
  std::vector<T> x;
  std::vector<S> w, bias;
  ls::PackedWeights<S> packed;
};

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

template <class T, class S = T>
std::string differs_from_contract(const Product<T, S>& product) {
  const std::vector<T> y = product.of(product.x_view());
  for (Index r = 0; r < product.rows; ++r)
    for (Index n = 0; n < product.out; ++n) {
      const T expected = product.expected(r, n);
      if (std::memcmp(&y[at(r * product.out + n)], &expected, sizeof(T)) != 0)
        return "row " + std::to_string(r) + ", column " + std::to_string(n) + " of " + std::to_string(product.out) +
               " from " + std::to_string(product.in);
    }
  return "";
}

template <class T>
class Project : public testing::Test {};
using Elements = testing::Types<float, double, Eigen::half, Eigen::bfloat16>;
TYPED_TEST_SUITE(Project, Elements);

TYPED_TEST(Project, HasTheBitsOfTheContractAtAnySize) {
  for (const Index in : {1, 2, 3, 63, 64, 65, 255, 256, 257, 512, 1031})
    for (const Index out : {1, 63, 64, 65, 101}) {
      EXPECT_EQ(differs_from_contract(Product<TypeParam>(3, out, in, true)), "");
      EXPECT_EQ(differs_from_contract(Product<TypeParam>(1, out, in, false)), "");
    }
}

TYPED_TEST(Project, GivesARowTheSameBitsAmongAnyNumber) {
  for (const auto& [out, in] : {std::pair<Index, Index>{65, 257}, {192, 64}, {255, 300}}) {
    const Product<TypeParam> product(512, out, in, true);
    const std::vector<TypeParam> all = product.of(product.x_view());
    for (const Index rows : {1, 2, 3, 4, 5, 7, 8, 63, 64, 65, 191, 192, 193, 511})
      for (const Index first : {Index{0}, 512 - rows}) {
        const std::vector<TypeParam> some = product.of(product.x_view().part(0, first, rows));
        EXPECT_EQ(std::memcmp(some.data(), all.data() + first * out, some.size() * sizeof(TypeParam)), 0)
            << rows << " rows from " << first;
      }
  }
}

TYPED_TEST(Project, ReadsAndWritesThroughAnyStrides) {
  using T = TypeParam;
  const Product<T> product(5, 70, 261, true);
  const std::vector<T> plain = product.of(product.x_view());
  for (const auto& [row, column] : {std::pair<Index, Index>{262, 1}, {264, 1}, {2 * 261 + 3, 2}, {1, 5}, {1, 7}}) {
    std::vector<T> memory(4000, static_cast<T>(std::numeric_limits<float>::quiet_NaN()));
    const View<T, 2> x(memory.data(), {5, 261}, {row, column});
    for (Index r = 0; r < 5; ++r)
      for (Index k = 0; k < 261; ++k) x(r, k) = product.x[at(r * 261 + k)];
    EXPECT_TRUE(same_bits(product.of(View<const T, 2>(x)), plain)) << row << ", " << column;
  }
  std::vector<T> memory(1000, static_cast<T>(7.0F));
  const View<T, 2> y(memory.data() + 999, {5, 70}, {-2, -11});  // backwards, columns far apart
  std::vector<ls::compute_t<T>> scratch(5 * 261);
  ls::project(product.x_view(), product.packed, y, ls::Serial{}, scratch.data());
  Index untouched = 0;
  for (const T& number : memory) untouched += number == static_cast<T>(7.0F) ? 1 : 0;
  EXPECT_EQ(untouched, 1000 - 350);
  for (Index r = 0; r < 5; ++r)
    for (Index n = 0; n < 70; ++n) EXPECT_EQ(std::memcmp(&y(r, n), &plain[at(r * 70 + n)], sizeof(T)), 0);
}

TYPED_TEST(Project, WithoutBiasHasTheBitsOfAZeroBias) {
  using T = TypeParam;
  Product<T> none(4, 67, 130, false);
  const std::vector<T> plain = none.of(none.x_view());
  none.bias.assign(67, static_cast<T>(0.0F));
  none.packed.template place<T>(0, View<const T, 2>::contiguous(none.w.data(), {67, 130}), none.bias_view());
  EXPECT_TRUE(same_bits(none.of(none.x_view()), plain));
}

TYPED_TEST(Project, HasTheSameBitsOnEveryInstructionSet) {
  const ls::InstructionSet before = ls::instruction_set();
  for (const auto& [rows, out, in] : {std::array<Index, 3>{1, 130, 257}, {2, 63, 64}, {9, 65, 300}, {14, 200, 33}}) {
    const Product<TypeParam> product(rows, out, in, true);
    for (const ls::InstructionSet set : ls::all_instruction_sets) {
      if (!ls::cpu_has(set)) continue;
      ls::force_instruction_set(set);
      EXPECT_EQ(differs_from_contract(product), "") << "set " << static_cast<int>(set);
    }
  }
  ls::force_instruction_set(before);
}

// All tasks in the caller, last first: what a pool may do.
void run_backwards(void*, Index n, ls::Hook::Task task, void* argument) {
  for (Index i = n; i-- > 0;) task(argument, i);
}

TYPED_TEST(Project, HasTheSameBitsOnAnyExecutor) {
  const Product<TypeParam> product(400, 130, 70, true);
  const std::vector<TypeParam> serial = product.of(product.x_view());
  for (const Index threads : {1, 3, 16})
    EXPECT_TRUE(same_bits(product.of(product.x_view(), ls::Hook(run_backwards, nullptr, threads, 0)), serial));
}

TEST(Project, IsNearTheProductInDouble) {
  // One fma chain of at most 256 steps, then at most 4 additions and the bias: 261 roundings of at most half an ulp.
  const Product<float> product(7, 65, 1000, true);
  const std::vector<float> y = product.of(product.x_view());
  for (Index r = 0; r < 7; ++r)
    for (Index n = 0; n < 65; ++n) {
      double exact = static_cast<double>(product.bias[at(n)]), magnitude = std::abs(exact);
      for (Index k = 0; k < 1000; ++k) {
        const double term =
            static_cast<double>(product.x[at(r * 1000 + k)]) * static_cast<double>(product.w[at(n * 1000 + k)]);
        exact += term;
        magnitude += std::abs(term);
      }
      EXPECT_LE(std::abs(static_cast<double>(y[at(r * 65 + n)]) - exact), 261 * 0x1p-24 * magnitude);
    }
}

TEST(Project, MixesStorageOfWeightsWithOtherRows) {
  EXPECT_EQ(differs_from_contract(Product<float, Eigen::bfloat16>(3, 65, 300, true)), "");
  EXPECT_EQ(differs_from_contract(Product<float, Eigen::half>(3, 65, 300, true)), "");
  EXPECT_EQ(differs_from_contract(Product<Eigen::half, float>(3, 65, 300, true)), "");
  EXPECT_EQ(differs_from_contract(Product<Eigen::bfloat16, float>(2, 1, 1, false)), "");
}

TEST(Project, OfNoRowsWritesNothing) {
  const Product<float> product(0, 5, 7, true);
  float guard = 3;
  ls::project(View<const float, 2>(nullptr, {0, 7}, {7, 1}), product.packed, View<float, 2>(&guard, {0, 5}, {5, 1}),
              ls::Serial{}, static_cast<float*>(nullptr));
  EXPECT_EQ(guard, 3);
}

TEST(Project, TakesWhateverAViewCanBeMadeOf) {
  const Product<float> product(3, 70, 261, true);
  const std::vector<float> expected = product.of(product.x_view());
  using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const auto same = [&expected](const Rows& y) {
    return std::memcmp(y.data(), expected.data(), expected.size() * sizeof(float)) == 0;
  };
  Rows x = Eigen::Map<const Rows>(product.x.data(), 3, 261), y = Rows::Zero(3, 70);
  ls::project(x, product.packed, y, ls::Serial{});
  EXPECT_TRUE(same(y)) << "matrices";

  const Eigen::MatrixXf columns = x;  // its rows are strided: scratch is needed
  y.setZero();
  ls::project(columns, product.packed, Eigen::Map<Rows>(y.data(), 3, 70), ls::Serial{});
  EXPECT_TRUE(same(y)) << "a matrix by columns and a map";

  y.setZero();
  ls::project(View<float, 2>(x), product.packed, View<float, 2>(y), ls::Serial{});
  EXPECT_TRUE(same(y)) << "views of numbers that are not const";

  std::vector<float> row(70);
  ls::project(std::vector<float>(product.x.begin(), product.x.begin() + 261), product.packed, row, ls::Serial{});
  EXPECT_EQ(std::memcmp(row.data(), expected.data(), row.size() * sizeof(float)), 0) << "one row";
}

TEST(Project, RefusesOtherShapesAndOverlapBeforeAnythingIsWritten) {
  const Product<float> product(3, 5, 7, true);
  const auto message = [&](const View<const float, 2>& x, View<float, 2> y) -> std::string {
    try {
      ls::project(x, product.packed, y, ls::Serial{});
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  std::vector<float> memory(40, 2.0F);
  const auto y = View<float, 2>::contiguous(memory.data(), {3, 5});
  EXPECT_EQ(message(View<const float, 2>::contiguous(product.x.data(), {3, 6}), y),
            "lockstep: x: given [3, 6], allowed [3, 7]");
  EXPECT_EQ(message(product.x_view(), View<float, 2>::contiguous(memory.data(), {2, 5})),
            "lockstep: y: given [2, 5], allowed [3, 5]");
  EXPECT_EQ(message(product.x_view(), View<float, 2>::contiguous(nullptr, {3, 5})),
            "lockstep: y: given a null view, allowed [3, 5]");
  EXPECT_EQ(message(View<const float, 2>::contiguous(memory.data() + 14, {3, 7}), y),
            "lockstep: y: given memory that overlaps x, allowed memory of its own");
  EXPECT_EQ(memory, std::vector<float>(40, 2.0F));
  EXPECT_EQ(message(product.x_view(), y), "");
}

TEST(Project, RefusesScratchInItsInputOrOutput) {
  const Product<float> product(3, 5, 7, true);
  std::vector<Eigen::half> x(40, Eigen::half(1.0F));
  std::vector<float> y(40, 2.0F), scratch(21);  // a view of const numbers is for the unchecked product
  const auto message = [&](void* memory) -> std::string {
    try {
      ls::project(View<Eigen::half, 2>::contiguous(x.data(), {3, 7}), product.packed,
                  View<float, 2>::contiguous(y.data(), {3, 5}), ls::Serial{}, static_cast<float*>(memory));
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message(y.data() + 14), "lockstep: scratch: given memory that overlaps y, allowed memory of its own");
  EXPECT_EQ(message(x.data()), "lockstep: scratch: given memory that overlaps x, allowed memory of its own");
  EXPECT_EQ(y, std::vector<float>(40, 2.0F));
  EXPECT_EQ(message(y.data() + 15), "");
  EXPECT_EQ(message(scratch.data()), "");
  EXPECT_EQ(message(nullptr), "");
}

TEST(PackedWeights, StacksMatricesOfOneInput) {
  const auto a = normal_numbers<float>(3 * 70, 1), b = normal_numbers<float>(66 * 70, 2),
             x = normal_numbers<float>(70, 3), bias = normal_numbers<float>(66, 4);
  const auto matrix = [](const std::vector<float>& numbers, Index out) {
    return View<const float, 2>::contiguous(numbers.data(), {out, 70});
  };
  ls::PackedWeights<float> first(3, 70), second(66, 70), both(69, 70);
  first.place<float>(0, matrix(a, 3), {});
  second.place<float>(0, matrix(b, 66), View<const float, 1>(bias));
  both.place<float>(0, matrix(a, 3), {});
  both.place<float>(3, matrix(b, 66), View<const float, 1>(bias));
  std::vector<float> apart(69), stacked(69);
  const auto row = [](float* numbers, Index out) { return View<float, 2>::contiguous(numbers, {1, out}); };
  const auto in = View<const float, 2>::contiguous(x.data(), {1, 70});
  ls::project(in, first, row(apart.data(), 3), ls::Serial{}, static_cast<float*>(nullptr));
  ls::project(in, second, row(apart.data() + 3, 66), ls::Serial{}, static_cast<float*>(nullptr));
  ls::project(in, both, row(stacked.data(), 69), ls::Serial{}, static_cast<float*>(nullptr));
  EXPECT_TRUE(same_bits(apart, stacked));
}

TEST(PackedWeights, ReadsWeightsThroughStrides) {
  const Product<float> product(1, 5, 9, false);
  std::vector<float> transposed(45);
  for (Index n = 0; n < 5; ++n)
    for (Index k = 0; k < 9; ++k) transposed[at(k * 5 + n)] = product.w[at(n * 9 + k)];
  ls::PackedWeights<float> packed(5, 9);
  packed.place<float>(0, View<const float, 2>(transposed.data(), {5, 9}, {1, 5}), {});
  std::vector<float> y(5);
  ls::project(product.x_view(), packed, View<float, 2>::contiguous(y.data(), {1, 5}), ls::Serial{},
              static_cast<float*>(nullptr));
  EXPECT_TRUE(same_bits(y, product.of(product.x_view())));
}

}  // namespace
