#include "llama2c/bit_check.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "small_checkpoint.hpp"
#include "temporary_file.hpp"

namespace {

using examples_test::small_checkpoint;
using examples_test::TemporaryFile;
using Model = llama2c::Model<float>;

template <class Printed>
std::string printed(const Printed& value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

TEST(BitCheck, CountsTokensAndLogits) {
  const TemporaryFile file(small_checkpoint(false));
  const Model model(llama2c::Checkpoint(file.path()));
  auto caches = model.make_caches(8);
  const std::vector<int> tokens{1, 5, 3, 2};
  llama2c::BitCheck check(model);
  check.compare(model.forward(std::span(tokens).first(3), caches), std::span(tokens).first(3));
  check.compare(model.forward(std::span(tokens).last(1), caches), tokens);
  EXPECT_TRUE(check.passed());
  EXPECT_EQ(printed(check), "4 tokens, 44 logits: all bits equal to those of the full forward without a cache");
}

TEST(BitCheck, SeesOneBit) {
  const TemporaryFile file(small_checkpoint(false));
  const Model model(llama2c::Checkpoint(file.path()));
  const std::vector<int> tokens{1, 5, 3};
  Model::Matrix logits = model.forward(tokens);
  logits(2, 7) = std::nextafter(logits(2, 7), 100.0F);
  llama2c::BitCheck check(model);
  check.compare(logits.bottomRows(2), tokens);
  EXPECT_FALSE(check.passed());
  EXPECT_EQ(printed(check), "2 tokens, 22 logits: 1 differ from those of the full forward without a cache");
}

}  // namespace
