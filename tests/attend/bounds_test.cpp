// The error bounds that the kernels' headers state, on normal numbers at 2048 keys and head_dim 128.
#include "attend/problem.hpp"

namespace {

using namespace fixture;

class StatedBounds : public ::testing::Test {
 protected:
  static constexpr Index keys = 2048;

  /// The largest error of a kernel's context over rows from the whole sequence, and the largest value.
  template <class Kernel>
  static std::pair<double, double> error() {
    double largest = 0, size = 0;
    for (const Index row : {0, 1, 2, 15, 16, 100, 255, 256, 700, 1023, 1024, 1025, 1500, 2046, 2047}) {
      const Problem<float> problem({.q_len = 1, .kv_len = row + 1, .heads = 4, .kv_heads = 1, .head_dim = 128},
                                   1000 + static_cast<std::uint64_t>(row));
      const auto expected = problem.expected();
      largest = std::max(
          largest, largest_difference(expected.context, problem.template attend<Kernel>(problem.cache()).context));
      for (const double value : expected.context) size = std::max(size, std::abs(value));
    }
    return {largest, size};
  }
};

TEST_F(StatedBounds, OfSpecificationHold) { EXPECT_LE(error<ls::Specification>().first, 6e-7); }

TEST_F(StatedBounds, OfMaterializedHold) {
  const auto [largest, size] = error<ls::Materialized>();
  EXPECT_LE(largest, 3e-6 * size);
}

}  // namespace
