# Installs the library: it is whole, and every file that tells its version tells the same one.
# Run with -D BUILD= -D PREFIX= -D SOURCE= -D VERSION= -P.
cmake_minimum_required(VERSION 3.25)

file(REMOVE_RECURSE ${PREFIX})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${PREFIX} OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)

file(GLOB_RECURSE written RELATIVE ${SOURCE}/include ${SOURCE}/include/*)
file(GLOB_RECURSE installed RELATIVE ${PREFIX}/include ${PREFIX}/include/*)
if(NOT written OR NOT installed STREQUAL written)
  message(FATAL_ERROR "headers in the tree:\n${written}\nheaders installed:\n${installed}")
endif()
file(GLOB_RECURSE others RELATIVE ${PREFIX} ${PREFIX}/share/* ${PREFIX}/lib/* ${PREFIX}/bin/*)
set(expected
    share/cmake/lockstep/lockstepConfig.cmake
    share/cmake/lockstep/lockstepConfigVersion.cmake
    share/cmake/lockstep/lockstepEigen.cmake
    share/cmake/lockstep/lockstepTargets.cmake
    share/doc/lockstep/LICENSE
    share/pkgconfig/lockstep.pc
)
if(NOT others STREQUAL expected)
  message(FATAL_ERROR "beside headers, installed:\n${others}\nexpected:\n${expected}")
endif()

function(tells file regex expected)
  file(READ ${file} text)
  if(NOT text MATCHES "${regex}")
    message(FATAL_ERROR "${file}: nothing matches ${regex}")
  elseif(NOT CMAKE_MATCH_1 STREQUAL expected)
    message(FATAL_ERROR "${file}: given version ${CMAKE_MATCH_1}, allowed ${expected}, which version.hpp says")
  endif()
endfunction()
string(REGEX MATCH "^[0-9]+[.][0-9]+" minor ${VERSION})
tells(${PREFIX}/share/pkgconfig/lockstep.pc "\nVersion: ([^\n]*)" ${VERSION})
tells(${PREFIX}/share/cmake/lockstep/lockstepConfigVersion.cmake "PACKAGE_VERSION \"([^\"]*)\"" ${VERSION})
tells(${SOURCE}/cmake/vcpkg/lockstep/vcpkg.json "\"version\": \"([^\"]*)\"" ${VERSION})
tells(${SOURCE}/README.md "find_package[(]lockstep ([0-9.]+) " ${minor})
tells(${SOURCE}/README.md "GIT_TAG v([0-9.]+)" ${VERSION})
# Conan's recipe reads the header; a number of its own would be a second place.
file(READ ${SOURCE}/cmake/conan/conanfile.py recipe)
if(recipe MATCHES "version = \"[0-9]")
  message(FATAL_ERROR "cmake/conan/conanfile.py: has a version of its own")
endif()
