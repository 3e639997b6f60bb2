// lockstep_report: each workload as a share of what the machine can do, measured in turns with that limit.
#include "report.hpp"

#include <malloc.h>

#include <cstring>
#include <exception>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <thread>

#include "default_eigen.hpp"

namespace bench {

namespace {

// A quick report ends within 45 seconds; the rest is for the last workload's set-up and overrun.
constexpr double quick_seconds = 32;
constexpr std::size_t enough_kept_quick = 11, enough_kept = 31;
// Slow readings may double a line's time to get this many repetitions; fewest_taken are made whatever the time.
constexpr std::size_t few_taken = 8, fewest_taken = 3;
constexpr double most_seconds_quick = 1.2, most_seconds = 10;

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f%%", 100 * share);
  return text;
}

}  // namespace

void Report::run(const std::vector<Entry>& entries) {
  std::vector<const Entry*> chosen;
  for (const Entry& entry : entries)
    for (const std::string& unit : entry.units)
      if (wanted(entry, unit)) {
        chosen.push_back(&entry);
        break;
      }
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    // Measured time is a share of what is left: set-up and calibration take the rest of it.
    const double left = quick_seconds - (now() - started_);
    const double share = 0.5 * left / static_cast<double>(chosen.size() - i);
    until_ = options_.quick ? std::min(most_seconds_quick, std::max(share, 0.1)) : most_seconds;
    right_ = true;
    chosen[i]->measure(*this, *chosen[i]);
  }
}

void Report::compare(const Entry& entry, Gauge work, const std::vector<Limit>& limits) {
  std::vector<const Limit*> used;
  for (const Limit& limit : limits)
    if (wanted(entry, limit.unit)) used.push_back(&limit);
  work.calibrate(reading());
  for (const Limit* limit : used)
    if (!limit->gauge->calibrated()) limit->gauge->calibrate(reading());

  std::vector<Ratios> ratios(used.size());
  std::vector<double> before(used.size());
  for (std::size_t l = 0; l < used.size(); ++l) before[l] = used[l]->gauge->read();
  const double end = now() + until_;
  const auto enough = [&] {
    for (const Ratios& r : ratios)
      if (r.kept() < (options_.quick ? enough_kept_quick : enough_kept)) return false;
    return true;
  };
  const auto patience = [&] {
    if (now() < end) return true;
    const bool in_time = !options_.quick || now() - started_ < quick_seconds;
    return ratios[0].taken() < (now() < end + until_ && in_time ? few_taken : fewest_taken);
  };
  while (!enough() && patience()) {
    const double rate = work.read();
    for (std::size_t l = 0; l < used.size(); ++l) {
      const double after = used[l]->gauge->read();
      const Around limit{before[l], after};
      ratios[l].add(rate / limit.mean(), limit.steady());
      before[l] = after;
    }
  }
  for (std::size_t l = 0; l < used.size(); ++l) print(entry, used[l]->unit, ratios[l]);
}

void Report::absolute(const Entry& entry, Gauge& gauge, const std::function<double(double)>& value) {
  if (!gauge.calibrated()) gauge.calibrate(reading());
  Ratios readings;
  double before = gauge.read();
  const double end = now() + until_ / 2;
  while (readings.kept() < (options_.quick ? enough_kept_quick : enough_kept) &&
         (now() < end || readings.taken() < fewest_taken)) {
    const double after = gauge.read();
    const Around both{before, after};
    readings.add(value(both.mean()), both.steady());
    before = after;
  }
  print(entry, entry.units[0], readings);
}

void Report::print(const Entry& entry, const std::string& unit, const Ratios& ratios) {
  Line line{entry.name, unit, "ok", ratios.median(), ratios.spread(), ratios.kept(), ratios.taken()};
  if (!ratios.stable()) line.status = "unstable";
  if (openblas_forced() && (unit == "/sgemm" || entry.name == "limit_sgemm")) line.status = "invalid";
  if (!right_) {
    line.status = "wrong";
    all_right_ = false;
  }
  std::printf("%-28s %9.3f %-12s %6s%s%s\n", line.name.c_str(), line.ratio, line.unit.c_str(),
              percent(line.spread).c_str(), line.status == "ok" ? "" : " ",
              line.status == "ok" ? "" : line.status.c_str());
  std::fflush(stdout);
  lines_.push_back(std::move(line));
}

Gauge& Report::fma() {
  if (!fma_.calibrated()) {
    fma_ = fma_limit(ls::instruction_set());
    fma_.calibrate(reading());
  }
  return fma_;
}

StreamBuffer& Report::buffer() {
  if (!buffer_) buffer_.emplace();
  return *buffer_;
}

Gauge& Report::stream() {
  if (!stream_.calibrated()) {
    stream_ = buffer().limit<4>();
    stream_.calibrate(reading());
  }
  return stream_;
}

Gauge& Report::one_stream() {
  if (!one_stream_.calibrated()) {
    one_stream_ = buffer().limit<1>();
    one_stream_.calibrate(reading());
  }
  return one_stream_;
}

Gauge& Report::sgemm() {
#if LOCKSTEP_HAVE_OPENBLAS
  if (!sgemm_.calibrated()) {
    sgemm_ = sgemm_limit(1024);
    sgemm_.calibrate(reading());
    Gauge registers = fma_limit(ls::best_instruction_set());
    registers.calibrate(reading());
    const double share = sgemm_.read() / registers.read();
    if (share < 0.5)
      std::printf(
          "# OpenBLAS's %s kernel reaches %s of this CPU's multiply-adds: no yardstick here, see the /fma lines\n",
          openblas_kernel(), percent(share).c_str());
  }
#endif
  return sgemm_;
}

