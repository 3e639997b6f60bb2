#include "compare_impl.hpp"

template sweep::Outcome sweep::compare<std::int8_t>(const Configuration&, const std::vector<ls::InstructionSet>&);
