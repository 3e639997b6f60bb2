// Runs every reference case of a folder through the library, in float and in double, and says how each one went.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "case_reader.hpp"
#include "operations.hpp"

namespace {

namespace fs = std::filesystem;
using namespace cases;

constexpr int exit_failed = 1, exit_usage = 2;
constexpr const char* usage =
    "usage: lockstep_cases --cases DIR [--filter TEXT]\n"
    "  --cases DIR    the folder of cases: DIR/GROUP/NAME/case.txt\n"
    "  --filter TEXT  only cases whose id, operation or tags contain TEXT\n";

const Operation* const operations[] = {&attention,  &attention_layer, &model_llama2c,
                                       &rope_apply, &rope_freqs,      &kv_scatter};

/// A folder or a command line that cannot be used.
struct Unusable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Arguments {
  fs::path folder;
  std::string filter;
  bool help = false;
};

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--help") {
      arguments.help = true;
      return arguments;
    }
    if (option != "--cases" && option != "--filter") throw Unusable("unknown argument '" + option + "'");
    if (++i == argc) throw Unusable(option + " needs a value");
    if (option == "--cases")
      arguments.folder = argv[i];
    else
      arguments.filter = argv[i];
  }
  if (arguments.folder.empty()) throw Unusable("--cases is missing");
  return arguments;
}

// A case that should be there: found as a folder, or promised by the index.
struct Entry {
  std::string operation, tags;  // as the index says; empty if it is not there
  bool found = false;
};

using Entries = std::map<std::string, Entry>;

void add_folders(const fs::path& folder, Entries& entries) {
  for (const fs::directory_entry& group : fs::directory_iterator(folder)) {
    if (!group.is_directory()) continue;
    for (const fs::directory_entry& place : fs::directory_iterator(group.path()))
      if (fs::is_regular_file(place.path() / "case.txt"))
        entries[group.path().filename().string() + "/" + place.path().filename().string()].found = true;
  }
}

void add_index(const fs::path& file, Entries& entries) {
  if (!fs::exists(file)) return;
  std::ifstream stream(file);
  if (!stream) throw Unusable(file.string() + ": cannot be opened");
  for (std::string text; std::getline(stream, text);) {
    std::istringstream words(text);
    std::string id, operation, tags, more;
    if (!(words >> id)) continue;
    if (!(words >> operation)) throw Unusable(file.string() + ": " + id + " has no operation");
    words >> tags;
    if (words >> more) throw Unusable(file.string() + ": unexpected '" + more + "' after " + id);
    entries[id].operation = operation;
    entries[id].tags = tags;
  }
}

Entries list_cases(const fs::path& folder) {
  if (!fs::is_directory(folder)) throw Unusable(folder.string() + ": no such folder");
  Entries entries;
  try {
    add_folders(folder, entries);
    add_index(folder / "index.txt", entries);
  } catch (const fs::filesystem_error& error) {
    throw Unusable(error.what());
  }
  if (entries.empty()) throw Unusable(folder.string() + ": holds no case (DIR/GROUP/NAME/case.txt)");
  return entries;
}

std::string joined(const std::vector<std::string>& tags) {
  std::string text;
  for (const std::string& tag : tags) text += (text.empty() ? "" : ",") + tag;
  return text;
}

enum class Verdict { passed, failed, skipped };

void run_at(const char* precision, void (*run)(const Case&, Report&), const Case& test, Report& report,
            std::vector<std::string>& faults) {
  try {
    run(test, report);
    if (report.compared() != test.outputs.size())
      report.fail("compared " + std::to_string(report.compared()) + " of " + std::to_string(test.outputs.size()) +
                  " outputs");
  } catch (const std::exception& error) {
    report.fail(error.what());
  }
  for (const std::string& fault : report.faults()) faults.push_back(std::string(precision) + ": " + fault);
}

Verdict refuse(const std::string& id, const std::string& why) {
  std::printf("%-86s FAILED\n    %s\n", id.c_str(), why.c_str());
  return Verdict::failed;
}

Verdict judge(const Case& test) {
  const auto found = std::find_if(std::begin(operations), std::end(operations),
                                  [&](const Operation* each) { return each->name == test.operation; });
  if (found == std::end(operations)) return refuse(test.id, "unknown operation '" + test.operation + "'");
  const Operation& operation = **found;
  if (const std::string feature = operation.unsupported(test); !feature.empty()) {
    std::printf("%-86s unsupported: %s\n", test.id.c_str(), feature.c_str());
    return Verdict::skipped;
  }
  Report in_float, in_double;
  std::vector<std::string> faults;
  run_at("float", operation.run_float, test, in_float, faults);
  run_at("double", operation.run_double, test, in_double, faults);
  std::printf("%-86s float %-8.3g double %-8.3g %s\n", test.id.c_str(), in_float.worst(), in_double.worst(),
              faults.empty() ? "ok" : "FAILED");
  for (const std::string& fault : faults) std::printf("    %s\n", fault.c_str());
  return faults.empty() ? Verdict::passed : Verdict::failed;
}

Verdict run_entry(const std::string& id, const Entry& entry, const fs::path& folder) {
  if (!entry.found) return refuse(id, "listed in index.txt, but there is no case.txt");
  try {
    const Case test = read_case(folder / id, folder / "..");
    if (!entry.operation.empty() && (entry.operation != test.operation || entry.tags != joined(test.tags)))
      return refuse(id, "index.txt and case.txt give another operation or other tags");
    return judge(test);
  } catch (const std::exception& error) {
    return refuse(id, error.what());
  }
}

// The tags of a case that the index does not know are not looked at: its id is enough to pick it.
bool picked(const std::string& id, const Entry& entry, const std::string& filter) {
  return (id + " " + entry.operation + " " + entry.tags).find(filter) != std::string::npos;
}

int run_all(const Arguments& arguments) {
  const Entries entries = list_cases(arguments.folder);
  int counts[3] = {};
  for (const auto& [id, entry] : entries) {
    if (!picked(id, entry, arguments.filter)) continue;
    ++counts[static_cast<int>(run_entry(id, entry, arguments.folder))];
    std::fflush(stdout);
  }
  const int passed = counts[0], failed = counts[1], skipped = counts[2];
  if (passed + failed + skipped == 0) throw Unusable("no case matches '" + arguments.filter + "'");
  std::printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
  return failed == 0 ? 0 : exit_failed;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Arguments arguments = parse(argc, argv);
    if (arguments.help) {
      std::fputs(usage, stdout);
      return 0;
    }
    return run_all(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lockstep_cases: %s\n%s", error.what(), usage);
    return exit_usage;
  }
}
