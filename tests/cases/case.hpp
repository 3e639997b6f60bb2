// One reference case: the facts of its manifest (case.txt) and its tensors, read and checked as a whole.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "npy.hpp"

namespace cases {

/// A right value and how far a result may be from it: |got - want| <= atol + rtol * |want|.
struct Expected {
  Tensor tensor;
  double atol_float, atol_double, rtol_float, rtol_double;
};

using Attribute = std::variant<Index, double, std::string, std::vector<Index>, std::vector<double>>;

struct Case {
  std::string id;         ///< GROUP/NAME
  std::string operation;
  std::vector<std::string> tags;
  std::map<std::string, Attribute> attributes;
  std::map<std::string, Tensor> inputs;  ///< already multiplied by their factor
  std::map<std::string, Expected> outputs;
  std::filesystem::path root;            ///< the folder that file names with a slash start from

  /// The named attribute, refused unless it is there and of this kind.
  template <class Kind>
  const Kind& attribute(const std::string& name) const {
    const auto found = attributes.find(name);
    if (found == attributes.end()) throw BadCase("attribute " + name + " is missing");
    if (!std::holds_alternative<Kind>(found->second)) throw BadCase("attribute " + name + " is of another kind");
    return std::get<Kind>(found->second);
  }
  Index integer(const std::string& name) const { return attribute<Index>(name); }
  double number(const std::string& name) const { return attribute<double>(name); }
  const std::string& text(const std::string& name) const { return attribute<std::string>(name); }
  const std::vector<Index>& integers(const std::string& name) const { return attribute<std::vector<Index>>(name); }

  bool has_input(const std::string& name) const { return inputs.contains(name); }
  bool has_output(const std::string& name) const { return outputs.contains(name); }

  /// The named tensor, refused unless it is there.
  const Tensor& input(const std::string& name) const;
  const Tensor& output(const std::string& name) const;

  /// The same, refused unless it has exactly this shape.
  const Tensor& input(const std::string& name, const std::vector<Index>& shape) const;
};

/// Reads the case in `folder`, whose tensors with a slash in their file name lie below `root`.
/// Throws BadCase for anything missing, damaged, contradictory or unknown.
Case read_case(const std::filesystem::path& folder, const std::filesystem::path& root);

}  // namespace cases
