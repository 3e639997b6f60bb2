// Writes on from a prompt with a llama2.c checkpoint, every token through the caches of all layers.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <exception>
#include <iostream>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "llama2c/checkpoint.hpp"
#include "llama2c/model.hpp"
#include "llama2c/options.hpp"
#include "llama2c/sampler.hpp"
#include "llama2c/tokenizer.hpp"

namespace {

using Model = llama2c::Model<float>;
using Logits = Model::Matrix;

// How many tokens went through the model, and how long that took.
struct Speed {
  std::int64_t tokens = 0;
  double seconds = 0;

  void report(const char* what) const {
    std::cout << what << ": " << tokens << (tokens == 1 ? " token" : " tokens");
    if (seconds > 0)
      std::cout << ", " << static_cast<std::int64_t>(static_cast<double>(tokens) / seconds) << " tokens/s";
    std::cout << '\n';
  }
};

// Counts the rows of logits that have the bits of a forward without a cache over the whole sequence so far.
class BitCheck {
 public:
  explicit BitCheck(const Model& model) : model_(model) {}

  // `rows` are the logits of the last tokens of the sequence.
  void compare(const Logits& rows, std::span<const int> tokens) {
    const Logits full = model_.forward(tokens);
    for (Eigen::Index i = 0; i < rows.rows(); ++i) {
      const float* expected = full.row(full.rows() - rows.rows() + i).data();
      equal_ += std::memcmp(rows.row(i).data(), expected, sizeof(float) * static_cast<std::size_t>(rows.cols())) == 0;
      ++all_;
    }
  }

  bool passed() const { return equal_ == all_; }
  void report() const {
    std::cout << equal_ << " of " << all_ << " rows of logits have the bits of the full forward\n";
  }

 private:
  const Model& model_;
  std::int64_t equal_ = 0;
  std::int64_t all_ = 0;
};

Logits forward(const Model& model, std::span<const int> tokens, Model::Caches& caches, Speed& speed) {
  const auto start = std::chrono::steady_clock::now();
  Logits logits = model.forward(tokens, caches);
  speed.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  speed.tokens += static_cast<std::int64_t>(tokens.size());
  return logits;
}

int run(const llama2c::Options& options) {
  const llama2c::Checkpoint checkpoint(options.model);
  const llama2c::Tokenizer tokenizer(options.tokenizer, checkpoint.config().vocab);
  llama2c::Sampler sampler(options.temperature, options.top_p, options.seed);
  const Model model(checkpoint);

  std::vector<int> tokens = tokenizer.encode(options.prompt);
  const std::int64_t prompt = static_cast<std::int64_t>(tokens.size());
  const std::int64_t positions = model.config().positions;
  if (prompt > positions)
    throw std::runtime_error("--prompt: found " + std::to_string(prompt) + " tokens, allowed 1 to " +
                             std::to_string(positions));
  // The last token that is written needs no place of its own: nothing follows it.
  const std::int64_t steps = std::min(options.steps, positions - prompt + 1);
  Model::Caches caches = model.make_caches(prompt + steps - 1);
  BitCheck bits(model);
  Speed prompt_speed, decode_speed;

  std::cout << tokenizer.decode(tokens) << std::flush;
  Logits logits = forward(model, tokens, caches, prompt_speed);
  if (options.check_bits) bits.compare(logits, tokens);
  for (std::int64_t step = 1;; ++step) {
    const int next = sampler({logits.row(logits.rows() - 1).data(), static_cast<std::size_t>(logits.cols())});
    if (next == llama2c::begin_of_sequence) break;  // the model ends its text here
    std::cout << tokenizer.decode(tokens.back(), next) << std::flush;
    tokens.push_back(next);
    if (step == steps) break;
    logits = forward(model, std::span(tokens).last(1), caches, decode_speed);
    if (options.check_bits) bits.compare(logits, tokens);
  }

  std::cout << "\n\n";
  prompt_speed.report("prompt");
  decode_speed.report("decode");
  if (options.check_bits) bits.report();
  return bits.passed() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  // 1 says that bits differ; 2 that the work could not be done.
  try {
    const llama2c::Options options =
        llama2c::parse_options(std::span<const char* const>(argv + std::min(argc, 1), argv + argc));
    if (options.help) {
      std::cout << llama2c::usage;
      return 0;
    }
    return run(options);
  } catch (const llama2c::UsageError& error) {
    std::cerr << "generate: " << error.what() << " (see --help)\n";
  } catch (const std::exception& error) {
    std::cerr << "generate: " << error.what() << '\n';
  }
  return 2;
}
