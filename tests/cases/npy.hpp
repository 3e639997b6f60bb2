// Reads tensors from .npy files, version 1.0, and refuses everything that is not exactly what was announced.
#pragma once

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "case.hpp"

namespace cases {
namespace detail {

static_assert(std::endian::native == std::endian::little,
              "cases: the files are little endian and are read as they are");

struct Dtype {
  std::string_view name;
  std::string_view descr;
  Index size;
};
inline constexpr Dtype dtypes[] = {
    {"float32", "<f4", 4}, {"float64", "<f8", 8}, {"int64", "<i8", 8}, {"int8", "|i1", 1}, {"bool", "|b1", 1}};

inline const Dtype& dtype_named(const std::string& name, const std::string& file) {
  for (const Dtype& dtype : dtypes)
    if (dtype.name == name) return dtype;
  throw BadCase(file + ": dtype " + name + " is not one of float32, float64, int64, int8, bool");
}

// The header is a Python dict literal of three known keys; anything that this small reader does not expect is refused.
class Header {
 public:
  Header(std::string_view text, const std::string& file) : rest_(text), file_(file) {
    expect("{");
    for (bool first = true; !accept("}"); first = false) {
      if (!first) {
        expect(",");
        if (accept("}")) break;
      }
      const std::string key = quoted();
      expect(":");
      if (key == "descr") {
        descr = quoted();
      } else if (key == "fortran_order") {
        fortran_order = accept("True");
        if (!fortran_order) expect("False");
        order_given_ = true;
      } else if (key == "shape") {
        read_shape();
      } else {
        refuse("unknown key '" + key + "'");
      }
    }
    skip_blanks();
    if (!rest_.empty()) refuse("something follows the dict");
    if (descr.empty() || !order_given_ || !shape_given_) refuse("descr, fortran_order or shape is missing");
  }

  std::string descr;
  bool fortran_order = false;
  std::vector<Index> shape;

 private:
  [[noreturn]] void refuse(const std::string& why) const { throw BadCase(file_ + ": npy header: " + why); }

  void skip_blanks() {
    const std::size_t used = rest_.find_first_not_of(" \t\n");
    rest_.remove_prefix(used == std::string_view::npos ? rest_.size() : used);
  }

  bool accept(std::string_view token) {
    skip_blanks();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  void expect(std::string_view token) {
    if (!accept(token))
      refuse("expected '" + std::string(token) + "' before '" + std::string(rest_.substr(0, 20)) + "'");
  }

  std::string quoted() {
    expect("'");
    const std::size_t end = rest_.find('\'');
    if (end == std::string_view::npos) refuse("a quote is not closed");
    std::string text(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    return text;
  }

  void read_shape() {
    expect("(");
    while (!accept(")")) {
      skip_blanks();
      Index extent = 0;
      std::size_t digits = 0;
      for (; digits < rest_.size() && rest_[digits] >= '0' && rest_[digits] <= '9'; ++digits) {
        extent = extent * 10 + (rest_[digits] - '0');
        if (extent > most_elements) refuse("an extent is too large");
      }
      if (digits == 0) refuse("an extent is not a number");
      rest_.remove_prefix(digits);
      shape.push_back(extent);
      if (!accept(",")) {
        expect(")");
        break;
      }
    }
    shape_given_ = true;
  }

  std::string_view rest_;
  const std::string& file_;
  bool order_given_ = false, shape_given_ = false;
};

template <class Stored>
std::vector<double> widen(std::string_view bytes) {
  std::vector<double> values(bytes.size() / sizeof(Stored));
  for (std::size_t i = 0; i < values.size(); ++i) {
    Stored stored;
    std::memcpy(&stored, bytes.data() + i * sizeof(Stored), sizeof(Stored));
    values[i] = static_cast<double>(stored);
  }
  return values;
}

inline std::vector<double> decode(std::string_view bytes, std::string_view dtype, const std::string& file) {
  if (dtype == "float32") return widen<float>(bytes);
  if (dtype == "float64") return widen<double>(bytes);
  if (dtype == "int8") return widen<std::int8_t>(bytes);
  std::vector<double> values = dtype == "bool" ? widen<std::uint8_t>(bytes) : widen<std::int64_t>(bytes);
  for (const double value : values) {
    if (dtype == "bool" && value > 1) throw BadCase(file + ": a bool is neither 0 nor 1");
    if (std::abs(value) > 0x1p53) throw BadCase(file + ": an integer beyond 2^53");
  }
  return values;
}

inline std::string read_bytes(const std::filesystem::path& file) {
  if (!std::filesystem::is_regular_file(file)) throw BadCase(file.string() + ": no such file");
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw BadCase(file.string() + ": cannot be opened");
  std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  if (stream.bad()) throw BadCase(file.string() + ": cannot be read");
  return bytes;
}

}  // namespace detail

/// Reads `file`, which must hold this dtype (float32, float64, int64, int8 or bool) in C order with exactly this shape.
inline Tensor read_npy(const std::filesystem::path& path, const std::string& dtype_name,
                       const std::vector<Index>& shape) {
  const std::string file = path.string();
  const detail::Dtype& dtype = detail::dtype_named(dtype_name, file);
  const std::string bytes = detail::read_bytes(path);
  constexpr std::string_view magic("\x93NUMPY\x01\x00", 8);
  constexpr std::size_t prefix = 10;
  if (bytes.size() < prefix || !std::string_view(bytes).starts_with(magic))
    throw BadCase(file + ": not an npy file of version 1.0");
  const auto byte = [&](std::size_t i) { return static_cast<std::size_t>(static_cast<unsigned char>(bytes[i])); };
  const std::size_t header_size = byte(8) + 256 * byte(9);
  if (bytes.size() < prefix + header_size) throw BadCase(file + ": truncated in the header");
  const std::string_view all(bytes);
  const detail::Header header(all.substr(prefix, header_size), file);
  if (header.descr != dtype.descr)
    throw BadCase(file + ": dtype: given " + header.descr + ", the manifest says " + std::string(dtype.descr));
  if (header.fortran_order) throw BadCase(file + ": stored in Fortran order, allowed C order");
  if (header.shape != shape)
    throw BadCase(file + ": shape: given " + to_text(header.shape) + ", the manifest says " + to_text(shape));
  const std::string_view data = all.substr(prefix + header_size);
  const auto expected = static_cast<std::size_t>(element_count(shape) * dtype.size);
  if (data.size() != expected)
    throw BadCase(file + (data.size() < expected ? ": truncated: " : ": too long: ") + std::to_string(data.size()) +
                  " bytes of data, the shape takes " + std::to_string(expected));
  return {dtype_name, shape, detail::decode(data, dtype.name, file)};
}

}  // namespace cases
