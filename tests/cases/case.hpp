// One reference case in memory: the facts of its manifest and its tensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

namespace cases {

using Index = std::int64_t;

/// A file that is missing, damaged or not what its manifest says; the message names the file and the fact.
struct BadCase : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A tensor as stored: every element type of the format is exact in double (int64 up to 2^53, checked on reading).
struct Tensor {
  std::string dtype;
  std::vector<Index> shape;
  std::vector<double> values;  ///< row-major
};

// More than any case needs; keeps products of extents far from overflow.
inline constexpr Index most_elements = Index{1} << 32;

/// "[2, 3, 4]"
inline std::string to_text(const std::vector<Index>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

/// The number of elements of a shape; refuses negative extents and products that no case comes near.
inline Index element_count(const std::vector<Index>& shape) {
  Index count = 1;
  bool empty = false;
  for (const Index extent : shape) {
    if (extent < 0) throw BadCase("shape " + to_text(shape) + ": an extent is negative");
    if (extent == 0) {
      empty = true;
    } else if (extent > most_elements / count) {
      throw BadCase("shape " + to_text(shape) + ": too large");
    } else {
      count *= extent;
    }
  }
  return empty ? 0 : count;
}

/// A right value and how far a result may be from it: |got - want| <= atol + rtol * |want|.
struct Expected {
  Tensor tensor;
  double atol_float, atol_double, rtol_float, rtol_double;
};

using Attribute = std::variant<Index, double, std::string, std::vector<Index>, std::vector<double>>;

struct Case {
  std::string id;  ///< GROUP/NAME
  std::string operation;
  std::vector<std::string> tags;
  std::map<std::string, Attribute> attributes;
  std::map<std::string, Tensor> inputs;  ///< already multiplied by their factor
  std::map<std::string, Expected> outputs;
  std::filesystem::path root;  ///< the folder that file names with a slash start from

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

inline const Tensor& Case::input(const std::string& name) const {
  const auto found = inputs.find(name);
  if (found == inputs.end()) throw BadCase("input " + name + " is missing");
  return found->second;
}

inline const Tensor& Case::output(const std::string& name) const {
  const auto found = outputs.find(name);
  if (found == outputs.end()) throw BadCase("output " + name + " is missing");
  return found->second.tensor;
}

inline const Tensor& Case::input(const std::string& name, const std::vector<Index>& shape) const {
  const Tensor& tensor = input(name);
  if (tensor.shape != shape)
    throw BadCase("input " + name + ": given " + to_text(tensor.shape) + ", allowed " + to_text(shape));
  return tensor;
}

}  // namespace cases
