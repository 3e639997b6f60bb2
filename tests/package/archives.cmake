# The packages that CPack makes: both hold exactly what `cmake --install` installs, and the Debian one says what it needs.
# Run with -D CPACK= -D CONFIG= -D OUT= -D PREFIX= -D VERSION= -D DPKG_DEB=<path, or empty> -P.
cmake_minimum_required(VERSION 3.25)

file(REMOVE_RECURSE ${OUT})
execute_process(COMMAND ${CPACK} --config ${CONFIG} -B ${OUT} COMMAND_ERROR_IS_FATAL ANY)

function(same_as_installed folder)
  file(GLOB_RECURSE installed RELATIVE ${PREFIX} ${PREFIX}/*)
  file(GLOB_RECURSE packed RELATIVE ${folder} ${folder}/*)
  if(NOT installed OR NOT packed STREQUAL installed)
    message(FATAL_ERROR "installed:\n${installed}\nin ${folder}:\n${packed}")
  endif()
endfunction()

file(ARCHIVE_EXTRACT INPUT ${OUT}/lockstep-${VERSION}.tar.gz DESTINATION ${OUT})
same_as_installed(${OUT}/lockstep-${VERSION})

set(package ${OUT}/liblockstep-dev_${VERSION}_all.deb)
if(NOT EXISTS ${package})
  message(FATAL_ERROR "${package} was not made")
endif()
if(NOT DPKG_DEB)
  return()
endif()
execute_process(COMMAND ${DPKG_DEB} -x ${package} ${OUT}/deb COMMAND_ERROR_IS_FATAL ANY)
same_as_installed(${OUT}/deb/usr)
foreach(expected IN ITEMS "Package: liblockstep-dev" "Version: ${VERSION}" "Architecture: all" "Section: libdevel"
                          "Depends: libeigen3-dev [(]>= 3.4[)]"
)
  execute_process(COMMAND ${DPKG_DEB} -f ${package} OUTPUT_VARIABLE fields COMMAND_ERROR_IS_FATAL ANY)
  if(NOT fields MATCHES "(^|\n)${expected}\n")
    message(FATAL_ERROR "${package}: no '${expected}' in\n${fields}")
  endif()
endforeach()
