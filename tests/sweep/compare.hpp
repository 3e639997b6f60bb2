// One configuration through both kernels of the contract.
#pragma once

#include "configuration.hpp"

namespace sweep {

struct Outcome {
  int equal = 0;            ///< runs of Tiled whose every result has Specification's bits
  std::string different{};  ///< what did not, and under which instruction set; empty: all did
};

/// Runs Specification once and Tiled under each of the sets.
template <class S>
Outcome compare(const Configuration& configuration, const std::vector<ls::InstructionSet>& sets);

extern template Outcome compare<float>(const Configuration&, const std::vector<ls::InstructionSet>&);
extern template Outcome compare<double>(const Configuration&, const std::vector<ls::InstructionSet>&);
extern template Outcome compare<Eigen::half>(const Configuration&, const std::vector<ls::InstructionSet>&);
extern template Outcome compare<Eigen::bfloat16>(const Configuration&, const std::vector<ls::InstructionSet>&);
extern template Outcome compare<std::int8_t>(const Configuration&, const std::vector<ls::InstructionSet>&);

}  // namespace sweep
