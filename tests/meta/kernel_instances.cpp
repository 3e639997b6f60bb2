// The instances that kernel_instances.hpp declares.
#include "kernel_instances.hpp"

namespace lockstep {

template struct portable::TileProducts<float, float>;
template struct portable::PanelProducts<float, float>;
template struct portable::TileProducts<double, double>;
template struct portable::PanelProducts<double, double>;
template struct portable::TileProducts<float, Eigen::half>;
template struct portable::PanelProducts<float, Eigen::half>;
template struct portable::TileProducts<float, Eigen::bfloat16>;
template struct portable::TileProducts<float, std::int8_t>;
template struct portable::PanelProducts<float, Eigen::bfloat16>;
#if defined(__x86_64__)
template struct avx2::TileProducts<float, float>;
template struct avx2::PanelProducts<float, float>;
template struct avx2::TileProducts<double, double>;
template struct avx2::PanelProducts<double, double>;
template struct avx2::TileProducts<float, Eigen::half>;
template struct avx2::PanelProducts<float, Eigen::half>;
template struct avx2::TileProducts<float, Eigen::bfloat16>;
template struct avx2::TileProducts<float, std::int8_t>;
template struct avx2::PanelProducts<float, Eigen::bfloat16>;
template struct avx512::TileProducts<float, float>;
template struct avx512::PanelProducts<float, float>;
template struct avx512::TileProducts<double, double>;
template struct avx512::PanelProducts<double, double>;
template struct avx512::TileProducts<float, Eigen::half>;
template struct avx512::PanelProducts<float, Eigen::half>;
template struct avx512::TileProducts<float, Eigen::bfloat16>;
template struct avx512::TileProducts<float, std::int8_t>;
template struct avx512::PanelProducts<float, Eigen::bfloat16>;
#elif defined(__aarch64__)
template struct neon::TileProducts<float, float>;
template struct neon::PanelProducts<float, float>;
template struct neon::TileProducts<double, double>;
template struct neon::PanelProducts<double, double>;
template struct neon::TileProducts<float, Eigen::half>;
template struct neon::PanelProducts<float, Eigen::half>;
template struct neon::TileProducts<float, Eigen::bfloat16>;
template struct neon::TileProducts<float, std::int8_t>;
template struct neon::PanelProducts<float, Eigen::bfloat16>;
#endif

}  // namespace lockstep
