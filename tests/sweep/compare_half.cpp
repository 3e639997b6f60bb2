#include "compare_impl.hpp"

template sweep::Outcome sweep::compare<Eigen::half>(const Configuration&, const std::vector<ls::InstructionSet>&);
