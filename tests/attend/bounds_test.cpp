// The errors that the kernels' headers state, on normal numbers at up to 2048 keys and head_dim 128, and beside them
// those of the formula evaluated in single precision as it stands. All against the same evaluation in long double.
#include <iostream>

#include "attend/problem.hpp"

namespace {

using namespace fixture;

/// softmax(q k^T / sqrt(head_dim)) v of one query and one kv head, step by step in N, by the standard library's
/// functions: [heads, head_dim].
template <class N>
std::vector<N> textbook(const Problem<float>& problem) {
  const auto& [q_len, kv_len, heads, kv_heads, dim, v_dim] = problem.sizes;
  std::vector<N> context(at(heads * dim)), weight(at(kv_len));
  for (Index h = 0; h < heads; ++h) {
    N largest = -std::numeric_limits<N>::infinity(), sum = 0;
    for (Index j = 0; j < kv_len; ++j) {
      N logit = 0;
      for (Index d = 0; d < dim; ++d)
        logit += static_cast<N>(problem.q[at(h * dim + d)]) * static_cast<N>(problem.k[at(j * dim + d)]);
      weight[at(j)] = logit / std::sqrt(static_cast<N>(dim));
      largest = std::max(largest, weight[at(j)]);
    }
    for (N& w : weight) sum += w = std::exp(w - largest);
    for (Index j = 0; j < kv_len; ++j)
      for (Index d = 0; d < dim; ++d)
        context[at(h * dim + d)] += weight[at(j)] / sum * static_cast<N>(problem.v[at(j * dim + d)]);
  }
  return context;
}

struct Errors {
  double specification = 0, materialized = 0, textbook = 0;  // the largest difference of a number
  double size = 0;                                           // the largest number
};

/// Over rows from the whole of a sequence, four heads each.
Errors measured() {
  Errors e;
  const auto raise_to_difference = [](double& largest, const std::vector<long double>& exact,
                                      const std::vector<float>& context) {
    for (std::size_t i = 0; i < exact.size(); ++i)
      largest = std::max(largest, static_cast<double>(std::abs(static_cast<long double>(context[i]) - exact[i])));
  };
  for (const Index row : {0, 1, 2, 15, 16, 100, 255, 256, 700, 1023, 1024, 1025, 1500, 2046, 2047}) {
    const Problem<float> problem({.q_len = 1, .kv_len = row + 1, .heads = 4, .kv_heads = 1, .head_dim = 128},
                                 1000 + static_cast<std::uint64_t>(row));
    const auto cache = problem.cache();
    const std::vector<long double> exact = textbook<long double>(problem);
    for (const long double number : exact) e.size = std::max(e.size, static_cast<double>(std::abs(number)));
    raise_to_difference(e.specification, exact, problem.attend<ls::Specification>(cache).context);
    raise_to_difference(e.materialized, exact, problem.attend<ls::Materialized>(cache).context);
    raise_to_difference(e.textbook, exact, textbook<float>(problem));
  }
  return e;
}

class StatedBounds : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    errors = measured();
    std::cout << "largest error: Specification " << errors.specification << ", Materialized " << errors.materialized
              << ", the formula in single precision " << errors.textbook << "; largest number " << errors.size << '\n';
  }
  static inline Errors errors;
};

TEST_F(StatedBounds, OfSpecificationHold) { EXPECT_LE(errors.specification, 6e-7); }

TEST_F(StatedBounds, OfMaterializedHold) { EXPECT_LE(errors.materialized, 3e-6 * errors.size); }

TEST_F(StatedBounds, AreNotAboveTheErrorOfTheFormulaInSinglePrecision) {
  EXPECT_LE(errors.specification, errors.textbook);
}

TEST_F(StatedBounds, AreMeasuredAgainstWhatTheReferenceSays) {
  const Problem<float> problem({.q_len = 1, .kv_len = 300, .heads = 4, .kv_heads = 1, .head_dim = 128});
  EXPECT_LE(largest_difference(problem.expected().context, textbook<long double>(problem)), 1e-14);
}

}  // namespace
