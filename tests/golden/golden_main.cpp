// Runs the golden configurations under every instruction set of this CPU and compares the hashes of their results with
// the committed table; or prints that table anew.
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <exception>

#include "cases.hpp"
#include "table.hpp"

namespace {

using namespace golden;

constexpr int exit_failed = 1, exit_usage = 2;
constexpr const char* usage =
    "usage: lockstep_golden [--filter TEXT] [--print]\n"
    "  --filter TEXT  only configurations whose name contains TEXT\n"
    "  --print        print table.hpp as this build would have it, and compare nothing\n"
    "The environment variable LOCKSTEP_INSTRUCTION_SET restricts the run to one instruction set.\n";

struct Arguments {
  std::string filter;
  bool print = false;
  bool understood = true;
};

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--print")
      arguments.print = true;
    else if (option == "--filter" && i + 1 < argc)
      arguments.filter = argv[++i];
    else
      arguments.understood = false;
  }
  return arguments;
}

std::vector<Case> cases_with(const std::string& filter) {
  std::vector<Case> result;
  for (const auto& group : {ground_cases(), attend_cases(), layer_cases()})
    for (const Case& one : group)
      if (std::string(one.name).find(filter) != std::string::npos) result.push_back(one);
  return result;
}

void print(const std::vector<Case>& cases) {
  std::printf(
      "// The golden bits: hashes of the results of the configurations in cases.hpp. Printed by lockstep_golden "
      "--print;\n"
      "// a change of the numerics contract is the only reason to print it anew, in the commit that makes the change.\n"
      "#pragma once\n\n#include <cstdint>\n\nnamespace golden {\n\n"
      "struct Row {\n  const char* name;\n  std::uint64_t contract;\n  std::uint64_t materialized;  ///< 0: not "
      "asked\n};\n\n"
      "inline constexpr Row table[] = {\n");
  for (const Case& one : cases) {
    std::uint64_t own = 0;
    for (const Kernel kernel : one.kernels)
      if (kernel == Kernel::materialized) own = one.hash(kernel);
    std::printf("    {\"%s\", 0x%016" PRIx64 ", ", one.name, one.hash(one.kernels.front()));
    own == 0 ? std::printf("0},\n") : std::printf("0x%016" PRIx64 "},\n", own);
  }
  std::printf("};\n\n}  // namespace golden\n");
}

const char* name_of(Kernel kernel) {
  switch (kernel) {
    case Kernel::tiled:
      return "Tiled";
    case Kernel::materialized:
      return "Materialized";
    case Kernel::specification:
      break;
  }
  return "Specification";
}

/// Compares, and counts.
struct Comparison {
  int equal = 0, different = 0;

  void run(const char* set, const Case& one) {
    for (const Row& row : table)
      if (std::strcmp(row.name, one.name) == 0) return run(set, one, row);
    ++different;
    std::printf("%s: not in table.hpp\n", one.name);
  }

 private:
  void run(const char* set, const Case& one, const Row& row) {
    for (const Kernel kernel : one.kernels) {
      const std::uint64_t golden = kernel == Kernel::materialized ? row.materialized : row.contract;
      const std::uint64_t got = one.hash(kernel);
      (got == golden ? equal : different) += 1;
      if (got != golden)
        std::printf("%s: %s under %s: 0x%016" PRIx64 ", golden is 0x%016" PRIx64 "\n", one.name, name_of(kernel), set,
                    got, golden);
    }
  }
};

int compare(const std::vector<Case>& cases) {
  Comparison comparison;
  std::string sets;
  for (const bits::ls::InstructionSet set : bits::instruction_sets()) {
    bits::ls::force_instruction_set(set);
    sets += std::string(sets.empty() ? "" : ", ") + bits::ls::name_of(set);
    for (const Case& one : cases) comparison.run(bits::ls::name_of(set), one);
  }
  std::printf("%zu configurations under %s: %d hashes equal, %d different\n", cases.size(), sets.c_str(),
              comparison.equal, comparison.different);
  return comparison.different == 0 && comparison.equal > 0 ? 0 : exit_failed;
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse(argc, argv);
  if (!arguments.understood) {
    std::fputs(usage, stderr);
    return exit_usage;
  }
  if (bits::wish_cannot_be_met()) {
    std::printf("SKIPPED: this CPU lacks the instruction set that is asked for\n");
    return bits::exit_skipped;
  }
  try {
    const std::vector<Case> cases = cases_with(arguments.filter);
    if (!arguments.print) return compare(cases);
    print(cases);
    return 0;
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return exit_failed;
  }
}
