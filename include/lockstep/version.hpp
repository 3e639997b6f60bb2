// The version of the library, written here and nowhere else: the build reads it from these three lines.
#pragma once

#define LOCKSTEP_VERSION_MAJOR 0
#define LOCKSTEP_VERSION_MINOR 1
#define LOCKSTEP_VERSION_PATCH 0

namespace lockstep {

inline constexpr int version_major = LOCKSTEP_VERSION_MAJOR;  ///< changes what compiles or its meaning
inline constexpr int version_minor = LOCKSTEP_VERSION_MINOR;  ///< adds
inline constexpr int version_patch = LOCKSTEP_VERSION_PATCH;  ///< repairs

}  // namespace lockstep
