// model_llama2c: a whole model from its checkpoint.
#include "operations.hpp"

namespace cases {

const Operation model_llama2c{
    "model_llama2c",
    [](const Case&) -> std::string { return "whole models"; },
    nullptr,
    nullptr,
};

}  // namespace cases
