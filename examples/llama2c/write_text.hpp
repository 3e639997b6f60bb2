// Writes on from a prompt, every token through the caches of all layers.
#pragma once

#include <ostream>

#include "llama2c/options.hpp"

namespace llama2c {

/// Writes the prompt and each token as soon as it is drawn, then the speeds and what the check of bits found, if
/// options ask for it. Whether no bit differed. Errors: std::runtime_error for files, texts and options that do not
/// fit.
bool write_text(const Options& options, std::ostream& out);

}  // namespace llama2c
