# What is handed out: the library in one header, an archive of what `cmake --install` installs, and a Debian package of it.

set(single_header ${PROJECT_BINARY_DIR}/single_header/lockstep/lockstep.hpp)
add_custom_command(
  OUTPUT ${single_header}
  COMMAND
    ${CMAKE_COMMAND} -D INCLUDE_DIR=${PROJECT_SOURCE_DIR}/include -D LICENSE=${PROJECT_SOURCE_DIR}/LICENSE
    -D VERSION=${PROJECT_VERSION} -D OUTPUT=${single_header} -P ${PROJECT_SOURCE_DIR}/cmake/SingleHeader.cmake
  DEPENDS ${lockstep_headers} ${lockstep_bodies} ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/cmake/SingleHeader.cmake
  VERBATIM
)
add_custom_target(lockstep_single_header DEPENDS ${single_header})

if(LOCKSTEP_INSTALL)
  set(CPACK_GENERATOR TGZ DEB)
  set(CPACK_PACKAGE_FILE_NAME lockstep-${PROJECT_VERSION})
  set(CPACK_PACKAGE_CONTACT "The Lockstep authors")
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
  set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
  set(CPACK_DEBIAN_PACKAGE_NAME liblockstep-dev)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE all)
  set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
  set(CPACK_DEBIAN_PACKAGE_DEPENDS "libeigen3-dev (>= 3.4)")
  include(CPack)
endif()
