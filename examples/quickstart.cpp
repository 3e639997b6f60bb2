// A small language model writes, and every logit of every step is compared with a full forward without a cache.
#include <algorithm>
#include <exception>
#include <iostream>
#include <span>

#include "llama2c/options.hpp"
#include "llama2c/write_text.hpp"

int main(int argc, char** argv) {
  // What generate takes, with a model of its own (see model/README.md) and the check of bits to begin with.
  const llama2c::Options usual{.model = LOCKSTEP_EXAMPLE_MODEL "/kjv.bin",
                               .tokenizer = LOCKSTEP_EXAMPLE_MODEL "/kjv_tokenizer.bin",
                               .prompt = "And the king said unto",
                               .temperature = 0.7F,
                               .seed = 3,
                               .check_bits = true};
  try {
    const auto options =
        llama2c::parse_options(std::span<const char* const>(argv + std::min(argc, 1), argv + argc), usual);
    if (options.help) {
      std::cout << llama2c::usage;
      return 0;
    }
    return llama2c::write_text(options, std::cout) ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << "quickstart: " << error.what() << " (see --help)\n";
    return 2;
  }
}
