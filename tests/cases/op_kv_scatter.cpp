// kv_scatter: rows written into a cache at given places.
#include "operations.hpp"

namespace cases {

const Operation kv_scatter{
    "kv_scatter",
    [](const Case&) -> std::string { return "writing cache rows at given places"; },
    nullptr,
    nullptr,
};

}  // namespace cases