namespace {

std::vector<Entry> limit_entries() {
  const auto in_billions = [](double rate) { return rate * 1e-9; };
  const auto of = [in_billions](Gauge& (Report::*limit)()) {
    return [limit, in_billions](Report& report, const Entry& entry) {
      report.absolute(entry, (report.*limit)(), in_billions);
    };
  };
  std::vector<Entry> entries{{"limit_fma", {"GFLOP/s"}, of(&Report::fma)},
                             {"limit_stream", {"GB/s"}, of(&Report::stream)},
                             {"limit_one_stream", {"GB/s"}, of(&Report::one_stream)}};
  if (have_openblas) entries.push_back({"limit_sgemm", {"GFLOP/s"}, of(&Report::sgemm)});
  return entries;
}

constexpr const char* usage =
    "lockstep_report [--quick] [--filter TEXT] [--json FILE] [--help]\n"
    "\n"
    "Prints one line a workload: name, ratio, unit, spread. The unit names the limit that the ratio is to:\n"
    "  /sgemm   OpenBLAS sgemm on one thread, of 1024^3 or of the projection's own shape\n"
    "  /fma     multiply-adds in the registers of the instruction set in use\n"
    "  /stream  bytes of keys and values, or weights, once as stored, over a read of memory in four streams\n"
    "  /eigen   the same layer in plain Eigen, built without flags for this machine, as Lockstep may be\n"
    "  /eigen_native  the same, built with -march=native\n"
    "  /one_thread  the same work on one thread\n"
    "Work and limit are measured in turns. A repetition before and after which the limit differs by more than 3 % is\n"
    "discarded; the ratio is the median of the others, the spread the width of their middle half. A line with fewer "
    "than\n"
    "5 left says `unstable`, one whose OpenBLAS kernel was forced by OPENBLAS_CORETYPE `invalid`, one whose result "
    "has\n"
    "not the bits of the specification `wrong` (and the exit code is 1).\n"
    "\n"
    "  --quick        ends within 45 seconds\n"
    "  --filter TEXT  only lines whose \"name unit\" contains TEXT\n"
    "  --json FILE    also writes the lines as JSON\n"
    "LOCKSTEP_INSTRUCTION_SET=portable, avx2, avx512 or neon chooses the instruction set.\n";

Report::Options parse(int count, char** arguments) {
  Report::Options options;
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    const auto value = [&] {
      if (i + 1 == count) throw std::invalid_argument(argument + " needs a value");
      return std::string(arguments[++i]);
    };
    if (argument == "--help") {
      std::cout << usage;
      std::exit(0);
    } else if (argument == "--quick") {
      options.quick = true;
    } else if (argument == "--filter") {
      options.filter = value();
    } else if (argument == "--json") {
      options.json = value();
    } else {
      throw std::invalid_argument("unknown argument " + argument + "; --help lists the known ones");
    }
  }
  return options;
}

/// The machine, as pairs of a name and what is said of it.
std::vector<std::pair<std::string, std::string>> facts() {
  const auto megabytes = [](Index bytes) { return std::to_string(bytes >> 20) + " MiB"; };
  return {{"processor", processor_name()},
          {"threads", std::to_string(std::thread::hardware_concurrency())},
          {"instruction_set", ls::name_of(ls::instruction_set())},
          {"last_level_cache", megabytes(last_level_cache())},
          {"stream_buffer", megabytes(beyond_cache())},
          {"eigen", DefaultEigenLayer::instructions()},
          {"eigen_native", Eigen::SimdInstructionSetsInUse()},
          {"openblas_kernel", openblas_kernel()}};
}

void write_json(const std::string& file, const std::vector<Line>& lines) {
  std::ofstream out(file);
  out << "{\n";
  for (const auto& [name, value] : facts()) out << "  \"" << name << "\": \"" << value << "\",\n";
  out << "  \"lines\": [";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Line& line = lines[i];
    out << (i == 0 ? "" : ",") << "\n    {\"name\": \"" << line.name << "\", \"ratio\": " << line.ratio
        << ", \"unit\": \"" << line.unit << "\", \"spread\": " << line.spread << ", \"status\": \"" << line.status
        << "\", \"kept\": " << line.kept << ", \"taken\": " << line.taken << "}";
  }
  out << "\n  ]\n}\n";
  if (!out) throw std::runtime_error("cannot write " + file);
}

int run(int count, char** arguments) {
  const Report::Options options = parse(count, arguments);
#if defined(__GLIBC__)
  // Memory given back to the system would come back in fresh pages, whose first touch takes longer than the
  // measurements.
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
#endif
  use_one_openblas_thread();
  for (const auto& [name, value] : facts()) std::printf("# %s: %s\n", name.c_str(), value.c_str());
  if (beyond_cache() < 2 * last_level_cache())
    std::printf("# memory is short: the stream buffer is less than twice the last-level cache\n");
  if (openblas_forced()) std::printf("# OPENBLAS_CORETYPE is set: lines over OpenBLAS are invalid\n");
  if (std::getenv("OPENBLAS_L2_SIZE") != nullptr) std::printf("# OPENBLAS_L2_SIZE is set: OpenBLAS may be slow\n");

  Report report(options);
  std::vector<Entry> entries = limit_entries();
  for (const auto& more : {attention_entries(), layer_entries(), policy_entries()})
    entries.insert(entries.end(), more.begin(), more.end());
  report.run(entries);
  if (report.lines().empty()) throw std::invalid_argument("no line contains \"" + options.filter + "\"");
  if (!options.json.empty()) write_json(options.json, report.lines());
  return report.all_right() ? 0 : 1;
}

}  // namespace

}  // namespace bench

int main(int count, char** arguments) {
  try {
    return bench::run(count, arguments);
  } catch (const std::exception& error) {
    std::cerr << "lockstep_report: " << error.what() << '\n';
    return 2;
  }
}
