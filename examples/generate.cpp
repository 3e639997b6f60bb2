// Writes on from a prompt with a llama2.c checkpoint, every token through the caches of all layers.
#include <algorithm>
#include <exception>
#include <iostream>
#include <span>

#include "llama2c/options.hpp"
#include "llama2c/write_text.hpp"

int main(int argc, char** argv) {
  // 1 says that bits differ; 2 that the work could not be done.
  try {
    const llama2c::Options options =
        llama2c::parse_options(std::span<const char* const>(argv + std::min(argc, 1), argv + argc));
    if (options.help) {
      std::cout << llama2c::usage;
      return 0;
    }
    return llama2c::write_text(options, std::cout) ? 0 : 1;
  } catch (const llama2c::UsageError& error) {
    std::cerr << "generate: " << error.what() << " (see --help)\n";
  } catch (const std::exception& error) {
    std::cerr << "generate: " << error.what() << '\n';
  }
  return 2;
}
