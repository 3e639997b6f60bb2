#include "llama2c/model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "handed.hpp"
#include "llama2c/sampler.hpp"
#include "llama2c/tokenizer.hpp"
#include "small_checkpoint.hpp"
#include "temporary_file.hpp"

namespace {

using examples_test::Bytes;
using examples_test::contains;
using examples_test::ModelCase;
using examples_test::refusal;
using examples_test::small_checkpoint;
using examples_test::TemporaryFile;
using llama2c::Checkpoint;
using Model = llama2c::Model<float>;
using Logits = Model::Matrix;

// Feeds `tokens` through fresh caches in pieces of the given lengths, over and over, and returns all logits.
template <class AnyModel>
typename AnyModel::Matrix forward_in_pieces(const AnyModel& model, std::span<const int> tokens,
                                            const std::vector<std::size_t>& lengths) {
  auto caches = model.make_caches(static_cast<std::int64_t>(tokens.size()));
  typename AnyModel::Matrix logits(static_cast<Eigen::Index>(tokens.size()), model.config().vocab);
  for (std::size_t done = 0, piece = 0; done < tokens.size(); ++piece) {
    const std::size_t count = std::min(lengths[piece % lengths.size()], tokens.size() - done);
    logits.middleRows(static_cast<Eigen::Index>(done), static_cast<Eigen::Index>(count)) =
        model.forward(tokens.subspan(done, count), caches);
    done += count;
  }
  return logits;
}

// The first row whose bits differ, or -1.
template <class Matrix>
Eigen::Index first_difference(const Matrix& a, const Matrix& b) {
  for (Eigen::Index i = 0; i < a.rows(); ++i)
    if (std::memcmp(a.row(i).data(), b.row(i).data(),
                    sizeof(typename Matrix::Scalar) * static_cast<std::size_t>(a.cols())) != 0)
      return i;
  return -1;
}

const std::vector<std::vector<std::size_t>> piece_plans{{1}, {3, 1, 7, 16, 2}, {100}, {17}, {511, 1}, {1, 511}, {1000}};

std::vector<int> some_tokens(std::size_t count) {
  std::vector<int> tokens(count);
  for (std::size_t i = 0; i < count; ++i) tokens[i] = static_cast<int>(i * i % 11);
  return tokens;
}

template <class T>
llama2c::Model<T> small_model(bool own_classifier = false) {
  const TemporaryFile file(small_checkpoint(own_classifier));
  return llama2c::Model<T>(Checkpoint(file.path()));
}

TEST(Model, AnyChunkingGivesTheBitsOfTheFullForward) {
  const Model model = small_model<float>();
  const std::vector<int> tokens = some_tokens(40);
  const Logits full = model.forward(tokens);
  for (const auto& plan : piece_plans) EXPECT_EQ(first_difference(forward_in_pieces(model, tokens, plan), full), -1);
}

TEST(Model, AnyChunkingGivesTheBitsOfTheFullForwardInDouble) {
  const llama2c::Model<double> model = small_model<double>();
  const std::vector<int> tokens = some_tokens(40);
  const auto full = model.forward(tokens);
  for (const auto& plan : piece_plans) EXPECT_EQ(first_difference(forward_in_pieces(model, tokens, plan), full), -1);
}

TEST(Model, FloatAgreesWithDouble) {
  const std::vector<int> tokens = some_tokens(40);
  const Eigen::MatrixXd difference =
      small_model<float>().forward(tokens).cast<double>() - small_model<double>().forward(tokens);
  EXPECT_LT(difference.cwiseAbs().maxCoeff(), 1e-4);
  EXPECT_GT(difference.cwiseAbs().maxCoeff(), 0);
}

TEST(Model, OwnClassifierMakesTheLogits) {
  const std::vector<int> tokens = some_tokens(5);
  EXPECT_GT((small_model<float>(true).forward(tokens) - small_model<float>().forward(tokens)).cwiseAbs().maxCoeff(),
            1e-3F);
}

TEST(Model, RefusesTokensBeyondTheVocabularyAndKeepsTheCaches) {
  const Model model = small_model<float>();
  auto caches = model.make_caches(40);
  static_cast<void>(model.forward(some_tokens(3), caches));
  for (const int token : {-1, 11, std::numeric_limits<int>::max()}) {
    const std::vector<int> bad{0, token};
    EXPECT_TRUE(contains(refusal([&] { static_cast<void>(model.forward(bad, caches)); }),
                         "found " + std::to_string(token) + ", allowed 0 to 10"));
    EXPECT_EQ(caches.length(), 3);
  }
}

TEST(Model, RefusesMoreTokensThanFitAndKeepsTheCaches) {
  const Model model = small_model<float>();
  auto caches = model.make_caches(8);
  static_cast<void>(model.forward(some_tokens(7), caches));
  EXPECT_THROW(static_cast<void>(model.forward(some_tokens(2), caches)), std::length_error);
  EXPECT_EQ(caches.length(), 7);
  const std::vector<int> tokens = some_tokens(8);
  const Logits last = model.forward(std::span(tokens).last(1), caches);
  const Logits full = model.forward(tokens);
  EXPECT_EQ(std::memcmp(last.data(), full.row(7).data(), sizeof(float) * 11), 0);
}

TEST(Model, SequencesInOneCallHaveTheBitsThatTheyHaveAlone) {
  const Model model = small_model<float>();
  const std::vector<int> tokens = some_tokens(40);
  const std::span<const int> all(tokens);
  Model::Caches a = model.make_caches(40), b = model.make_caches(40), c = model.make_caches(40);
  static_cast<void>(model.forward(all.first(7), a));
  // One token of a sequence under way, nothing of another, the prompt of a third.
  std::vector<int> given(all.begin() + 7, all.begin() + 8);
  given.insert(given.end(), all.begin() + 3, all.begin() + 20);
  const std::vector<Model::Index> lengths{1, 0, 17};
  const std::vector<Model::Caches*> caches{&a, &b, &c};
  const Logits logits = model.forward(given, lengths, caches);
  EXPECT_EQ(first_difference(Logits(logits.topRows(1)), Logits(model.forward(all.first(8)).bottomRows(1))), -1);
  EXPECT_EQ(first_difference(Logits(logits.bottomRows(17)), model.forward(all.subspan(3, 17))), -1);
  EXPECT_EQ(a.length(), 8);
  EXPECT_EQ(b.length(), 0);
  EXPECT_EQ(c.length(), 17);
}

TEST(Model, ARefusedCallOfSeveralSequencesKeepsAllCaches) {
  const Model model = small_model<float>();
  Model::Caches a = model.make_caches(40), b = model.make_caches(4);
  const std::vector<Model::Index> lengths{3, 5};
  const std::vector<Model::Caches*> caches{&a, &b};
  EXPECT_THROW(static_cast<void>(model.forward(some_tokens(8), lengths, caches)), std::length_error);
  EXPECT_TRUE(contains(refusal([&] { static_cast<void>(model.forward(some_tokens(8), {}, caches)); }),
                       "lengths: found 0, allowed one for each of 2 sequences"));
  EXPECT_THROW(static_cast<void>(model.forward(std::vector<int>{0, 1, 99}, std::vector<Model::Index>{1, 2}, caches)),
               std::runtime_error);
  EXPECT_EQ(a.length(), 0);
  EXPECT_EQ(b.length(), 0);
}

TEST(Model, NodesOfADraftTreeHaveTheBitsOfTheirPaths) {
  const Model model = small_model<float>();
  const std::vector<int> tokens = some_tokens(9);
  auto caches = model.make_caches(20);
  static_cast<void>(model.forward(tokens, caches));
  // 0 - 1 - 3 and 0 - 2 behind the context.
  const std::vector<int> nodes{4, 5, 6, 7};
  const std::vector<Model::Index> parents{-1, 0, 0, 1};
  const Logits logits = model.forward_tree(nodes, parents, caches);
  const auto after = [&](std::vector<int> path) {
    path.insert(path.begin(), tokens.begin(), tokens.end());
    return Logits(model.forward(path).bottomRows(1));
  };
  EXPECT_EQ(first_difference(Logits(logits.row(2)), after({4, 6})), -1);
  EXPECT_EQ(first_difference(Logits(logits.row(3)), after({4, 5, 7})), -1);
  EXPECT_EQ(caches.length(), 13);
  model.keep(caches, 9, std::vector<Model::Index>{0, 2});
  EXPECT_EQ(caches.length(), 11);
  EXPECT_EQ(first_difference(model.forward(std::vector<int>{8}, caches), after({4, 6, 8})), -1);
}

// The trained models and what they must say, where they were handed over.
class TrainedModel : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    models_ = examples_test::folder_from("LOCKSTEP_MODELS");
    cases_ = examples_test::folder_from("LOCKSTEP_CASES");
    if (models_.empty() || cases_.empty())
      GTEST_SKIP()
          << "SKIPPED: no trained models. Set LOCKSTEP_MODELS and LOCKSTEP_CASES to the folders that hold them.";
  }

  std::string group() const {
    const std::string id = GetParam();
    return id.substr(0, id.find('/'));
  }
  Checkpoint checkpoint() const { return Checkpoint(models_ / group() / (group() + ".bin")); }
  llama2c::Tokenizer tokenizer() const { return llama2c::Tokenizer(models_ / group() / "tok512.bin", 512); }
  ModelCase expected() const { return ModelCase(cases_ / GetParam()); }

 private:
  std::filesystem::path models_, cases_;
};

