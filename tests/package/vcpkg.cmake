# The vcpkg port, run with stand-ins that do what vcpkg's own functions document: configure and install from the path that
# the port gives, move the CMake package where vcpkg wants it, refuse a port that leaves a second place of documents.
# Run with -D SOURCE= -D OUT= -D COMPILER= -D EIGEN_DIR= -D GENERATOR= -P.
cmake_minimum_required(VERSION 3.25)

file(REMOVE_RECURSE ${OUT})
set(CURRENT_PACKAGES_DIR ${OUT}/packages)

function(vcpkg_cmake_configure)
  cmake_parse_arguments(PARSE_ARGV 0 argument "" SOURCE_PATH OPTIONS)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -S ${argument_SOURCE_PATH} -B ${OUT}/build -G ${GENERATOR}
            -DCMAKE_CXX_COMPILER=${COMPILER} -DEigen3_DIR=${EIGEN_DIR} -DCMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR} ${argument_OPTIONS}
    OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY
  )
endfunction()
function(vcpkg_cmake_install)
  execute_process(COMMAND ${CMAKE_COMMAND} --install ${OUT}/build OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endfunction()
function(vcpkg_cmake_config_fixup)
  cmake_parse_arguments(PARSE_ARGV 0 argument "" "PACKAGE_NAME;CONFIG_PATH" "")
  set(to ${CURRENT_PACKAGES_DIR}/share/${argument_PACKAGE_NAME})
  file(RENAME ${CURRENT_PACKAGES_DIR}/${argument_CONFIG_PATH} ${to})
  file(REMOVE_RECURSE ${CURRENT_PACKAGES_DIR}/share/cmake)
endfunction()
function(vcpkg_fixup_pkgconfig)
  file(GLOB files ${CURRENT_PACKAGES_DIR}/share/pkgconfig/*.pc)
  if(NOT files)
    message(FATAL_ERROR "the port asks for pkg-config files to be mended and installs none")
  endif()
endfunction()
function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 argument "" "" FILE_LIST)
  configure_file(${argument_FILE_LIST} ${CURRENT_PACKAGES_DIR}/share/lockstep/copyright COPYONLY)
endfunction()

include(${SOURCE}/cmake/vcpkg/lockstep/portfile.cmake)

file(GLOB_RECURSE others RELATIVE ${CURRENT_PACKAGES_DIR} ${CURRENT_PACKAGES_DIR}/share/*)
set(expected
    share/lockstep/copyright
    share/lockstep/lockstepConfig.cmake
    share/lockstep/lockstepConfigVersion.cmake
    share/lockstep/lockstepEigen.cmake
    share/lockstep/lockstepTargets.cmake
    share/pkgconfig/lockstep.pc
)
if(NOT others STREQUAL expected OR NOT EXISTS ${CURRENT_PACKAGES_DIR}/include/lockstep/lockstep.hpp)
  message(FATAL_ERROR "beside headers, the port installs:\n${others}\nexpected:\n${expected}")
endif()
file(READ ${SOURCE}/cmake/vcpkg/lockstep/vcpkg.json manifest)
string(JSON name GET "${manifest}" name)
string(JSON eigen GET "${manifest}" dependencies 0)
if(NOT name STREQUAL "lockstep" OR NOT eigen STREQUAL "eigen3")
  message(FATAL_ERROR "vcpkg.json: name '${name}', first dependency '${eigen}'")
endif()
