#include "compare_impl.hpp"

template sweep::Outcome sweep::compare<double>(const Configuration&, const std::vector<ls::InstructionSet>&);
