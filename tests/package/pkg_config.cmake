# A compiler called by hand with what pkg-config says, after the installed tree was moved elsewhere.
# Run with -D PKG_CONFIG= -D COMPILER= -D PREFIX= -D EIGEN_DIR=<folder of Eigen's CMake package> -D OUT= -D VERSION= -P.
cmake_minimum_required(VERSION 3.25)

file(REMOVE_RECURSE ${OUT})
file(COPY ${PREFIX}/ DESTINATION ${OUT}/moved)
set(ENV{PKG_CONFIG_PATH} ${OUT}/moved/share/pkgconfig:${EIGEN_DIR}/../../pkgconfig)

execute_process(
  COMMAND ${PKG_CONFIG} --modversion lockstep
  OUTPUT_VARIABLE version OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY
)
if(NOT version STREQUAL VERSION)
  message(FATAL_ERROR "pkg-config says version ${version}, allowed ${VERSION}")
endif()
execute_process(
  COMMAND ${PKG_CONFIG} --cflags "lockstep >= ${VERSION}" OUTPUT_VARIABLE flags COMMAND_ERROR_IS_FATAL ANY
)
separate_arguments(flags UNIX_COMMAND "${flags}")
execute_process(
  COMMAND ${COMPILER} -std=c++20 ${flags} ${CMAKE_CURRENT_LIST_DIR}/consumer/main.cpp -o ${OUT}/consumer
  COMMAND_ERROR_IS_FATAL ANY
)
execute_process(COMMAND ${OUT}/consumer COMMAND_ERROR_IS_FATAL ANY)
