# Builds the project beside this file anew, so that no cache hides a change, runs its program and looks at what it installs:
# the program and nothing of the library. Run with -D SOURCE= -D OUT= -D COMPILER= -D EIGEN_DIR= -D GENERATOR= -P.
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE ${OUT})
execute_process(
  COMMAND ${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${OUT} -G ${GENERATOR} -DCMAKE_CXX_COMPILER=${COMPILER}
          -DEigen3_DIR=${EIGEN_DIR} -DLOCKSTEP_SOURCE=${SOURCE}
  COMMAND_ERROR_IS_FATAL ANY
)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${OUT} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${OUT}/parent COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --install ${OUT} --prefix ${OUT}/prefix COMMAND_ERROR_IS_FATAL ANY)
file(GLOB_RECURSE files RELATIVE ${OUT}/prefix ${OUT}/prefix/*)
if(NOT files STREQUAL "bin/parent")
  message(FATAL_ERROR "the project must install bin/parent alone, not '${files}'")
endif()
