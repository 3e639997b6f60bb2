# An overlay port of the tree that it lies in: vcpkg install lockstep --overlay-ports=<this tree>/cmake/vcpkg
# A registry's port is this one with vcpkg_from_github() in place of the next line.
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

# There is nothing to build, so one configuration is enough.
set(VCPKG_BUILD_TYPE release)

vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS -DLOCKSTEP_TESTS=OFF -DLOCKSTEP_BENCHES=OFF -DLOCKSTEP_EXAMPLES=OFF -DLOCKSTEP_INSTALL=ON
)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME lockstep CONFIG_PATH share/cmake/lockstep)
vcpkg_fixup_pkgconfig()

file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/share/doc")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
