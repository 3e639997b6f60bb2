// The configurations whose results have golden bits.
#pragma once

#include <functional>
#include <vector>

#include "bits.hpp"

namespace golden {

/// Whose bits a case is asked for.
enum class Kernel { specification, tiled, materialized };

/// One configuration. Specification and Tiled must give the same bits, Materialized has bits of its own; where a case
/// does not ask for a kernel, what it would add to compile is not worth what it would show.
struct Case {
  const char* name;
  std::vector<Kernel> kernels;
  std::function<std::uint64_t(Kernel)> hash;
};

/// Numeric functions and projections.
std::vector<Case> ground_cases();
/// attend() on filled caches.
std::vector<Case> attend_cases();
/// Whole layers: projections, rotation, cache, attention.
std::vector<Case> layer_cases();

}  // namespace golden
