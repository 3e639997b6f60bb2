// Handed models and reference values: where they lie, and as much of their formats as the whole-model tests need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <ios>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace examples_test {

/// The folder that an environment variable names; empty where it is unset.
inline std::filesystem::path folder_from(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? std::filesystem::path() : std::filesystem::path(value);
}

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

/// The values of a .npy file of version 1.0, whose element type must be the one that `type` names, such as "<f8".
template <class T>
std::vector<T> read_npy(const std::filesystem::path& path, const std::string& type) {
  const std::string bytes = read_text(path);
  if (bytes.size() < 10 || bytes.compare(0, 8, std::string("\x93NUMPY\x01\x00", 8)) != 0)
    throw std::runtime_error(path.string() + " is no .npy file");
  const std::size_t header = 10 + static_cast<unsigned char>(bytes[8]) + 256U * static_cast<unsigned char>(bytes[9]);
  if (bytes.size() < header || bytes.substr(10, header - 10).find("'" + type + "'") == std::string::npos)
    throw std::runtime_error(path.string() + " does not hold " + type);
  std::vector<T> values((bytes.size() - header) / sizeof(T));
  std::memcpy(values.data(), bytes.data() + header, values.size() * sizeof(T));
  return values;
}

/// One case of the operation model_llama2c: what a whole model must say.
struct ModelCase {
  std::vector<int> tokens;         // the sequence whose logits are given
  std::vector<double> logits;      // [tokens, vocab]
  double tolerance = 0;            // absolute, for a float result
  std::size_t prompt_length = 0;   // how many of the tokens are the prompt
  std::vector<int> greedy_tokens;  // what follows the prompt when the largest logit is fed back
  std::string prompt;
  std::string text;  // of the prompt and the greedy tokens

  explicit ModelCase(const std::filesystem::path& folder) {
    for (const std::int64_t token : read_npy<std::int64_t>(folder / "tokens.npy", "<i8"))
      tokens.push_back(static_cast<int>(token));
    for (const double token : read_npy<double>(folder / "greedy_tokens.npy", "<f8"))
      greedy_tokens.push_back(static_cast<int>(token));
    logits = read_npy<double>(folder / "logits.npy", "<f8");
    prompt = read_text(folder / "prompt.txt");
    text = read_text(folder / "text.txt");
    if (text.ends_with('\n')) text.pop_back();  // the file's own line end
    std::istringstream lines(read_text(folder / "case.txt"));
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string kind, name, skipped;
      words >> kind >> name;
      // attr prompt_len int N, and out logits float64 2 D1 D2 FILE ATOL ATOL64 RTOL RTOL64
      if (kind == "attr" && name == "prompt_len") words >> skipped >> prompt_length;
      if (kind == "out" && name == "logits") words >> skipped >> skipped >> skipped >> skipped >> skipped >> tolerance;
    }
    if (prompt_length == 0 || prompt_length > tokens.size() || tolerance <= 0)
      throw std::runtime_error("case.txt in " + folder.string() + " lacks prompt_len or logits");
  }
};

}  // namespace examples_test
