// A model that can be made up in a test.
#pragma once

#include <cstdint>

#include "llama2c/sampler.hpp"
#include "temporary_file.hpp"

namespace examples_test {

/// The checkpoint of a model of seeded weights: dim 24, hidden 20, 2 layers, 6 heads, 2 kv heads,
/// vocab 11, positions 40.
inline Bytes small_checkpoint(bool own_classifier) {
  Bytes bytes;
  for (const std::int32_t number : {24, 20, 2, 6, 2, own_classifier ? -11 : 11, 40}) bytes.add(number);
  const int floats = 11 * 24 + 2 * 24 + 2 * (2 * 24 * 24 + 2 * 8 * 24) + 2 * 24 + 2 * 3 * 20 * 24 + 24 + 40 * 4 +
                     (own_classifier ? 11 * 24 : 0);
  llama2c::Xorshift random(5);
  for (int i = 0; i < floats; ++i) bytes.add(random.next_unit() - 0.5F);
  return bytes;
}

}  // namespace examples_test
