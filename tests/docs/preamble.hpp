// What blocks of C++ in the documentation may name without saying what it is.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <span>
#include <vector>

#include "kernel_instances.hpp"
#include "lockstep/executor/thread_pool.hpp"
#include "lockstep/lockstep.hpp"

namespace ls = lockstep;
using ls::Index;
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Layer = ls::Attention<float, 14, 2, ls::Rope<ls::HalfSplit>, ls::Causal>;

extern std::vector<Layer> layer;
extern ls::LayerWeights<float> weights;
extern ls::ModelCache<ls::ContiguousCache<float>> caches;
extern Matrix x, y;
extern Index layers, tokens;
