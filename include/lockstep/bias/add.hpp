// What biases add to a row's logits, on the instruction set in use.
#pragma once

#include "lockstep/concepts.hpp"
#include "lockstep/numeric/rounded.hpp"
#include "lockstep/simd/sets.hpp"

namespace lockstep {

#define LOCKSTEP_EACH_SET "lockstep/bias/add.inl"
#include "lockstep/simd/each_set.inl"

}  // namespace lockstep
