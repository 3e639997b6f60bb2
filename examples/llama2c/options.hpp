// The command line of `generate` and `quickstart`.
#pragma once

#include <charconv>
#include <cstdint>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

namespace llama2c {

/// A command line that cannot be followed; the message says which option, what was found and what is allowed.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Options {
  std::string model;
  std::string tokenizer;
  std::string prompt;
  std::int64_t steps = 256;
  float temperature = 0;
  float top_p = 0.9F;
  std::uint64_t seed = 1;
  bool check_bits = false;
  bool help = false;
};

inline constexpr std::string_view usage =
    "generate: writes on from a prompt with a llama2.c checkpoint\n"
    "quickstart: the same with a small model of its own, a prompt and --check-bits to begin with\n"
    "\n"
    "  --model FILE        checkpoint, such as stories260K.bin (generate: required)\n"
    "  --tokenizer FILE    its tokenizer, such as tok512.bin (generate: required)\n"
    "  --prompt TEXT       what the text begins with (empty)\n"
    "  --steps N           most tokens to generate, 1 to 1048576 (256); the model's context may end it sooner\n"
    "  --temperature X     0 takes the likeliest token, 1 draws as the model was trained (0)\n"
    "  --top-p X           draws from the likeliest tokens that together exceed X, 0 to 1 (0.9); 0 and 1 use all\n"
    "  --seed N            seed of the draws, from 1 (1)\n"
    "  --check-bits        recomputes every step without a cache and compares the bits of the logits\n"
    "  --help              this text\n";

namespace detail {

template <class Number>
Number parse_number(std::string_view option, std::string_view text, Number least, Number most) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  // Written so that NaN is refused too.
  const bool inside = value >= least && value <= most;
  if (error != std::errc() || end != text.data() + text.size() || !inside) {
    std::ostringstream message;
    message << option << ": found '" << text << "', allowed numbers from " << least << " to " << most;
    throw UsageError(message.str());
  }
  return value;
}

inline void set_option(Options& options, std::string_view name, std::string_view value) {
  if (name == "--model")
    options.model = value;
  else if (name == "--tokenizer")
    options.tokenizer = value;
  else if (name == "--prompt")
    options.prompt = value;
  else if (name == "--steps")
    options.steps = parse_number<std::int64_t>(name, value, 1, 1 << 20);
  else if (name == "--temperature")
    options.temperature = parse_number<float>(name, value, 0, 1000);
  else if (name == "--top-p")
    options.top_p = parse_number<float>(name, value, 0, 1);
  else if (name == "--seed")
    options.seed = parse_number<std::uint64_t>(name, value, 1, UINT64_MAX);
  else
    throw UsageError("option: found '" + std::string(name) + "', allowed those that --help lists");
}

}  // namespace detail

/// Reads the arguments behind the program's name over what `options` holds. A later option of the same name wins;
/// --help asks for nothing else.
inline Options parse_options(std::span<const char* const> arguments, Options options = {}) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view name = arguments[i];
    if (name == "--help")
      options.help = true;
    else if (name == "--check-bits")
      options.check_bits = true;
    else {
      const bool last = ++i == arguments.size();
      detail::set_option(options, name, last ? "" : arguments[i]);
      if (last) throw UsageError(std::string(name) + ": found no value behind it, allowed one value");
    }
  }
  if (options.help) return options;
  if (options.model.empty()) throw UsageError("--model: found none, allowed the path of a checkpoint");
  if (options.tokenizer.empty()) throw UsageError("--tokenizer: found none, allowed the path of a tokenizer");
  return options;
}

}  // namespace llama2c
