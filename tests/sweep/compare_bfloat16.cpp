#include "compare_impl.hpp"

template sweep::Outcome sweep::compare<Eigen::bfloat16>(const Configuration&, const std::vector<ls::InstructionSet>&);
