#include <lockstep/version.hpp>

#include <Eigen/Core>

int main() { return lockstep::version_major == LOCKSTEP_VERSION_MAJOR && Eigen::Vector2f::Ones().sum() == 2 ? 0 : 1; }
