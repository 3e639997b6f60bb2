// float32 matrices in NumPy's .npy files of version 1 (numpy.lib.format): read as they lie, written as NumPy writes
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <ios>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <Eigen/Core>

namespace npy {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

namespace detail {

inline constexpr std::string_view magic("\x93NUMPY\x01\x00", 8);

[[noreturn]] inline void refuse(const std::filesystem::path& path, const std::string& what) {
  throw std::runtime_error("npy '" + path.string() + "': " + what);
}

// The value behind 'key': in the header, which is the literal of a Python dict; empty if there is none.
inline std::string_view value_of(std::string_view header, std::string_view key) {
  const std::string quoted = "'" + std::string(key) + "':";
  const std::size_t at = header.find(quoted);
  if (at == std::string_view::npos) return {};
  header.remove_prefix(at + quoted.size());
  const std::size_t start = header.find_first_not_of(' ');
  if (start == std::string_view::npos) return {};
  header.remove_prefix(start);
  return header.substr(0, header[0] == '(' ? header.find(')') + 1 : header.find_first_of(",}"));
}

// Two extents such as (3, 4), below 2^28 each, so that their product and its bytes are numbers.
inline std::pair<std::int64_t, std::int64_t> extents(std::string_view shape, const std::filesystem::path& path) {
  std::int64_t extent[2] = {0, 0};
  int count = 0;
  bool digits = false;
  for (const char c : shape) {
    if (c >= '0' && c <= '9') {
      if (!digits && ++count > 2) break;
      digits = true;
      extent[count - 1] = extent[count - 1] * 10 + (c - '0');
      if (extent[count - 1] >= std::int64_t{1} << 28) refuse(path, "found an extent of 2^28 or more, allowed less");
    } else {
      digits = false;
    }
  }
  if (count != 2) refuse(path, "found shape " + std::string(shape) + ", allowed two extents");
  return {extent[0], extent[1]};
}

}  // namespace detail

/// A matrix of dtype float32 in C order. Errors: std::runtime_error for anything else.
inline Matrix read(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) detail::refuse(path, "found no file that can be read, allowed one");
  const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  if (bytes.size() < 10 || !std::string_view(bytes).starts_with(detail::magic))
    detail::refuse(path, "found another format, allowed npy of version 1.0");
  const auto byte = [&](std::size_t i) { return static_cast<std::size_t>(static_cast<unsigned char>(bytes[i])); };
  const std::size_t begin = 10 + byte(8) + 256 * byte(9);
  if (bytes.size() < begin) detail::refuse(path, "found a header that is cut off, allowed whole ones");
  const std::string_view header = std::string_view(bytes).substr(10, begin - 10);
  if (const auto type = detail::value_of(header, "descr"); type != "'<f4'")
    detail::refuse(path, "found dtype " + std::string(type) + ", allowed '<f4'");
  if (detail::value_of(header, "fortran_order") != "False")
    detail::refuse(path, "found Fortran order, allowed C order (numpy.ascontiguousarray)");
  const auto [rows, cols] = detail::extents(detail::value_of(header, "shape"), path);
  const std::size_t expected = static_cast<std::size_t>(rows * cols) * sizeof(float);
  if (bytes.size() - begin != expected)
    detail::refuse(path, "found " + std::to_string(bytes.size() - begin) + " bytes of data, allowed " +
                             std::to_string(expected) + " for this shape");
  Matrix matrix(rows, cols);
  bytes.copy(reinterpret_cast<char*>(matrix.data()), expected, begin);
  return matrix;
}

/// Errors: std::runtime_error if the file cannot be written.
inline void write(const std::filesystem::path& path, const Matrix& matrix) {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(matrix.rows()) + ", " +
                       std::to_string(matrix.cols()) + "), }";
  // Padded so that the data begin on a multiple of 64 bytes; the last character is a line feed.
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  const char length[2] = {static_cast<char>(header.size() % 256), static_cast<char>(header.size() / 256)};
  std::ofstream stream(path, std::ios::binary);
  stream.write(detail::magic.data(), 8).write(length, 2) << header;
  stream.write(reinterpret_cast<const char*>(matrix.data()),
               static_cast<std::streamsize>(matrix.size()) * static_cast<std::streamsize>(sizeof(float)));
  stream.close();
  if (!stream) detail::refuse(path, "could not be written");
}

}  // namespace npy
