#include "llama2c/checkpoint.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>

#include "temporary_file.hpp"

namespace {

using examples_test::Bytes;
using examples_test::contains;
using examples_test::refusal;
using examples_test::TemporaryFile;
using llama2c::Checkpoint;

constexpr std::array<const char*, 7> header_names{"dim", "hidden", "layers", "heads", "kv_heads", "vocab", "positions"};

// dim 8, hidden 6, layers 2, heads 4, kv_heads 2, vocab 5, positions 3
constexpr std::array<std::int32_t, 7> tiny{8, 6, 2, 4, 2, 5, 3};
constexpr int tiny_floats = 5 * 8 + 2 * 8 + 2 * (64 + 32 + 32 + 64) + 2 * 8 + 3 * 2 * 48 + 8 + 3 * 2;

// The weights count up from 0, so that a value tells its place in the file.
Bytes tiny_file(bool own_classifier = false) {
  Bytes bytes;
  for (std::size_t i = 0; i < tiny.size(); ++i) bytes.add(own_classifier && i == 5 ? -tiny[i] : tiny[i]);
  const int floats = tiny_floats + (own_classifier ? 5 * 8 : 0);
  for (int i = 0; i < floats; ++i) bytes.add(static_cast<float>(i));
  return bytes;
}

std::string load(const std::filesystem::path& path) {
  return refusal([&] { Checkpoint checkpoint(path); });
}

std::string load(const Bytes& bytes) {
  const TemporaryFile file(bytes);
  const std::string message = load(file.path());
  EXPECT_TRUE(message.empty() || contains(message, file.path().string())) << message;
  return message;
}

TEST(Checkpoint, ReadsEverySectionFromItsPlace) {
  const TemporaryFile file(tiny_file());
  const Checkpoint checkpoint(file.path());
  EXPECT_EQ(checkpoint.config().dim, 8);
  EXPECT_EQ(checkpoint.config().hidden, 6);
  EXPECT_EQ(checkpoint.config().layers, 2);
  EXPECT_EQ(checkpoint.config().heads, 4);
  EXPECT_EQ(checkpoint.config().kv_heads, 2);
  EXPECT_EQ(checkpoint.config().vocab, 5);
  EXPECT_EQ(checkpoint.config().positions, 3);
  EXPECT_EQ(checkpoint.config().head_dim(), 2);
  EXPECT_EQ(checkpoint.config().kv_dim(), 4);
  EXPECT_EQ(checkpoint.embedding()(4, 7), 39.0F);
  EXPECT_EQ(checkpoint.classifier()(4, 7), 39.0F);
  const Checkpoint::Layer last = checkpoint.layer(1);
  int place = 40;
  EXPECT_EQ(last.attention_norm(0), static_cast<float>(place + 8));
  place += 2 * 8;
  EXPECT_EQ(last.query(2, 3), static_cast<float>(place + 64 + 2 * 8 + 3));
  place += 2 * 64;
  EXPECT_EQ(last.key(3, 1), static_cast<float>(place + 32 + 3 * 8 + 1));
  place += 2 * 32;
  EXPECT_EQ(last.value(3, 1), static_cast<float>(place + 32 + 3 * 8 + 1));
  place += 2 * 32;
  EXPECT_EQ(last.output(0, 1), static_cast<float>(place + 64 + 1));
  place += 2 * 64;
  EXPECT_EQ(last.feed_forward_norm(7), static_cast<float>(place + 8 + 7));
  place += 2 * 8;
  EXPECT_EQ(last.gate(5, 1), static_cast<float>(place + 48 + 5 * 8 + 1));
  place += 2 * 48;
  EXPECT_EQ(last.down(7, 1), static_cast<float>(place + 48 + 7 * 6 + 1));
  place += 2 * 48;
  EXPECT_EQ(last.up(5, 1), static_cast<float>(place + 48 + 5 * 8 + 1));
  place += 2 * 48;
  EXPECT_EQ(checkpoint.final_norm()(0), static_cast<float>(place));
}

TEST(Checkpoint, NegativeVocabMeansAClassifierBehindTheRotaryTables) {
  const TemporaryFile file(tiny_file(true));
  const Checkpoint checkpoint(file.path());
  EXPECT_EQ(checkpoint.config().vocab, 5);
  EXPECT_TRUE(checkpoint.config().own_classifier);
  EXPECT_EQ(checkpoint.classifier()(0, 0), static_cast<float>(tiny_floats));
  EXPECT_EQ(checkpoint.embedding()(0, 0), 0.0F);
}

TEST(Checkpoint, RefusesEveryTruncation) {
  for (const bool own_classifier : {false, true}) {
    const Bytes bytes = tiny_file(own_classifier);
    const TemporaryFile file(bytes);
    for (std::size_t size = bytes.size(); size-- > 0;) {
      file.truncate(size);
      const std::string message = load(file.path());
      EXPECT_TRUE(contains(message, file.path().string())) << size;
      EXPECT_TRUE(contains(message, std::to_string(size) + " bytes")) << message;
      EXPECT_TRUE(contains(message, std::to_string(size < 28 ? 28 : bytes.size()))) << message;
    }
  }
}

TEST(Checkpoint, RefusesBytesBehindTheEnd) {
  const std::string message = load(tiny_file().add(char{0}));
  EXPECT_TRUE(contains(message, "size: found " + std::to_string(28 + 4 * tiny_floats + 1))) << message;
  EXPECT_TRUE(contains(message, "exactly " + std::to_string(28 + 4 * tiny_floats))) << message;
}

TEST(Checkpoint, RefusesAClassifierThatIsNotThere) {
  EXPECT_TRUE(contains(load(tiny_file().set(5 * 4, std::int32_t{-5})), "size: found"));
}

TEST(Checkpoint, RefusesHeaderNumbersNoModelHas) {
  constexpr std::int32_t most = std::numeric_limits<std::int32_t>::max();
  constexpr std::int32_t least = std::numeric_limits<std::int32_t>::min();
  for (std::size_t i = 0; i < tiny.size(); ++i) {
    for (const std::int32_t number : {0, -1, least, most}) {
      if (header_names[i] == std::string("vocab") && number == -1) continue;  // a vocabulary of one, with a classifier
      const std::string message = load(tiny_file().set(4 * i, number));
      EXPECT_TRUE(contains(message, std::string(": ") + header_names[i] + ": found "))
          << header_names[i] << number << message;
      EXPECT_TRUE(contains(message, "allowed ")) << message;
    }
  }
}

TEST(Checkpoint, RefusesTheLargestAllowedShapeBySizeBeforeItAllocates) {
  Bytes bytes = tiny_file();
  const std::array<std::int32_t, 7> largest{1 << 16, 1 << 18, 1 << 10, 1 << 15, 1 << 15, 1 << 20, 1 << 20};
  for (std::size_t i = 0; i < largest.size(); ++i) bytes.set(4 * i, largest[i]);
  // floats: embedding 2^36, norms and final norm, four projections 2^42 each, three feed-forward ones 2^44 each, rotary
  // 2^21
  const std::int64_t floats = (std::int64_t{1} << 36) + 2 * (std::int64_t{1} << 26) + 4 * (std::int64_t{1} << 42) +
                              3 * (std::int64_t{1} << 44) + (1 << 16) + (1 << 21);
  const std::string message = load(bytes);
  EXPECT_TRUE(contains(message, "exactly " + std::to_string(28 + 4 * floats))) << message;
}

TEST(Checkpoint, RefusesHeadsThatDoNotDivide) {
  EXPECT_TRUE(
      contains(load(tiny_file().set(4 * 3, std::int32_t{3})), "heads: found 3, allowed numbers that divide dim 8"));
  EXPECT_TRUE(contains(load(tiny_file().set(4 * 4, std::int32_t{3})),
                       "kv_heads: found 3, allowed numbers that divide heads 4"));
  EXPECT_TRUE(contains(load(tiny_file().set(4 * 4, std::int32_t{8})), "kv_heads: found 8, allowed 1 to 4"));
}

TEST(Checkpoint, RefusesHeadsOfOddLength) {
  // dim 6 and two heads: three components, which do not pair for a rotation.
  EXPECT_TRUE(contains(load(tiny_file().set(0, std::int32_t{6}).set(4 * 3, std::int32_t{2})), "even parts"));
}

TEST(Checkpoint, RefusesForeignFiles) {
  EXPECT_TRUE(contains(load(Bytes().add_text("GGUF").add_text(std::string(100, '\3'))), "dim: found 1179993927"));
  EXPECT_TRUE(contains(load(Bytes().add_text("24ka").add_text(std::string(100, '\0'))),
                       "format: found a file of version 1 or later"));
  EXPECT_TRUE(contains(load(Bytes().add_text("#!/bin/sh\necho this is a text and no model\n")), "dim: found"));
  EXPECT_TRUE(contains(load(Bytes()), "header: found 0 bytes left, allowed 28 bytes"));
}

TEST(Checkpoint, RefusesWhatIsNoFile) {
  EXPECT_TRUE(contains(load(std::filesystem::path("/no/such/file.bin")), "file: found none of that name"));
  EXPECT_TRUE(contains(load(std::filesystem::temp_directory_path()), "allowed a regular file"));
  EXPECT_TRUE(contains(load(std::filesystem::path()), "file: found"));
}

TEST(Checkpoint, SurvivesEveryByteInTheHeader) {
  for (std::size_t at = 0; at < 28; ++at) {
    for (int value = 0; value < 256; value += 5) {
      const TemporaryFile file(tiny_file().set(at, static_cast<unsigned char>(value)));
      const std::string message = load(file.path());
      if (message.empty()) {
        const Checkpoint checkpoint(file.path());
        EXPECT_EQ(checkpoint.config().vocab * checkpoint.config().dim, checkpoint.embedding().size());
      }
    }
  }
}

}  // namespace
