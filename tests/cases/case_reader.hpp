// Reads a case's folder: the manifest case.txt and every tensor it names.
#pragma once

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "case.hpp"
#include "npy.hpp"

namespace cases {
namespace detail {

// The blank-separated words of one line of the manifest, taken one after the other.
class Line {
 public:
  Line(const std::string& text, std::string where) : words_(text), where_(std::move(where)) {}

  [[noreturn]] void refuse(const std::string& why) const { throw BadCase(where_ + ": " + why); }

  std::string word(const char* meaning) {
    std::string word;
    if (!(words_ >> word)) refuse(std::string(meaning) + " is missing");
    return word;
  }

  Index integer(const char* meaning) {
    const std::string text = word(meaning);
    char* end = nullptr;
    errno = 0;
    const long long value = std::strtoll(text.c_str(), &end, 10);
    if (errno != 0 || end == text.c_str() || *end != '\0')
      refuse(std::string(meaning) + ": '" + text + "' is no integer");
    return value;
  }

  double number(const char* meaning) {
    const std::string text = word(meaning);
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (end == text.c_str() || *end != '\0') refuse(std::string(meaning) + ": '" + text + "' is no number");
    return value;
  }

  std::size_t count(const char* meaning) {
    const Index value = integer(meaning);
    constexpr Index most = 1 << 20;
    if (value < 0 || value > most) refuse(std::string(meaning) + ": " + std::to_string(value) + " is out of range");
    return static_cast<std::size_t>(value);
  }

  double tolerance(const char* meaning) {
    const double value = number(meaning);
    if (!(value >= 0)) refuse(std::string(meaning) + " is negative");
    return value;
  }

  void finish() {
    std::string word;
    if (words_ >> word) refuse("unexpected '" + word + "'");
  }

 private:
  std::istringstream words_;
  std::string where_;
};

class Manifest {
 public:
  Manifest(std::filesystem::path folder, std::filesystem::path root) : folder_(std::move(folder)) {
    result_.root = std::move(root);
  }

  Case read() {
    const std::filesystem::path file = folder_ / "case.txt";
    std::ifstream stream(file);
    if (!stream) throw BadCase(file.string() + ": cannot be opened");
    int number = 0;
    for (std::string text; !ended_ && std::getline(stream, text);) {
      Line line(text, file.string() + ":" + std::to_string(++number));
      take(line, number);
      line.finish();
    }
    if (!ended_) throw BadCase(file.string() + ": truncated: no 'end'");
    if (std::string rest; stream >> rest) throw BadCase(file.string() + ": '" + rest + "' after 'end'");
    for (const char* fact : {"id", "op", "tags"})
      if (!facts_.contains(fact)) throw BadCase(file.string() + ": '" + fact + "' is missing");
    if (result_.outputs.empty()) throw BadCase(file.string() + ": no output to compare with");
    return std::move(result_);
  }

 private:
  void take(Line& line, int number) {
    const std::string fact = line.word("the fact");
    if (number == 1 && fact != "format") line.refuse("the first line must give the format");
    if (fact == "in" || fact == "out" || fact == "ref") return take_tensor(line, fact);
    if (fact == "attr") return take_attribute(line);
    if (!facts_.insert(fact).second) line.refuse("'" + fact + "' is given twice");
    if (fact == "format") {
      if (const Index format = line.integer("the format"); format != 1)
        line.refuse("format: given " + std::to_string(format) + ", allowed 1");
    } else if (fact == "id") {
      result_.id = line.word("the id");
      const std::string place = folder_.parent_path().filename().string() + "/" + folder_.filename().string();
      if (result_.id != place) line.refuse("id " + result_.id + " in the folder of " + place);
    } else if (fact == "op") {
      result_.operation = line.word("the operation");
    } else if (fact == "tags") {
      for (std::size_t left = line.count("the number of tags"); left > 0; --left)
        result_.tags.push_back(line.word("a tag"));
    } else if (fact == "end") {
      ended_ = true;
    } else {
      line.refuse("unknown fact '" + fact + "'");
    }
  }

  void take_attribute(Line& line) {
    const std::string name = line.word("the attribute's name");
    const std::string kind = line.word("the attribute's kind");
    Attribute value;
    if (kind == "int") {
      value = line.integer("the value");
    } else if (kind == "float") {
      value = line.number("the value");
    } else if (kind == "str") {
      value = line.word("the value");
    } else if (kind == "ints") {
      std::vector<Index> values(line.count("the number of values"));
      for (Index& each : values) each = line.integer("a value");
      value = std::move(values);
    } else if (kind == "floats") {
      std::vector<double> values(line.count("the number of values"));
      for (double& each : values) each = line.number("a value");
      value = std::move(values);
    } else {
      line.refuse("unknown attribute kind '" + kind + "'");
    }
    if (!result_.attributes.emplace(name, std::move(value)).second)
      line.refuse("attribute " + name + " is given twice");
  }

  void take_tensor(Line& line, const std::string& role) {
    const std::string name = line.word("the tensor's name");
    const std::string dtype = line.word("the dtype");
    std::vector<Index> shape(line.count("the number of dimensions"));
    for (Index& extent : shape) extent = line.integer("an extent");
    const std::string file = line.word("the file");
    const std::filesystem::path base = file.find('/') == std::string::npos ? folder_ : result_.root;
    if (!tensors_.insert(role + " " + name).second) line.refuse(role + " " + name + " is given twice");
    Tensor tensor = read_npy(base / file, dtype, shape);
    if (role == "in") {
      const double factor = line.number("the factor");
      // A factor of 1 must leave every bit alone, also of a NaN.
      if (factor != 1)
        for (double& value : tensor.values) value *= factor;
      result_.inputs.emplace(name, std::move(tensor));
    } else if (role == "out") {
      Expected expected{std::move(tensor), 0, 0, 0, 0};
      expected.atol_float = line.tolerance("ATOL");
      expected.atol_double = line.tolerance("ATOL64");
      expected.rtol_float = line.tolerance("RTOL");
      expected.rtol_double = line.tolerance("RTOL64");
      result_.outputs.emplace(name, std::move(expected));
    } else {
      // What another program gave is for people to read; only its file is checked.
      line.tolerance("ATOL");
      line.tolerance("RTOL");
    }
  }

  std::filesystem::path folder_;
  Case result_;
  std::set<std::string> facts_, tensors_;
  bool ended_ = false;
};

}  // namespace detail

/// Reads the case in `folder`, whose tensors with a slash in their file name lie below `root`.
/// Throws BadCase for anything missing, damaged, contradictory or unknown.
inline Case read_case(const std::filesystem::path& folder, const std::filesystem::path& root) {
  return detail::Manifest(folder, root).read();
}

}  // namespace cases
