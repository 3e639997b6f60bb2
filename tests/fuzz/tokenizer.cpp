// Any file as a tokenizer, and any text through those that are taken, against a plain reading of the format.
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "examples/temporary_file.hpp"
#include "fuzz.hpp"
#include "llama2c/tokenizer.hpp"

namespace {

struct Token {
  std::string text;
  float score = 0;
};
using Tokens = std::vector<Token>;

std::optional<Tokens> read(const std::string& file, std::int64_t vocab) {
  std::size_t at = 0;
  const auto number = [&](auto& value) {
    if (file.size() - at < sizeof value) return false;
    std::memcpy(&value, file.data() + at, sizeof value);
    at += sizeof value;
    return true;
  };
  std::int32_t longest = 0;
  if (vocab < 2 || !number(longest) || longest < 1 || longest > 4096) return {};
  Tokens tokens;
  for (std::int64_t i = 0; i < vocab; ++i) {
    Token token;
    std::int32_t length = 0;
    if (!number(token.score) || !std::isfinite(token.score) || !number(length) || length < 1 || length > longest ||
        file.size() - at < static_cast<std::size_t>(length))
      return {};
    token.text = file.substr(at, static_cast<std::size_t>(length));
    at += static_cast<std::size_t>(length);
    tokens.push_back(token);
  }
  if (at != file.size()) return {};
  return tokens;
}

int find(const Tokens& tokens, const std::string& text) {
  for (std::size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i].text == text) return static_cast<int>(i);
  return -1;
}

/// The tokens of a text, or none where a byte has no token.
std::optional<std::vector<int>> encode(const Tokens& tokens, const std::string& text) {
  std::vector<int> ids{1};
  if (text.empty()) return ids;
  if (find(tokens, " ") >= 0) ids.push_back(find(tokens, " "));
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at + 1;
    while (end < text.size() && end - at < 4 && (static_cast<unsigned char>(text[end]) >> 6) == 2) ++end;
    const std::string character = text.substr(at, end - at);
    at = end;
    if (const int id = find(tokens, character); id >= 0) {
      ids.push_back(id);
      continue;
    }
    for (const char c : character) {
      char name[8];
      std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned>(static_cast<unsigned char>(c)));
      if (find(tokens, name) < 0) return {};
      ids.push_back(find(tokens, name));
    }
  }
  for (;;) {
    int best = -1;
    std::size_t where = 0;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const int id = find(
          tokens, tokens[static_cast<std::size_t>(ids[i])].text + tokens[static_cast<std::size_t>(ids[i + 1])].text);
      if (id < 0 ||
          (best >= 0 && !(tokens[static_cast<std::size_t>(id)].score > tokens[static_cast<std::size_t>(best)].score)))
        continue;
      best = id;
      where = i;
    }
    if (best < 0) return ids;
    ids[where] = best;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(where) + 1);
  }
}

}  // namespace

void fuzz::target(const std::uint8_t* data, std::size_t size) {
  Bytes in(data, size);
  const std::int64_t vocab = in.byte();
  const std::string text = in.text(in.byte() % 32), file = in.rest();
  const std::optional<Tokens> tokens = read(file, vocab);
  const examples_test::TemporaryFile on_disk(examples_test::Bytes().add_text(file));
  std::optional<llama2c::Tokenizer> tokenizer;
  try {
    tokenizer.emplace(on_disk.path(), vocab);
  } catch (const std::runtime_error& error) {
    note(error.what());
  }
  require(tokenizer.has_value() == tokens.has_value(), "what the format allows is taken, else refused");
  if (!tokens) return;
  std::optional<std::vector<int>> ids;
  try {
    ids = tokenizer->encode(text);
  } catch (const std::runtime_error& error) {
    note(error.what());
  }
  require(ids == encode(*tokens, text), "a text has the tokens of the plain reading");
  if (ids) tokenizer->decode(*ids);
  for (int id = -1; id <= static_cast<int>(vocab); ++id) {
    bool taken = true;
    std::string piece;
    try {
      piece = tokenizer->decode(-1, id);
    } catch (const std::runtime_error&) {
      taken = false;
    }
    require(taken == (id >= 0 && id < vocab), "tokens of the vocabulary are decoded, others not");
    if (taken)
      require(piece.size() == 1 || piece == (*tokens)[static_cast<std::size_t>(id)].text, "a token is its text");
  }
}
