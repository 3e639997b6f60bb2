// The register-tile products of all element types. Included once for each instruction set; see kernel_instances.hpp.
LOCKSTEP_INSTANCE TileProducts<float, float>;
LOCKSTEP_INSTANCE PanelProducts<float, float>;
LOCKSTEP_INSTANCE TileProducts<double, double>;
LOCKSTEP_INSTANCE PanelProducts<double, double>;
LOCKSTEP_INSTANCE TileProducts<float, Eigen::half>;
LOCKSTEP_INSTANCE PanelProducts<float, Eigen::half>;
LOCKSTEP_INSTANCE TileProducts<float, Eigen::bfloat16>;
LOCKSTEP_INSTANCE PanelProducts<float, Eigen::bfloat16>;
LOCKSTEP_INSTANCE TileProducts<float, std::int8_t>;
void none(Set);  // clang wants a function in each region; it is never defined
