// attend() against the plain double-precision reference, over shapes and storage types.
#include "attend/problem.hpp"

namespace {

using namespace fixture;

class AttendAgainstReference : public ::testing::TestWithParam<Sizes> {
 protected:
  template <class S>
  static void expect_close() {
    const Problem<S> problem(GetParam());
    const auto cache = problem.cache();
    const auto expected = problem.expected();
    {
      SCOPED_TRACE("Specification" + element_name<S>());
      problem.expect_close(expected, problem.template attend<ls::Specification>(cache));
    }
    SCOPED_TRACE("Materialized" + element_name<S>());
    problem.expect_close(expected, problem.template attend<ls::Materialized>(cache));
  }
};

// The reference takes keys and values as stored, so that 16-bit storage is held to the bound of float.
TEST_P(AttendAgainstReference, FloatIsClose) { expect_close<float>(); }
TEST_P(AttendAgainstReference, DoubleIsClose) { expect_close<double>(); }
TEST_P(AttendAgainstReference, HalfIsClose) { expect_close<Eigen::half>(); }
TEST_P(AttendAgainstReference, Bfloat16IsClose) { expect_close<Eigen::bfloat16>(); }

INSTANTIATE_TEST_SUITE_P(Shapes, AttendAgainstReference,
                         ::testing::Values(Sizes{1, 1, 1, 1, 1}, Sizes{0, 5, 2, 1, 4}, Sizes{1, 1025, 8, 8, 3},
                                           Sizes{3, 257, 8, 2, 8}, Sizes{17, 17, 7, 1, 12}, Sizes{63, 300, 6, 2, 16, 5},
                                           Sizes{5, 130, 16, 2, 64}, Sizes{2, 2049, 3, 1, 24}, Sizes{9, 40, 4, 4, 80},
                                           Sizes{4, 33, 2, 1, 96, 130}, Sizes{1, 64, 14, 2, 112},
                                           Sizes{33, 65, 2, 1, 128}, Sizes{1, 31, 2, 2, 256}, Sizes{20, 7, 2, 1, 8}),
                         ::testing::PrintToStringParamName());

}  // namespace
