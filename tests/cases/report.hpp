// What came out of one case at one precision: the worst error in units of its tolerance, and every fault.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "case.hpp"

namespace cases {

class Report {
 public:
  /// Compares a result (row-major, the shape of the output) with the case's output `name`.
  /// Infinities must be equal, NaN never passes.
  template <class T>
  void compare(const Case& test, const std::string& name, const std::vector<T>& got) {
    const Expected& expected = test.outputs.at(name);
    constexpr bool is_float = std::is_same_v<T, float>;
    const double atol = is_float ? expected.atol_float : expected.atol_double;
    const double rtol = is_float ? expected.rtol_float : expected.rtol_double;
    const std::vector<double>& want = expected.tensor.values;
    compared_.insert(name);
    if (got.size() != want.size())
      return fail(name + ": given " + std::to_string(got.size()) + " values, allowed " + std::to_string(want.size()));
    double worst_here = 0;
    std::size_t where = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      const double ratio = error_ratio(static_cast<double>(got[i]), want[i], atol + rtol * std::abs(want[i]));
      if (ratio > worst_here) {
        worst_here = ratio;
        where = i;
      }
    }
    worst_ = std::max(worst_, worst_here);
    if (worst_here > 1)
      fail(name + " at " + place(where, expected.tensor.shape) + ": given " + to_text(static_cast<double>(got[where])) +
           ", allowed " + to_text(want[where]) + " +- " + to_text(atol + rtol * std::abs(want[where])));
  }

  /// Two ways to the same result must give the same bits.
  template <class T>
  void require_same_bits(const std::string& what, const std::vector<T>& a, const std::vector<T>& b) {
    if (a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0)) return;
    fail(what + ": the bits differ");
  }

  void fail(std::string fault) { faults_.push_back(std::move(fault)); }

  double worst() const { return worst_; }
  std::size_t compared() const { return compared_.size(); }
  const std::vector<std::string>& faults() const { return faults_; }

 private:
  static double error_ratio(double got, double want, double tolerance) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    if (std::isnan(got) || std::isnan(want)) return infinity;
    if (got == want) return 0;
    if (std::isinf(got) || std::isinf(want) || tolerance == 0) return infinity;
    return std::abs(got - want) / tolerance;
  }

  static std::string to_text(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.9g", value);
    return text;
  }

  static std::string place(std::size_t flat, const std::vector<Index>& shape) {
    std::vector<Index> indices(shape.size());
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      const auto extent = static_cast<std::size_t>(shape[axis]);
      indices[axis] = static_cast<Index>(flat % extent);
      flat /= extent;
    }
    return cases::to_text(indices);
  }

  double worst_ = 0;
  std::set<std::string> compared_;
  std::vector<std::string> faults_;
};

}  // namespace cases
