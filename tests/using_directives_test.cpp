// A program may open both namespaces: the C library's functions keep their meaning, and ours are reached by their
// names.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "lockstep/lockstep.hpp"
#include "lockstep/numeric/exp.hpp"

using namespace std;
using namespace lockstep;

// Declared where a program's own names are, so that unqualified ones find what the directives show, not the test's.
namespace program {

template <class T>
bool cmath_keeps_its_meaning(T x, T y) {
  // Each would not compile if a name of the library's were as good.
  return fma(x, y, x) == std::fma(x, y, x) && tanh(x) == std::tanh(x) && exp(x) == std::exp(x) &&
         exp2(x) == std::exp2(x) && expm1(x) == std::expm1(x) && log(y) == std::log(y) && log2(y) == std::log2(y) &&
         pow(y, x) == std::pow(y, x) && sqrt(y) == std::sqrt(y) && sin(x) == std::sin(x) && cos(x) == std::cos(x) &&
         round(x) == std::round(x) && rint(x) == std::rint(x) && trunc(x) == std::trunc(x) && abs(x) == std::abs(x) &&
         fmax(x, y) == std::fmax(x, y) && min(x, y) == std::min(x, y) && max(x, y) == std::max(x, y) &&
         scalbn(x, 2) == std::scalbn(x, 2) && isnan(x) == std::isnan(x);
}

bool mixed_arguments_do_too() {
  return fma(2, 3.0, 1.0F) == 7 && fma(2.0F, 3.0, 1.0) == 7 && fma(2, 3, 1) == 7 && tanh(0) == 0 && exp(0) == 1 &&
         pow(2, 3.0F) == 8;
}

vector<float> attended() {
  ContiguousCache<float> cache({1, 2, 2}, 4);
  const vector<float> rows{1, 2, 3, 4};
  cache.append(View<const float, 3>::contiguous(rows.data(), {2, 1, 2}),
               View<const float, 3>::contiguous(rows.data(), {2, 1, 2}));
  vector<float> context(2);
  attend<Causal>(View<const float, 3>::contiguous(rows.data(), {1, 1, 2}), cache,
                 View<float, 3>::contiguous(context.data(), {1, 1, 2}));
  return context;
}

}  // namespace program

TEST(UsingDirectives, LeaveTheFunctionsOfCmathAlone) {
  EXPECT_TRUE(program::cmath_keeps_its_meaning(0.3F, 1.7F));
  EXPECT_TRUE(program::cmath_keeps_its_meaning(0.3, 1.7));
  EXPECT_TRUE(program::cmath_keeps_its_meaning(0.3L, 1.7L));
  EXPECT_TRUE(program::mixed_arguments_do_too());
  static_assert(is_same_v<decltype(fma(1.0F, 2.0F, 3.0F)), float> && is_same_v<decltype(tanh(1)), double>);
}

TEST(UsingDirectives, ReachTheLibrary) {
  const vector<float> context = program::attended();
  EXPECT_GT(context[0], 2.5F);
  EXPECT_EQ(power(2.0, 3.0), 8.0);
  EXPECT_EQ(lockstep::fma(2.0F, 3.0F, 1.0F), 7.0F);
  EXPECT_EQ(lockstep::tanh(0.0), 0.0);
}