// The prompt and the greedy tokens, as far as the model's context goes.
std::vector<int> whole_sequence(const ModelCase& expected) {
  std::vector<int> tokens(expected.tokens.begin(),
                          expected.tokens.begin() + static_cast<std::ptrdiff_t>(expected.prompt_length));
  tokens.insert(tokens.end(), expected.greedy_tokens.begin(), expected.greedy_tokens.end());
  return tokens;
}

TEST_P(TrainedModel, LogitsAreWithinTheTolerance) {
  const ModelCase expected = this->expected();
  const Logits logits = Model(checkpoint()).forward(expected.tokens);
  ASSERT_EQ(static_cast<std::size_t>(logits.size()), expected.logits.size());
  double worst = 0;
  for (std::size_t i = 0; i < expected.logits.size(); ++i)
    worst = std::max(worst, std::abs(static_cast<double>(logits.data()[i]) - expected.logits[i]));
  EXPECT_LE(worst, expected.tolerance);
  RecordProperty("worst_error_over_tolerance", std::to_string(worst / expected.tolerance));
}

TEST_P(TrainedModel, LogitsInDoubleAreTheRightOnes) {
  const ModelCase expected = this->expected();
  const auto logits = llama2c::Model<double>(checkpoint()).forward(expected.tokens);
  ASSERT_EQ(static_cast<std::size_t>(logits.size()), expected.logits.size());
  for (std::size_t i = 0; i < expected.logits.size(); ++i)
    ASSERT_NEAR(logits.data()[i], expected.logits[i], 1e-10) << i;
}

