// Golden bits of what attention stands on: the numeric functions over their ranges, and projections.
#include <bit>
#include <lockstep/dropout/dropout.hpp>
#include <lockstep/numeric/exp.hpp>
#include <lockstep/numeric/log.hpp>
#include <lockstep/numeric/trig.hpp>
#include <lockstep/plain.hpp>

#include "cases.hpp"
#include "kernel_instances.hpp"

namespace golden {

namespace {

using namespace bits;

/// f over the n numbers first, first + step, ..., all of them exact. In the environment that every call of the library
/// makes for such functions: under -funsafe-math-optimizations g++ starts programs with denormals flushed to zero.
template <class T, class F>
std::uint64_t over(T first, T step, Index n, F f) {
  const ls::FloatEnvironment environment;
  std::vector<T> results;
  for (Index i = 0; i < n; ++i) results.push_back(f(first + static_cast<T>(i) * step));
  Hash hash;
  hash.add(results);
  return hash.value();
}

std::uint64_t exp_float() {
  return over(-128.0f, 0x1p-5f, 4097, [](float x) { return ls::exp_nonpositive(x); });
}
std::uint64_t exp_double() {
  return over(-1024.0, 0x1p-2, 4097, [](double x) { return ls::exp_nonpositive(x); });
}
std::uint64_t tanh_float() {
  return over(-16.0f, 0x1p-6f, 2049, [](float x) { return ls::tanh(x); });
}
std::uint64_t tanh_double() {
  return over(-32.0, 0x1p-5, 2049, [](double x) { return ls::tanh(x); });
}
std::uint64_t log_double() {
  return over(0x1p-7, 0x1.00001p-6, 4096, [](double x) { return ls::log_positive(x); });
}
std::uint64_t power_double() {
  return over(-2.0, 0x1p-9, 1025, [](double x) { return ls::power(10000, x); });
}
std::uint64_t sin_cos() {
  const std::uint64_t sine = over(0.0, 0x1.91p+3, 2048, [](double x) { return ls::sin_cos(x).sin; });
  return sine * 3 + over(0.0, 0x1.91p-3, 2048, [](double x) { return ls::sin_cos(x).cos; });
}
std::uint64_t philox() {
  std::vector<std::uint32_t> words;
  for (std::uint32_t i = 0; i < 256; ++i)
    for (const std::uint32_t word : ls::philox4x32_10({i, i * 77, 3, ~i}, {0x12345678u, i})) words.push_back(word);
  Hash hash;
  hash.add(words);
  return hash.value();
}

/// All that 16 bits can hold, widened; and floats around every one of them, narrowed.
template <class S>
std::uint64_t sixteen_bits() {
  std::vector<float> wide;
  std::vector<S> narrow;
  Integers integers(5);
  for (std::uint32_t i = 0; i < 0x10000; i += 3) {
    const float x = ls::widen(std::bit_cast<S>(static_cast<std::uint16_t>(i)));
    // A NaN's payload is no number.
    if (x != x) continue;
    wide.push_back(x);
    const std::uint32_t near =
        std::bit_cast<std::uint32_t>(x) + static_cast<std::uint32_t>(integers.below(0x4000)) - 0x2000;
    if (const float y = std::bit_cast<float>(near); y == y) narrow.push_back(ls::narrow<S>(y));
  }
  Hash hash;
  hash.add(wide);
  hash.add(narrow);
  return hash.value();
}

/// Two blocks of the inner index and a part of one, more than one panel, more rows than a register tile.
template <class T, class S>
std::uint64_t projection() {
  constexpr Index rows = 9, in = 530, out = 70;
  using Compute = ls::compute_t<T>;
  const auto x = numbers<T>(rows * in, 1, 2), weight = numbers<T>(out * in, 2, 0.125), bias = numbers<T>(out, 3, 4);
  ls::PackedWeights<S> packed(out, in);
  packed.place(0, ls::View<const T, 2>::contiguous(weight.data(), {out, in}), ls::View<const T, 1>(bias));
  std::vector<T> y(at(rows * out));
  std::vector<Compute> scratch(at(rows * in));
  ls::project(ls::View<const T, 2>::contiguous(x.data(), {rows, in}), packed,
              ls::View<T, 2>::contiguous(y.data(), {rows, out}), ls::Serial{}, scratch.data());
  Hash hash;
  hash.add(y);
  return hash.value();
}

}  // namespace

std::vector<Case> ground_cases() {
  std::vector<Case> cases;
  const auto add = [&](const char* name, std::uint64_t (*hash)()) {
    cases.push_back({name, {Kernel::tiled}, [hash](Kernel) { return hash(); }});
  };
  add("exp_float", &exp_float);
  add("exp_double", &exp_double);
  add("tanh_float", &tanh_float);
  add("tanh_double", &tanh_double);
  add("log_double", &log_double);
  add("power_double", &power_double);
  add("sin_cos_double", &sin_cos);
  add("philox", &philox);
  add("half_conversions", &sixteen_bits<Eigen::half>);
  add("bfloat16_conversions", &sixteen_bits<Eigen::bfloat16>);
  add("project_float", &projection<float, float>);
  add("project_double", &projection<double, double>);
  add("project_half", &projection<Eigen::half, Eigen::half>);
  add("project_bfloat16", &projection<Eigen::bfloat16, Eigen::bfloat16>);
  add("project_float_by_bfloat16", &projection<float, Eigen::bfloat16>);
  return cases;
}

}  // namespace golden
