// The register-tile products of all element types, instantiated once for all test programs: they are half of what a
// layer costs to compile.
#pragma once

#include "lockstep/kernel/tiled.hpp"
#include "lockstep/projection/packed.hpp"

namespace lockstep {

extern template struct portable::TileProducts<float, float>;
extern template struct portable::PanelProducts<float, float>;
extern template struct portable::TileProducts<double, double>;
extern template struct portable::PanelProducts<double, double>;
extern template struct portable::TileProducts<float, Eigen::half>;
extern template struct portable::PanelProducts<float, Eigen::half>;
extern template struct portable::TileProducts<float, Eigen::bfloat16>;
extern template struct portable::TileProducts<float, std::int8_t>;
extern template struct portable::PanelProducts<float, Eigen::bfloat16>;
#if defined(__x86_64__)
extern template struct avx2::TileProducts<float, float>;
extern template struct avx2::PanelProducts<float, float>;
extern template struct avx2::TileProducts<double, double>;
extern template struct avx2::PanelProducts<double, double>;
extern template struct avx2::TileProducts<float, Eigen::half>;
extern template struct avx2::PanelProducts<float, Eigen::half>;
extern template struct avx2::TileProducts<float, Eigen::bfloat16>;
extern template struct avx2::TileProducts<float, std::int8_t>;
extern template struct avx2::PanelProducts<float, Eigen::bfloat16>;
extern template struct avx512::TileProducts<float, float>;
extern template struct avx512::PanelProducts<float, float>;
extern template struct avx512::TileProducts<double, double>;
extern template struct avx512::PanelProducts<double, double>;
extern template struct avx512::TileProducts<float, Eigen::half>;
extern template struct avx512::PanelProducts<float, Eigen::half>;
extern template struct avx512::TileProducts<float, Eigen::bfloat16>;
extern template struct avx512::TileProducts<float, std::int8_t>;
extern template struct avx512::PanelProducts<float, Eigen::bfloat16>;
#elif defined(__aarch64__)
extern template struct neon::TileProducts<float, float>;
extern template struct neon::PanelProducts<float, float>;
extern template struct neon::TileProducts<double, double>;
extern template struct neon::PanelProducts<double, double>;
extern template struct neon::TileProducts<float, Eigen::half>;
extern template struct neon::PanelProducts<float, Eigen::half>;
extern template struct neon::TileProducts<float, Eigen::bfloat16>;
extern template struct neon::TileProducts<float, std::int8_t>;
extern template struct neon::PanelProducts<float, Eigen::bfloat16>;
#endif

}  // namespace lockstep
