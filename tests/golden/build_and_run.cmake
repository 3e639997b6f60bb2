# Builds the golden program, or that of SOURCES, by one command line and runs it. Run with -D COMPILER= -D "FLAGS="
# -D TESTS_DIR= -D INCLUDE_DIR= -D SYSTEM_DIRS= -D SCRATCH_DIR= -P.
cmake_minimum_required(VERSION 3.25)

find_program(compiler NAMES ${COMPILER} NO_CACHE)
if(NOT compiler)
  message("SKIPPED: no ${COMPILER} here")
  return()
endif()

set(options -std=c++20 -I ${INCLUDE_DIR} -I ${TESTS_DIR})
foreach(dir IN LISTS SYSTEM_DIRS)
  list(APPEND options -isystem ${dir})
endforeach()
separate_arguments(flags UNIX_COMMAND "${FLAGS}")
set(sources ${SOURCES})
if(NOT sources)
  file(
    GLOB sources ${TESTS_DIR}/golden/*_cases.cpp ${TESTS_DIR}/golden/golden_main.cpp ${TESTS_DIR}/meta/kernel_instances.cpp
  )
endif()
message(STATUS "${compiler}, flags: '${FLAGS}'")
file(REMOVE_RECURSE ${SCRATCH_DIR})
file(MAKE_DIRECTORY ${SCRATCH_DIR})
execute_process(
  COMMAND ${compiler} ${options} ${flags} ${sources} -o ${SCRATCH_DIR}/golden COMMAND_ERROR_IS_FATAL ANY
)
execute_process(COMMAND ${SCRATCH_DIR}/golden RESULT_VARIABLE result)
file(REMOVE_RECURSE ${SCRATCH_DIR})
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${COMPILER} ${FLAGS}: not the golden bits")
endif()
