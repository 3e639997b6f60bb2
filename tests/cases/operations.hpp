// The table of operations that cases may ask for: each is run through the library's public interface.
#pragma once

#include <string>
#include <string_view>

#include "case.hpp"
#include "report.hpp"

namespace cases {

struct Operation {
  std::string_view name;
  /// Names the feature that the library does not have, empty if the case can be run.
  std::string (*unsupported)(const Case&);
  /// Run the case at one precision. They throw BadCase for a case that contradicts itself.
  void (*run_float)(const Case&, Report&);
  void (*run_double)(const Case&, Report&);
};

extern const Operation attention;        // op_attention.cpp
extern const Operation attention_layer;  // op_attention_layer.cpp
extern const Operation model_llama2c;    // op_model_llama2c.cpp
extern const Operation rope_apply;       // op_rope.cpp
extern const Operation rope_freqs;       // op_rope.cpp
extern const Operation kv_scatter;       // op_kv_scatter.cpp

}  // namespace cases
