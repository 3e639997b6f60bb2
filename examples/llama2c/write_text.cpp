#include "llama2c/write_text.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "llama2c/bit_check.hpp"
#include "llama2c/checkpoint.hpp"
#include "llama2c/model.hpp"
#include "llama2c/options.hpp"
#include "llama2c/sampler.hpp"
#include "llama2c/tokenizer.hpp"

namespace llama2c {

namespace {

// How many tokens went through the model, and how long that took.
struct Speed {
  std::int64_t tokens = 0;
  double seconds = 0;

  template <class Forward>
  auto measure(std::size_t count, Forward&& forward) {
    const auto start = std::chrono::steady_clock::now();
    auto logits = forward();
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    tokens += static_cast<std::int64_t>(count);
    return logits;
  }

  friend std::ostream& operator<<(std::ostream& out, const Speed& speed) {
    out << speed.tokens << (speed.tokens == 1 ? " token" : " tokens");
    if (speed.seconds > 0)
      out << ", " << static_cast<std::int64_t>(static_cast<double>(speed.tokens) / speed.seconds) << " tokens/s";
    return out;
  }
};

}  // namespace

bool write_text(const Options& options, std::ostream& out) {
  const Checkpoint checkpoint(options.model);
  const Tokenizer tokenizer(options.tokenizer, checkpoint.config().vocab);
  Sampler sampler(options.temperature, options.top_p, options.seed);
  const Model<float> model(checkpoint);

  std::vector<int> tokens = tokenizer.encode(options.prompt);
  const std::int64_t prompt = static_cast<std::int64_t>(tokens.size());
  const std::int64_t positions = model.config().positions;
  if (prompt > positions)
    throw std::runtime_error("--prompt: found " + std::to_string(prompt) + " tokens, allowed 1 to " +
                             std::to_string(positions));
  // The last token that is written needs no place of its own: nothing follows it.
  const std::int64_t steps = std::min(options.steps, positions - prompt + 1);
  auto caches = model.make_caches(prompt + steps - 1);
  BitCheck bits(model);
  Speed prefill, decode;

  out << tokenizer.decode(tokens) << std::flush;
  auto logits = prefill.measure(tokens.size(), [&] { return model.forward(tokens, caches); });
  if (options.check_bits) bits.compare(logits, tokens);
  for (std::int64_t step = 1;; ++step) {
    const int next = sampler({logits.row(logits.rows() - 1).data(), static_cast<std::size_t>(logits.cols())});
    if (next == begin_of_sequence) break;  // the model ends its text here
    out << tokenizer.decode(tokens.back(), next) << std::flush;
    tokens.push_back(next);
    if (step == steps) break;
    logits = decode.measure(1, [&] { return model.forward(std::span(tokens).last(1), caches); });
    if (options.check_bits) bits.compare(logits, tokens);
  }

  out << "\n\nprefill: " << prefill << "\ndecode: " << decode << '\n';
  if (options.check_bits) out << "bits: " << bits << '\n';
  return bits.passed();
}

}  // namespace llama2c
