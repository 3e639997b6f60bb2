// Files that tests make up, gone when the test is.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <ios>
#include <stdexcept>
#include <string>
#include <system_error>
#include <type_traits>

#include <unistd.h>

namespace examples_test {

/// Bytes in the order of a little-endian file.
class Bytes {
 public:
  template <class T>
  Bytes& add(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    const std::size_t end = bytes_.size();
    bytes_.resize(end + sizeof(T));
    std::memcpy(bytes_.data() + end, &value, sizeof(T));
    return *this;
  }
  Bytes& add_text(const std::string& text) {
    bytes_ += text;
    return *this;
  }
  template <class T>
  Bytes& set(std::size_t at, T value) {
    std::memcpy(bytes_.data() + at, &value, sizeof(T));
    return *this;
  }
  std::size_t size() const { return bytes_.size(); }
  const std::string& text() const { return bytes_; }

 private:
  std::string bytes_;
};

class TemporaryFile {
 public:
  explicit TemporaryFile(const Bytes& bytes) : path_(unused_path()) {
    std::ofstream(path_, std::ios::binary).write(bytes.text().data(), static_cast<std::streamsize>(bytes.size()));
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }

  const std::filesystem::path& path() const { return path_; }
  void truncate(std::size_t size) const { std::filesystem::resize_file(path_, size); }

 private:
  // Tests of one binary may run as several processes at once.
  static std::filesystem::path unused_path() {
    static std::atomic<int> count{0};
    return std::filesystem::temp_directory_path() /
           ("lockstep_test_" + std::to_string(::getpid()) + "_" + std::to_string(count++) + ".bin");
  }

  std::filesystem::path path_;
};

/// What `action` throws as std::runtime_error, or an empty text if it throws nothing.
template <class Action>
std::string refusal(Action&& action) {
  try {
    action();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return {};
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace examples_test
