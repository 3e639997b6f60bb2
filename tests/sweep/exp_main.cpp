// E(x) over every negative float, or every n-th: its error where it is not 0, and the same bits from vectors of each
// instruction set. Doubles are too many: a sample of them.
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "golden/bits.hpp"
#include "numeric/measure.hpp"

namespace lockstep {
#define LOCKSTEP_EACH_SET "sweep/exp_row.inl"
#include "lockstep/simd/each_set.inl"
}  // namespace lockstep

namespace {

namespace ls = lockstep;
using ls::Index;

long double reference(double x) { return numeric_test::reference_exp_long(x); }
double reference(float x) { return numeric_test::reference_exp(static_cast<double>(x)); }

constexpr int usage_error = 2, most_failures = 10;
int failures = 0;

template <class C>
void fail(const char* what, ls::InstructionSet set, C x, C got, C expected) {
  if (++failures <= most_failures)
    std::printf("FAILED %s, %s: E(%a) is %a, expected %a\n", what, ls::name_of(set), static_cast<double>(x),
                static_cast<double>(got), static_cast<double>(expected));
}

template <class C>
bool same(C a, C b) {
  return std::isnan(a) ? std::isnan(b) : std::memcmp(&a, &b, sizeof(C)) == 0;
}

/// Numbers, checked a block at a time; returns the largest share of the stated error.
template <class C>
class Checked {
 public:
  void add(C x) {
    x_[at_++] = x;
    if (at_ == x_.size()) check();
  }
  /// The rest; what is left of the block is checked along.
  double finish() {
    check();
    return worst_;
  }

 private:
  void check() {
    using K = ls::ExpConstants<C>;
    std::array<C, 4096> expected, got;
    for (std::size_t i = 0; i < at_; ++i) {
      const C e = expected[i] = ls::exp_nonpositive(x_[i]);
      if (e == 0 || std::isnan(e)) continue;
      const double allowed = K::max_error_ulp - K::max_error_ulp_per_unit * static_cast<double>(x_[i]),
                   share = numeric_test::error_ulp(e, reference(x_[i])) / allowed;
      worst_ = share > worst_ ? share : worst_;
      if (!(share <= 1)) fail("error", ls::InstructionSet::portable, x_[i], e, static_cast<C>(reference(x_[i])));
    }
    for (const ls::InstructionSet set : sets_) {
      ls::with_set(set, [&](auto tag) { exp_row(tag, x_.data(), static_cast<Index>(x_.size()), got.data()); });
      for (std::size_t i = 0; i < at_; ++i)
        if (!same(got[i], expected[i])) fail("bits", set, x_[i], got[i], expected[i]);
    }
    at_ = 0;
  }
  const std::vector<ls::InstructionSet> sets_ = bits::instruction_sets();
  std::array<C, 4096> x_{};
  std::size_t at_ = 0;
  double worst_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t step = argc == 3 ? std::strtoull(argv[1], nullptr, 10) : 0,
                      first = argc == 3 ? std::strtoull(argv[2], nullptr, 10) : 0;
  if (step == 0 || first >= step) {
    std::fprintf(stderr, "usage: lockstep_exp STEP FIRST: the floats of bits -0 + FIRST, + FIRST + STEP, ...\n");
    return usage_error;
  }
  const ls::FloatEnvironment environment;
  Checked<float> floats;
  constexpr std::uint64_t sign = 0x80000000U, end = 0x100000000U;
  for (std::uint64_t b = sign + first; b < end; b += step)
    floats.add(std::bit_cast<float>(static_cast<std::uint32_t>(b)));
  Checked<double> doubles;
  numeric_test::Samples samples;
  const int count = step > 2 ? 20000 : 400000;
  for (int i = 0; i < count; ++i) doubles.add(samples.uniform(i % 4 == 0 ? -760.0 : i % 4 == 1 ? -20.0 : -1.0, 0.0));
  for (int i = 0; i < count; ++i) doubles.add(-samples.positive_bits());
  for (const double x : {-0.0, -HUGE_VAL, std::nan(""), 0.0}) doubles.add(x);
  const double float_share = floats.finish(), double_share = doubles.finish();
  std::printf("every %llu-th float from %llu on: largest error %.3f of the stated one, of doubles %.3f; %d failures\n",
              static_cast<unsigned long long>(step), static_cast<unsigned long long>(first), float_share, double_share,
              failures);
  return failures == 0 && float_share > 0.5 && double_share > 0.3 ? 0 : 1;
}
