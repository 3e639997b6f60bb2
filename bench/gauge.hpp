// Rates, read by repeating work; and what many readings say together.
#pragma once

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "numbers.hpp"

namespace bench {

inline double now() noexcept {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Which seconds count: those on the wall, or those in which the calling thread ran. What other processes take of a
/// core is no property of the work; work on several threads has the wall's seconds only.
enum class Clock { wall, thread };

inline double seconds_of(Clock clock) noexcept {
  if (clock == Clock::wall) return now();
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Work whose rate is read by running it a number of times that makes one reading long enough for the clock.
class Gauge {
 public:
  Gauge() = default;
  /// One run does `amount` of the unit that the rate is counted in: FLOP, bytes, runs.
  Gauge(std::function<void()> run, double amount, Clock clock = Clock::thread)
      : run_(std::move(run)), amount_(amount), clock_(clock) {}

  /// Runs once to warm up, and once or more to find how many runs take `reading` seconds.
  void calibrate(double reading) {
    run_();
    for (times_ = 1;; times_ *= 2) {
      const double taken = seconds();
      if (taken < reading / 8 && times_ < (Index{1} << 40)) continue;
      const double wanted = static_cast<double>(times_) * reading / taken;
      times_ = wanted < 1 ? 1 : static_cast<Index>(std::lround(wanted));
      return;
    }
  }
  bool calibrated() const noexcept { return times_ > 0; }
  /// Amount a second.
  double read() const { return amount_ * static_cast<double>(times_) / seconds(); }

 private:
  double seconds() const {
    const double start = seconds_of(clock_);
    for (Index i = 0; i < times_; ++i) run_();
    return seconds_of(clock_) - start;
  }

  std::function<void()> run_;
  double amount_ = 1;
  Clock clock_ = Clock::thread;
  Index times_ = 0;
};

/// The number below which a share of the readings lies. Precondition: at least one.
inline double quantile(std::vector<double> readings, double share) {
  std::sort(readings.begin(), readings.end());
  const double place = share * static_cast<double>(readings.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = below + 1 < readings.size() ? below + 1 : below;
  return readings[below] + (place - static_cast<double>(below)) * (readings[above] - readings[below]);
}

/// Two readings of one limit, before and after the work that is compared with it.
struct Around {
  double before, after;
  /// A limit that moved by more than this between its readings says nothing of what lay between them.
  static constexpr double most_change = 0.03;
  bool steady() const noexcept { return std::abs(before - after) <= most_change * std::min(before, after); }
  double mean() const noexcept { return (before + after) / 2; }
};

/// Ratios, or absolute numbers, of one line. Those read while the limit moved are discarded.
class Ratios {
 public:
  static constexpr std::size_t least_kept = 5;

  void add(double ratio, bool steady) {
    all_.push_back(ratio);
    if (steady) kept_.push_back(ratio);
  }
  bool stable() const noexcept { return kept_.size() >= least_kept; }
  std::size_t kept() const noexcept { return kept_.size(); }
  std::size_t taken() const noexcept { return all_.size(); }
  /// Of the kept ratios; of all, as the best there is, where too few were kept.
  double median() const { return quantile(used(), 0.5); }
  /// The middle half of the ratios lies within this, relative to the median.
  double spread() const { return (quantile(used(), 0.75) - quantile(used(), 0.25)) / median(); }

 private:
  const std::vector<double>& used() const noexcept { return stable() ? kept_ : all_; }
  std::vector<double> all_, kept_;
};

}  // namespace bench
