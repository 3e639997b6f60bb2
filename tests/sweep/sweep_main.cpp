// Tiled = Specification, bit for bit, over as many seeded configurations as are asked for.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "compare.hpp"

namespace {

using namespace sweep;

constexpr int exit_failed = 1, exit_usage = 2;
/// Later ones mostly say the same.
constexpr int most_failures = 10;
/// Plain C++ without vectors runs costly configurations now and then only.
constexpr double portable_cost = 3;
constexpr std::uint64_t portable_every = 8;

constexpr const char* usage =
    "usage: lockstep_sweep [--count N] [--shard I/N] [--at-most MFLOP] [--only NUMBER]\n"
    "  --count N        configurations 0 to N - 1 (default 400)\n"
    "  --shard I/N      of these, every Nth from the Ith on, from 0\n"
    "  --at-most MFLOP  pass over those that cost more\n"
    "  --only NUMBER    this one alone; so does the environment variable LOCKSTEP_SWEEP_ONLY=NUMBER\n"
    "The environment variable LOCKSTEP_INSTRUCTION_SET restricts the run to one instruction set.\n";

struct Arguments {
  std::uint64_t first = 0, step = 1, count = 400;
  double at_most = 1e9;
  bool only = false;
  bool understood = true;
};

void choose_only(Arguments& arguments, const char* number) {
  arguments.first = std::strtoull(number, nullptr, 10);
  arguments.count = arguments.first + 1;
  arguments.step = 1;
  arguments.only = true;
}

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; i += 2) {
    const std::string option = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (option == "--count" && *value != 0)
      arguments.count = std::strtoull(value, nullptr, 10);
    else if (option == "--shard" && std::strchr(value, '/') != nullptr) {
      arguments.first = std::strtoull(value, nullptr, 10);
      arguments.step = std::strtoull(std::strchr(value, '/') + 1, nullptr, 10);
    } else if (option == "--at-most" && *value != 0)
      arguments.at_most = std::strtod(value, nullptr);
    else if (option == "--only" && *value != 0)
      choose_only(arguments, value);
    else
      arguments.understood = false;
  }
  if (const char* number = std::getenv("LOCKSTEP_SWEEP_ONLY")) choose_only(arguments, number);
  if (arguments.step == 0) arguments.understood = false;
  return arguments;
}

Outcome compare_any(const Configuration& c, const std::vector<ls::InstructionSet>& sets) {
  switch (c.storage) {
    case Storage::of_double:
      return compare<double>(c, sets);
    case Storage::of_half:
      return compare<Eigen::half>(c, sets);
    case Storage::of_int8:
      return compare<std::int8_t>(c, sets);
    case Storage::of_bfloat16:
      return compare<Eigen::bfloat16>(c, sets);
    case Storage::of_float:
      break;
  }
  return compare<float>(c, sets);
}

int run(const Arguments& arguments, const char* program) {
  const std::vector<ls::InstructionSet> all = instruction_sets();
  int ran = 0, layers = 0, equal = 0, failures = 0;
  for (std::uint64_t n = arguments.first; n < arguments.count && failures < most_failures; n += arguments.step) {
    const Configuration c(n);
    if (c.cost() > arguments.at_most) continue;
    std::vector<ls::InstructionSet> sets;
    for (const ls::InstructionSet set : all)
      if (all.size() == 1 || arguments.only || set != ls::InstructionSet::portable || c.cost() < portable_cost ||
          n % portable_every == 0)
        sets.push_back(set);
    if (arguments.only) std::printf("%s\n", c.describe().c_str());
    const Outcome outcome = compare_any(c, sets);
    ++ran;
    layers += c.layer ? 1 : 0;
    equal += outcome.equal;
    if (outcome.different.empty()) continue;
    ++failures;
    std::printf("FAILED %s\n  %s\n  alone: LOCKSTEP_SWEEP_ONLY=%llu %s\n", c.describe().c_str(),
                outcome.different.c_str(), static_cast<unsigned long long>(n), program);
    std::fflush(stdout);
  }
  std::string names;
  for (const ls::InstructionSet set : all) names += std::string(names.empty() ? "" : ", ") + ls::name_of(set);
  std::printf(
      "%d configurations (%d of layers) under %s: %d runs of Tiled with Specification's bits, %d configurations "
      "failed%s\n",
      ran, layers, names.c_str(), equal, failures, failures == most_failures ? ", stopped" : "");
  return failures == 0 && ran > 0 ? 0 : exit_failed;
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse(argc, argv);
  if (!arguments.understood) {
    std::fputs(usage, stderr);
    return exit_usage;
  }
  if (wish_cannot_be_met()) {
    std::printf("SKIPPED: this CPU lacks the instruction set that is asked for\n");
    return exit_skipped;
  }
  try {
    return run(arguments, argv[0]);
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return exit_failed;
  }
}
