# Install rules: headers, a package that find_package(lockstep) finds on any architecture, and one for pkg-config.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_DATADIR}/cmake/lockstep)

install(
  TARGETS lockstep
  EXPORT lockstepTargets
  FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILE_SET bodies DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
)
install(EXPORT lockstepTargets NAMESPACE lockstep:: DESTINATION ${package_dir})

# Before 1.0 a new minor version may change the interface.
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/lockstepConfigVersion.cmake COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT
)
install(
  FILES
    ${PROJECT_SOURCE_DIR}/cmake/lockstepConfig.cmake
    ${PROJECT_SOURCE_DIR}/cmake/lockstepEigen.cmake
    ${PROJECT_BINARY_DIR}/lockstepConfigVersion.cmake
  DESTINATION ${package_dir}
)

# The prefix is told from the file's own place, so that an installed tree may be moved.
file(RELATIVE_PATH to_prefix /${CMAKE_INSTALL_DATADIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" to_prefix "${to_prefix}")
configure_file(${PROJECT_SOURCE_DIR}/cmake/lockstep.pc.in ${PROJECT_BINARY_DIR}/lockstep.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/lockstep.pc DESTINATION ${CMAKE_INSTALL_DATADIR}/pkgconfig)

install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/lockstep)
