// A binary file read front to back, no byte of it before it is known to be there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <ios>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

namespace llama2c {

/// Opens a regular file; every refusal is a std::runtime_error that names the file, what was found and what is allowed.
class InputFile {
 public:
  /// `kind` says in messages what the file was expected to be, such as "checkpoint".
  InputFile(const std::filesystem::path& path, std::string kind) : path_(path.string()), kind_(std::move(kind)) {
    std::error_code error;
    const auto type = std::filesystem::status(path, error).type();
    if (type == std::filesystem::file_type::not_found) refuse("file", "none of that name", "an existing file");
    if (type != std::filesystem::file_type::regular) refuse("file", "something else", "a regular file");
    const std::uintmax_t size = std::filesystem::file_size(path, error);
    stream_.open(path, std::ios::binary);
    if (error || !stream_) refuse("file", "no permission to read it", "a readable file");
    size_ = static_cast<std::int64_t>(size);
    remaining_ = size_;
  }

  std::int64_t size() const noexcept { return size_; }
  std::int64_t remaining() const noexcept { return remaining_; }

  /// Reads `count` plain values as they lie in the file (little endian, as is every machine Lockstep runs on).
  template <class T>
  void read(T* values, std::int64_t count, const std::string& what) {
    const std::int64_t bytes = count * static_cast<std::int64_t>(sizeof(T));
    if (bytes > remaining_) refuse(what, bytes_left(), std::to_string(bytes) + " bytes");
    stream_.read(reinterpret_cast<char*>(values), static_cast<std::streamsize>(bytes));
    // The size was right a moment ago: the file shrank meanwhile, or the disk failed.
    if (!stream_) refuse(what, "a read error", std::to_string(bytes) + " bytes");
    remaining_ -= bytes;
  }

  template <class T>
  T read(const std::string& what) {
    T value{};
    read(&value, 1, what);
    return value;
  }

  std::string bytes_left() const { return std::to_string(remaining_) + " bytes left"; }

  [[noreturn]] void refuse(const std::string& what, const std::string& found, const std::string& allowed) const {
    throw std::runtime_error("llama2.c " + kind_ + " '" + path_ + "': " + what + ": found " + found + ", allowed " +
                             allowed);
  }

  /// Refuses a number outside [least, most].
  void check(const std::string& what, std::int64_t found, std::int64_t least, std::int64_t most) const {
    if (found < least || found > most)
      refuse(what, std::to_string(found), std::to_string(least) + " to " + std::to_string(most));
  }

 private:
  std::string path_;
  std::string kind_;
  std::ifstream stream_;
  std::int64_t size_ = 0;
  std::int64_t remaining_ = 0;
};

}  // namespace llama2c
