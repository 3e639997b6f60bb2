// Reads tensors from .npy files, version 1.0, and refuses everything that is not exactly what was announced.
#pragma once

#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
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

/// Reads `file`, which must hold dtype (float32, float64, int64, int8 or bool) in C order with exactly this shape.
Tensor read_npy(const std::filesystem::path& file, const std::string& dtype, const std::vector<Index>& shape);

/// The number of elements of a shape; refuses negative extents and products that no file could hold.
Index element_count(const std::vector<Index>& shape);

/// "[2, 3, 4]"
std::string to_text(const std::vector<Index>& shape);

}  // namespace cases
