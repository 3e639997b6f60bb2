# Builds the golden program, or that of SOURCES, by one command line and runs it. Run with -D COMPILER= -D "FLAGS="
# -D TESTS_DIR= -D INCLUDE_DIR= -D SYSTEM_DIRS= -D SCRATCH_DIR= -P.
cmake_minimum_required(VERSION 3.25)

include(${CMAKE_CURRENT_LIST_DIR}/../meta/compiler.cmake)
find_compiler()
include_options(options)

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
  COMMAND ${compiler} ${options} -I ${TESTS_DIR} ${flags} ${sources} -o ${SCRATCH_DIR}/golden COMMAND_ERROR_IS_FATAL ANY
)
execute_process(COMMAND ${SCRATCH_DIR}/golden RESULT_VARIABLE result)
file(REMOVE_RECURSE ${SCRATCH_DIR})
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${COMPILER} ${FLAGS}: not the golden bits")
endif()
