// Lines of the report: work measured together with its own limit, in turns.
#pragma once

#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gauge.hpp"
#include "limits.hpp"

namespace bench {

/// What one line says.
struct Line {
  std::string name, unit, status;  ///< status: ok, unstable, invalid, wrong
  double ratio = 0, spread = 0;
  std::size_t kept = 0, taken = 0;
};

/// A limit under its unit: the ratio to it is what a line prints.
struct Limit {
  std::string unit;
  Gauge* gauge;
};

class Report;

/// A workload: its lines, and what sets it up and measures it.
struct Entry {
  std::string name;
  std::vector<std::string> units;
  std::function<void(Report&, const Entry&)> measure;
};

/// Runs entries one after the other, each within its share of the time, and prints a line a workload and unit.
class Report {
 public:
  struct Options {
    bool quick = false;
    std::string filter;
    std::string json;
  };

  explicit Report(Options options) : options_(std::move(options)), started_(now()) {}

  void run(const std::vector<Entry>& entries);

  /// Measures work in turns with its limits: limit, work, limit, work, limit ... Each reading of a limit serves the
  /// work before and the work after it.
  void compare(const Entry& entry, Gauge work, const std::vector<Limit>& limits);
  /// A line of absolute numbers, `value` of each rate. Two readings in turn must agree as two readings of a limit must.
  void absolute(const Entry& entry, Gauge& gauge, const std::function<double(double)>& value);
  /// Says whether the results of the entry's work are right, before it is measured.
  void check(bool right) {
    if (!right) right_ = false;
  }

  /// FLOP/s in registers, of the instruction set in use.
  Gauge& fma();
  /// Bytes a second, read in four streams.
  Gauge& stream();
  /// Bytes a second, read in one stream.
  Gauge& one_stream();
  /// FLOP/s of OpenBLAS's product of two 1024 x 1024 matrices. Precondition: have_openblas.
  Gauge& sgemm();
  StreamBuffer& buffer();

  bool all_right() const noexcept { return all_right_; }
  const std::vector<Line>& lines() const noexcept { return lines_; }

 private:
  bool wanted(const Entry& entry, const std::string& unit) const {
    const bool offered = std::find(entry.units.begin(), entry.units.end(), unit) != entry.units.end();
    const bool possible = have_openblas || unit != "/sgemm";
    return offered && possible && (entry.name + " " + unit).find(options_.filter) != std::string::npos;
  }
  double reading() const noexcept { return options_.quick ? 0.012 : 0.05; }
  void print(const Entry& entry, const std::string& unit, const Ratios& ratios);

  Options options_;
  double started_ = 0;
  double until_ = 0;  // of the entry that is being measured
  bool right_ = true, all_right_ = true;
  std::optional<StreamBuffer> buffer_;
  Gauge fma_, stream_, one_stream_, sgemm_;
  std::vector<Line> lines_;
};

/// Prefill, chunk and decode: attention proper.
std::vector<Entry> attention_entries();
/// Projections and whole layers.
std::vector<Entry> layer_entries();
/// What policies cost.
std::vector<Entry> policy_entries();

}  // namespace bench
