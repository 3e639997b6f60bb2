// What fuzz targets share: choices made from bytes, and the end of a run that found something.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace fuzz {

/// What a program of this folder does with one input, whether a fuzzer or a file brings it. Ends by std::abort() where
/// a promise is broken.
void target(const std::uint8_t* data, std::size_t size);

/// What was done with this input so far, shown if it ends badly.
inline std::string& history() {
  static std::string text;
  return text;
}
inline void note(const std::string& line) { history() += line + "\n"; }

/// Ends the run unless `held`.
inline void require(bool held, const std::string& promise) {
  if (held) return;
  std::fprintf(stderr, "%sbroken: %s\n", history().c_str(), promise.c_str());
  std::abort();
}

/// An input, byte by byte; where it has ended, zeros.
class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}

  bool empty() const { return left_ == 0; }
  std::uint8_t byte() {
    if (left_ == 0) return 0;
    --left_;
    return *data_++;
  }
  /// In [0, n), n >= 1; two bytes where one does not reach.
  std::int64_t below(std::int64_t n) {
    std::int64_t value = byte();
    if (n > 256) value += 256 * byte();
    return value % n;
  }
  bool one_in(std::int64_t n) { return below(n) == n - 1; }
  template <class T, std::size_t N>
  T pick(const T (&choices)[N]) {
    return choices[static_cast<std::size_t>(below(N))];
  }
  std::string text(std::size_t most) {
    const std::size_t n = std::min(left_, most);
    std::string result(reinterpret_cast<const char*>(data_), n);
    data_ += n;
    left_ -= n;
    return result;
  }
  std::string rest() { return text(left_); }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
};

}  // namespace fuzz
