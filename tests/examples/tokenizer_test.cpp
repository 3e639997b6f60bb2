#include "llama2c/tokenizer.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "temporary_file.hpp"

namespace {

using examples_test::Bytes;
using examples_test::contains;
using examples_test::refusal;
using examples_test::TemporaryFile;
using llama2c::Tokenizer;

using Tokens = std::vector<std::pair<std::string, float>>;

constexpr int first_byte = 3;
constexpr int first_text = first_byte + 256;

Bytes file_of(const Tokens& tokens, std::int32_t longest = 16) {
  Bytes bytes;
  bytes.add(longest);
  for (const auto& [text, score] : tokens) bytes.add(score).add(static_cast<std::int32_t>(text.size())).add_text(text);
  return bytes;
}

// Special tokens, the 256 byte tokens, then `texts` from first_text on.
Tokens with_bytes(const Tokens& texts) {
  Tokens tokens{{"<unk>", 0.0F}, {"\n<s>\n", 0.0F}, {"\n</s>\n", 0.0F}};
  for (unsigned byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    tokens.emplace_back(name, 0.0F);
  }
  tokens.insert(tokens.end(), texts.begin(), texts.end());
  return tokens;
}

Tokenizer make(const Tokens& tokens) {
  const TemporaryFile file(file_of(tokens));
  return Tokenizer(file.path(), static_cast<std::int64_t>(tokens.size()));
}

std::string load(const Bytes& bytes, std::int64_t vocab) {
  const TemporaryFile file(bytes);
  const std::string message = refusal([&] { Tokenizer tokenizer(file.path(), vocab); });
  EXPECT_TRUE(message.empty() || contains(message, file.path().string())) << message;
  return message;
}

const Tokens few{{"<unk>", 0.0F}, {"\n<s>\n", 0.0F}, {"\n</s>\n", 0.0F}, {"a", -1.0F}, {" ab", -2.0F}};

TEST(Tokenizer, EncodesNothingAsBeginOfSequence) { EXPECT_EQ(make(with_bytes({})).encode(""), std::vector<int>{1}); }

TEST(Tokenizer, PutsASpaceInFront) {
  const Tokenizer tokenizer = make(with_bytes({{" ", -1.0F}, {"a", -2.0F}}));
  EXPECT_EQ(tokenizer.encode("a"), (std::vector<int>{1, first_text, first_text + 1}));
  EXPECT_EQ(tokenizer.encode(" a"), (std::vector<int>{1, first_text, first_text, first_text + 1}));
}

TEST(Tokenizer, MergesTheBestScoreFirst) {
  const Tokens texts{{" ", -9.0F},  {"a", -9.0F},  {"b", -9.0F},  {"c", -9.0F},
                     {"ab", -2.0F}, {"bc", -1.0F}, {"abc", -3.0F}};
  const Tokenizer tokenizer = make(with_bytes(texts));
  // bc before ab; abc then forms from a and bc.
  EXPECT_EQ(tokenizer.encode("abc"), (std::vector<int>{1, first_text, first_text + 6}));
  EXPECT_EQ(tokenizer.encode("ab"), (std::vector<int>{1, first_text, first_text + 4}));
  EXPECT_EQ(tokenizer.encode("bcab"), (std::vector<int>{1, first_text, first_text + 5, first_text + 4}));
}

TEST(Tokenizer, MergesTheLeftmostOfEqualPairs) {
  const Tokenizer tokenizer = make(with_bytes({{" ", -9.0F}, {"a", -9.0F}, {"aa", -1.0F}}));
  EXPECT_EQ(tokenizer.encode("aaa"), (std::vector<int>{1, first_text, first_text + 2, first_text + 1}));
}

TEST(Tokenizer, FallsBackToBytes) {
  const Tokenizer tokenizer = make(with_bytes({{" ", -1.0F}, {"\xC3\xA9", -2.0F}}));
  EXPECT_EQ(tokenizer.encode("\xC3\xA9"), (std::vector<int>{1, first_text, first_text + 1}));
  EXPECT_EQ(tokenizer.encode("\xC3\xA8"), (std::vector<int>{1, first_text, first_byte + 0xC3, first_byte + 0xA8}));
  EXPECT_EQ(tokenizer.encode("z"), (std::vector<int>{1, first_text, first_byte + 'z'}));
  // A stray continuation byte and a character cut short.
  EXPECT_EQ(tokenizer.encode("\x80"), (std::vector<int>{1, first_text, first_byte + 0x80}));
  EXPECT_EQ(tokenizer.encode("\xC3"), (std::vector<int>{1, first_text, first_byte + 0xC3}));
}

TEST(Tokenizer, DecodesWhatItEncoded) {
  const Tokenizer tokenizer = make(with_bytes({{" ", -1.0F}, {"a", -2.0F}, {" a", -3.0F}, {"\xC3\xA9", -4.0F}}));
  std::string every_byte;
  for (int byte = 1; byte < 256; ++byte) every_byte += static_cast<char>(byte);
  for (const std::string& text :
       {std::string("a"), std::string(" a a"), std::string("  two spaces"), std::string("caf\xC3\xA9\n"),
        std::string(1, '\0') + "x", std::string("<0x41>"), every_byte, every_byte + every_byte}) {
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
}

TEST(Tokenizer, DecodesByteTokensToTheirByte) {
  const Tokenizer tokenizer = make(with_bytes({{"<0x4>", 0.0F}, {"<0xGG>", 0.0F}, {"<0x41>!", 0.0F}}));
  EXPECT_EQ(tokenizer.decode(0, first_byte + 0x0A), "\n");
  EXPECT_EQ(tokenizer.decode(0, first_byte), std::string(1, '\0'));
  EXPECT_EQ(tokenizer.decode(0, first_byte + 0xFF), "\xFF");
  EXPECT_EQ(tokenizer.decode(0, first_text), "<0x4>");
  EXPECT_EQ(tokenizer.decode(0, first_text + 1), "<0xGG>");
  EXPECT_EQ(tokenizer.decode(0, first_text + 2), "<0x41>!");
}

TEST(Tokenizer, StripsOneSpaceAfterBeginOfSequenceOnly) {
  const Tokenizer tokenizer = make(with_bytes({{"  a", -1.0F}, {" ", -1.0F}}));
  EXPECT_EQ(tokenizer.decode(1, first_text), " a");
  EXPECT_EQ(tokenizer.decode(0, first_text), "  a");
  EXPECT_EQ(tokenizer.decode(1, first_text + 1), "");
}

TEST(Tokenizer, RefusesTokensItDoesNotHave) {
  const Tokenizer tokenizer = make(few);
  for (const int id : {-1, 5, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()})
    EXPECT_TRUE(contains(refusal([&] { static_cast<void>(tokenizer.decode(0, id)); }),
                         "found " + std::to_string(id) + ", allowed 0 to 4"));
}

TEST(Tokenizer, RefusesAByteWithoutAToken) {
  EXPECT_TRUE(contains(refusal([] { static_cast<void>(make(few).encode("q")); }), "<0x71>"));
}

TEST(Tokenizer, RefusesEveryTruncation) {
  const Bytes bytes = file_of(few);
  const TemporaryFile file(bytes);
  ASSERT_EQ(refusal([&] { Tokenizer tokenizer(file.path(), 5); }), "");
  for (std::size_t size = bytes.size(); size-- > 0;) {
    file.truncate(size);
    const std::string message = refusal([&] { Tokenizer tokenizer(file.path(), 5); });
    EXPECT_TRUE(contains(message, file.path().string())) << size;
    EXPECT_TRUE(contains(message, "allowed")) << message;
  }
}

TEST(Tokenizer, RefusesAnotherVocabulary) {
  EXPECT_TRUE(contains(load(file_of(few).add(char{0}), 5), "end of the file: found 1 bytes left"));
  EXPECT_TRUE(contains(load(file_of(few), 4), "none after 4 tokens"));
  EXPECT_TRUE(contains(load(file_of(few), 6), "found"));
  EXPECT_TRUE(contains(load(file_of(few), 1 << 20), "size: found"));
  for (const std::int64_t vocab : {std::int64_t{-5}, std::int64_t{0}, std::numeric_limits<std::int64_t>::max()})
    EXPECT_TRUE(contains(load(file_of(few), vocab), "vocabulary asked for: found " + std::to_string(vocab)));
}

TEST(Tokenizer, RefusesImpossibleLengths) {
  constexpr std::int32_t most = std::numeric_limits<std::int32_t>::max();
  for (const std::int32_t longest : {0, -1, most, std::numeric_limits<std::int32_t>::min()})
    EXPECT_TRUE(
        contains(load(file_of(few, longest), 5), "length of the longest token: found " + std::to_string(longest)));
  for (const std::int32_t length : {0, -1, 17, most, std::numeric_limits<std::int32_t>::min()})
    EXPECT_TRUE(contains(load(file_of(few).set(8, length), 5),
                         "token 0, length: found " + std::to_string(length) + ", allowed 1 to 16"));
}

TEST(Tokenizer, RefusesScoresThatAreNoNumbers) {
  EXPECT_TRUE(contains(load(file_of(few).set(4, std::nanf("")), 5), "token 0, score"));
  EXPECT_TRUE(contains(load(file_of(few).set(4, INFINITY), 5), "token 0, score"));
}

TEST(Tokenizer, SurvivesEveryByteEverywhere) {
  const std::size_t size = file_of(few).size();
  for (std::size_t at = 0; at < size; ++at) {
    for (int value = 0; value < 256; value += 17) {
      const TemporaryFile file(file_of(few).set(at, static_cast<unsigned char>(value)));
      static_cast<void>(refusal([&] { static_cast<void>(Tokenizer(file.path(), 5).encode("a")); }));
    }
  }
}

}  // namespace
