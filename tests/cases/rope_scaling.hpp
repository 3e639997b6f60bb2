// The rotary table that a case's rope.* attributes ask for.
#pragma once

#include <lockstep/position/scaling.hpp>
#include <optional>
#include <string>

#include "case.hpp"

namespace cases {

/// Empty, or why tables of this case's rope.type cannot be made.
inline std::string unsupported_rope(const Case& test) {
  const std::string& type = test.text("rope.type");
  for (const char* known : {"none", "default", "linear", "dynamic", "yarn", "llama3", "longrope"})
    if (type == known) return {};
  return "rope type " + type;
}

/// `config` with the case's scaling. Its rope.type is not "none".
template <class T>
lockstep::RopeTable<T> rope_table(const Case& test, const lockstep::RopeConfig& config) {
  const std::string& type = test.text("rope.type");
  const auto magnitude = [&]() -> std::optional<double> {
    if (!test.attributes.contains("rope.attention_factor")) return std::nullopt;
    return test.number("rope.attention_factor");
  };
  if (type == "default") return lockstep::RopeTable<T>(config);
  if (type == "linear")
    return lockstep::RopeTable<T>(config, lockstep::LinearScaling{.factor = test.number("rope.factor")});
  if (type == "dynamic")
    return lockstep::RopeTable<T>(config, lockstep::DynamicNtkScaling{.factor = test.number("rope.factor"),
                                                                      .original_length = test.integer("rope.max_pos"),
                                                                      .length = test.integer("rope.seq_len")});
  if (type == "yarn") {
    const bool exact = test.attributes.contains("rope.truncate") && test.integer("rope.truncate") == 0;
    return lockstep::RopeTable<T>(
        config, lockstep::YarnScaling{.factor = test.number("rope.factor"),
                                      .original_length = test.integer("rope.orig_max_pos"),
                                      .beta_fast = test.number("rope.beta_fast"),
                                      .beta_slow = test.number("rope.beta_slow"),
                                      .ramp = exact ? lockstep::YarnRamp::exact : lockstep::YarnRamp::whole_pairs,
                                      .magnitude = magnitude()});
  }
  if (type == "llama3")
    return lockstep::RopeTable<T>(
        config, lockstep::Llama3Scaling{.factor = test.number("rope.factor"),
                                        .original_length = test.integer("rope.orig_max_pos"),
                                        .low_frequency_factor = test.number("rope.low_freq_factor"),
                                        .high_frequency_factor = test.number("rope.high_freq_factor")});
  if (type == "longrope")
    return lockstep::RopeTable<T>(
        config, lockstep::LongRopeScaling{.short_factors = test.attribute<std::vector<double>>("rope.short_factor"),
                                          .long_factors = test.attribute<std::vector<double>>("rope.long_factor"),
                                          .original_length = test.integer("rope.orig_max_pos"),
                                          .extended_length = test.integer("rope.max_pos"),
                                          .length = test.integer("rope.seq_len"),
                                          .magnitude = magnitude()});
  throw BadCase("rope.type: given " + type + ", allowed default, linear, dynamic, yarn, llama3, longrope");
}

}  // namespace cases
