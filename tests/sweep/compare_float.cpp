#include "compare_impl.hpp"

template sweep::Outcome sweep::compare<float>(const Configuration&, const std::vector<ls::InstructionSet>&);
