// Text to tokens and back by byte pairs, as llama2.c does it with its tokenizer file.
//
// The file: int32 length of the longest token, then for each token float32 score, int32 length, bytes. It does not say
// how many tokens it holds; the checkpoint does. Three tokens are special: 0 unknown, 1 begin of sequence, 2 end.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "llama2c/input_file.hpp"

namespace llama2c {

inline constexpr int begin_of_sequence = 1;

class Tokenizer {
 public:
  /// Reads `vocab` tokens and refuses, with a std::runtime_error, a file that holds fewer, more or impossible ones.
  Tokenizer(const std::filesystem::path& path, std::int64_t vocab) {
    InputFile file(path, "tokenizer");
    file.check("vocabulary asked for", vocab, 2, 1 << 20);
    const std::int64_t longest = file.read<std::int32_t>("length of the longest token");
    file.check("length of the longest token", longest, 1, 1 << 12);
    // A token takes nine bytes at least; so a short file cannot ask for a long table.
    if (file.remaining() / 9 < vocab)
      file.refuse("size", file.bytes_left(), "at least " + std::to_string(9 * vocab) + " for this vocabulary");
    tokens_.reserve(static_cast<std::size_t>(vocab));
    for (std::int64_t id = 0; id < vocab; ++id) tokens_.push_back(read_token(file, id, longest));
    if (file.remaining() != 0)
      file.refuse("end of the file", file.bytes_left(), "none after " + std::to_string(vocab) + " tokens");
    // A text that occurs twice means the first token of that text.
    for (std::size_t id = 0; id < tokens_.size(); ++id) ids_.emplace(tokens_[id].text, static_cast<int>(id));
  }

  int vocab() const noexcept { return static_cast<int>(tokens_.size()); }

  /// The tokens of a text, begin of sequence first. A text that is not empty gets a space in front, as in training.
  /// Characters that are no token of their own become byte tokens; then the adjacent pair whose union has the best
  /// score is merged, the leftmost of equals, until no union is a token.
  std::vector<int> encode(std::string_view text) const {
    std::vector<int> ids{begin_of_sequence};
    if (text.empty()) return ids;
    if (const int space = find(" "); space >= 0) ids.push_back(space);
    while (!text.empty()) {
      const std::size_t length = character_length(text);
      append_character(text.substr(0, length), ids);
      text.remove_prefix(length);
    }
    while (merge_best_pair(ids)) {
    }
    return ids;
  }

  /// The text that `token` adds after `previous`: its bytes, the one byte of a byte token <0xNN>, and without its
  /// leading space after begin of sequence.
  std::string decode(int previous, int token) const {
    std::string_view text = at(token).text;
    if (previous == begin_of_sequence && !text.empty() && text.front() == ' ') text.remove_prefix(1);
    if (const int byte = byte_value(text); byte >= 0) return std::string(1, static_cast<char>(byte));
    return std::string(text);
  }

  /// The text of a whole sequence; its begin is not text.
  std::string decode(std::span<const int> ids) const {
    std::string text;
    for (std::size_t i = 0; i < ids.size(); ++i)
      if (ids[i] != begin_of_sequence) text += decode(i == 0 ? -1 : ids[i - 1], ids[i]);
    return text;
  }

 private:
  struct Token {
    std::string text;
    float score = 0;
  };

  static Token read_token(InputFile& file, std::int64_t id, std::int64_t longest) {
    const std::string name = "token " + std::to_string(id);
    Token token;
    token.score = file.read<float>(name + ", score");
    if (!std::isfinite(token.score)) file.refuse(name + ", score", "no finite number", "finite numbers");
    const std::int64_t length = file.read<std::int32_t>(name + ", length");
    file.check(name + ", length", length, 1, longest);
    token.text.resize(static_cast<std::size_t>(length));
    file.read(token.text.data(), length, name + ", text");
    return token;
  }

  const Token& at(int id) const {
    if (id < 0 || id >= vocab())
      throw std::runtime_error("llama2.c tokenizer: token: found " + std::to_string(id) + ", allowed 0 to " +
                               std::to_string(vocab() - 1));
    return tokens_[static_cast<std::size_t>(id)];
  }

  int find(const std::string& text) const {
    const auto found = ids_.find(text);
    return found == ids_.end() ? -1 : found->second;
  }

  // A byte and the UTF-8 continuation bytes behind it, four in all at most. Broken UTF-8 gives pieces that are no
  // tokens.
  static std::size_t character_length(std::string_view text) {
    std::size_t length = 1;
    while (length < text.size() && length < 4 && (static_cast<unsigned char>(text[length]) & 0xC0U) == 0x80U) ++length;
    return length;
  }

  void append_character(std::string_view character, std::vector<int>& ids) const {
    if (const int id = find(std::string(character)); id >= 0) {
      ids.push_back(id);
      return;
    }
    for (const char c : character) {
      const std::string name = byte_name(static_cast<unsigned char>(c));
      const int id = find(name);
      if (id < 0)
        throw std::runtime_error(
            "llama2.c tokenizer: text: found a byte for which there is no token, allowed bytes with a token " + name);
      ids.push_back(id);
    }
  }

  bool merge_best_pair(std::vector<int>& ids) const {
    int best = -1;
    std::size_t place = 0;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const int id = find(at(ids[i]).text + at(ids[i + 1]).text);
      if (id >= 0 && (best < 0 || at(id).score > at(best).score)) {
        best = id;
        place = i;
      }
    }
    if (best < 0) return false;
    ids[place] = best;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(place) + 1);
    return true;
  }

  static std::string byte_name(unsigned byte) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    return {'<', '0', 'x', digits[byte / 16], digits[byte % 16], '>'};
  }

  // The byte that a text like <0x0A> names, or -1.
  static int byte_value(std::string_view text) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>') return -1;
    const std::size_t high = digits.find(text[3]);
    const std::size_t low = digits.find(text[4]);
    if (high == std::string_view::npos || low == std::string_view::npos) return -1;
    return static_cast<int>(high * 16 + low);
  }

  std::vector<Token> tokens_;
  std::unordered_map<std::string, int> ids_;
};

}  // namespace llama2c