TEST_P(TrainedModel, GreedyTextIsThatOfItsOwnRuntime) {
  const ModelCase expected = this->expected();
  const Model model(checkpoint());
  const llama2c::Tokenizer tokenizer = this->tokenizer();
  llama2c::Sampler greedy(0, 0.9F, 1);
  std::vector<int> tokens = tokenizer.encode(expected.prompt);
  EXPECT_EQ(tokens, std::vector<int>(expected.tokens.begin(),
                                     expected.tokens.begin() + static_cast<std::ptrdiff_t>(expected.prompt_length)));
  auto caches = model.make_caches(static_cast<std::int64_t>(tokens.size() + expected.greedy_tokens.size()));
  Logits logits = model.forward(tokens, caches);
  for (const int expected_token : expected.greedy_tokens) {
    const int next = greedy({logits.row(logits.rows() - 1).data(), static_cast<std::size_t>(logits.cols())});
    ASSERT_EQ(next, expected_token) << "token " << tokens.size();
    tokens.push_back(next);
    logits = model.forward(std::span(tokens).last(1), caches);
  }
  EXPECT_EQ(tokenizer.decode(tokens), expected.text);
}

TEST_P(TrainedModel, DecodingHasTheBitsOfAFullForwardAtEveryPosition) {
  const Model model(checkpoint());
  const std::vector<int> tokens = whole_sequence(expected());
  const Logits decoded = forward_in_pieces(model, tokens, {1});
  EXPECT_EQ(first_difference(decoded, model.forward(tokens)), -1);
  // The full forward that a caller without a cache would make at that moment. Work grows with the square of the length,
  // so of the longer ones every seventh.
  for (std::size_t length = 1; length <= tokens.size(); length += length < 40 ? 1 : 7) {
    const Logits full = model.forward(std::span(tokens).first(length));
    ASSERT_EQ(first_difference<Logits>(full, decoded.topRows(full.rows())), -1) << length;
  }
}

TEST_P(TrainedModel, AnyChunkingGivesTheBitsOfTheFullForward) {
  const Model model(checkpoint());
  const std::vector<int> tokens = whole_sequence(expected());
  const Logits full = model.forward(tokens);
  for (const auto& plan : piece_plans) EXPECT_EQ(first_difference(forward_in_pieces(model, tokens, plan), full), -1);
}

TEST_P(TrainedModel, WholeContextHasOneSetOfBits) {
  const Model model(checkpoint());
  std::vector<int> tokens = whole_sequence(expected());
  while (tokens.size() < static_cast<std::size_t>(model.config().positions))
    tokens.push_back(tokens[tokens.size() / 2]);
  tokens.resize(static_cast<std::size_t>(model.config().positions));
  const Logits full = model.forward(tokens);
  for (const std::vector<std::size_t>& plan : {std::vector<std::size_t>{1}, {3, 1, 7, 16, 2}, {511, 1}})
    EXPECT_EQ(first_difference(forward_in_pieces(model, tokens, plan), full), -1);
}

TEST_P(TrainedModel, TokenizerReturnsTheHandedTexts) {
  const ModelCase expected = this->expected();
  const llama2c::Tokenizer tokenizer = this->tokenizer();
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(expected.text)), expected.text);
  EXPECT_EQ(tokenizer.decode(whole_sequence(expected)), expected.text);
}

INSTANTIATE_TEST_SUITE_P(Handed, TrainedModel,
                         testing::Values("stories260K/model_empty", "stories260K/model_lily_ball",
                                         "aidreams260K/model_dream_empty"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '/', '_');
                           return name;
                         });

}  // namespace
