// A configuration of the sweep: everything about a call, from one number.
#pragma once

#include <optional>

#include "irregular.hpp"

namespace sweep {

enum class Storage { of_float, of_double, of_half, of_bfloat16, of_int8 };
enum class MaskKind { causal, irregular, none, offset, padding, either, window };
enum class Numbers { plain, large, wild };
enum class Garbage { nan, infinity };
enum class Threads { caller, reversed, real };

struct Configuration {
  std::uint64_t number = 0;
  bool layer = false;
  Storage storage = Storage::of_float;
  Index heads = 1, kv_heads = 1, head_dim = 1, v_head_dim = 1;
  Index q_len = 1;               // tokens of each sequence, for a layer
  std::vector<Index> kv_len{1};  // one a sequence
  std::optional<Index> offset{};
  MaskKind mask = MaskKind::causal;  // window: with capped logits, slopes and learned sinks
  Irregular irregular{};
  double dropout = 0;
  Numbers numbers = Numbers::plain;
  Garbage garbage = Garbage::nan;
  Threads threads = Threads::caller;
  Index concurrency = 1;
  Index q_gap = 0, context_gap = 0;    // elements between rows
  Index q_step = 1, context_step = 1;  // elements between the numbers of a row
  bool weights = false, lse = true;
  Index hidden = 1, rotary_dim = 2;  // of a layer
  std::vector<Index> plan{};         // chunks of its tokens
  bool biased = false;

  explicit Configuration(std::uint64_t n);

  Index batch() const { return static_cast<Index>(kv_len.size()); }
  Index longest() const;
  /// Millions of floating-point operations.
  double cost() const;
  std::string describe() const;

 private:
  void draw_heads(Integers& random);
  void draw_mask(Integers& random);
  void draw_call(Integers& random);
  void draw_layer(Integers& random);
};

}  // namespace sweep
