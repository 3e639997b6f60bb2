#include "llama2c/options.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "temporary_file.hpp"

namespace {

using examples_test::contains;
using llama2c::Options;
using llama2c::parse_options;

std::vector<const char*> with_files(std::vector<const char*> rest) {
  std::vector<const char*> arguments{"--model", "m.bin", "--tokenizer", "t.bin"};
  arguments.insert(arguments.end(), rest.begin(), rest.end());
  return arguments;
}

std::string refusal(const std::vector<const char*>& arguments) {
  try {
    static_cast<void>(parse_options(arguments));
  } catch (const llama2c::UsageError& error) {
    return error.what();
  }
  return {};
}

TEST(Options, TakesEveryOption) {
  const Options options =
      parse_options(with_files({"--prompt", "--help", "--steps", "12", "--temperature", "0.5", "--top-p", "0.25",
                                "--seed", "18446744073709551615", "--check-bits"}));
  EXPECT_EQ(options.model, "m.bin");
  EXPECT_EQ(options.tokenizer, "t.bin");
  EXPECT_EQ(options.prompt, "--help");
  EXPECT_EQ(options.steps, 12);
  EXPECT_EQ(options.temperature, 0.5F);
  EXPECT_EQ(options.top_p, 0.25F);
  EXPECT_EQ(options.seed, 18446744073709551615U);
  EXPECT_TRUE(options.check_bits);
  EXPECT_FALSE(options.help);
}

TEST(Options, GivenOnesWinOverUsualOnes) {
  const Options usual{.model = "m", .tokenizer = "t", .prompt = "Lily", .steps = 5, .check_bits = true};
  const Options options = parse_options(std::vector<const char*>{"--model", "other", "--steps", "7"}, usual);
  EXPECT_EQ(options.model, "other");
  EXPECT_EQ(options.tokenizer, "t");
  EXPECT_EQ(options.prompt, "Lily");
  EXPECT_EQ(options.steps, 7);
  EXPECT_TRUE(options.check_bits);
}

TEST(Options, HelpNeedsNothingElse) { EXPECT_TRUE(parse_options(std::vector<const char*>{"--help"}).help); }

TEST(Options, RefusesAMissingFile) {
  EXPECT_TRUE(contains(refusal({}), "--model: found none"));
  EXPECT_TRUE(contains(refusal({"--model", "m.bin"}), "--tokenizer: found none"));
}

TEST(Options, RefusesUnknownOptions) {
  EXPECT_TRUE(contains(refusal(with_files({"--stpes", "3"})), "found '--stpes'"));
  EXPECT_TRUE(contains(refusal(with_files({"--stpes"})), "found '--stpes'"));
  EXPECT_TRUE(contains(refusal(with_files({"prompt"})), "found 'prompt'"));
  EXPECT_TRUE(contains(refusal(with_files({""})), "found ''"));
}

TEST(Options, RefusesAMissingValue) {
  EXPECT_TRUE(contains(refusal(with_files({"--prompt"})), "--prompt: found no value"));
  EXPECT_TRUE(contains(refusal(with_files({"--steps"})), "--steps: found ''"));
}

TEST(Options, RefusesNumbersOutOfRange) {
  for (const char* steps : {"0", "-1", "1048577", "99999999999999999999", "3x", "x", " 3", "", "1e3"})
    EXPECT_TRUE(contains(refusal(with_files({"--steps", steps})),
                         std::string("--steps: found '") + steps + "', allowed numbers from 1 to 1048576"));
  for (const char* temperature : {"-0.5", "1001", "nan", "inf", "1e99", "warm"})
    EXPECT_TRUE(contains(refusal(with_files({"--temperature", temperature})), "--temperature: found"));
  for (const char* top_p : {"-0.5", "1.5", "nan"})
    EXPECT_TRUE(contains(refusal(with_files({"--top-p", top_p})), "allowed numbers from 0 to 1"));
  for (const char* seed : {"0", "-1", "18446744073709551616"})
    EXPECT_TRUE(contains(refusal(with_files({"--seed", seed})), "--seed: found"));
}

}  // namespace
