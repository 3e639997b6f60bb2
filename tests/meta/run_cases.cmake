# Runs the reference cases, or says loudly that there are none. Run with -D RUNNER= -P.
cmake_minimum_required(VERSION 3.25)
if("$ENV{LOCKSTEP_CASES}" STREQUAL "")
  message("SKIPPED: no reference cases, set LOCKSTEP_CASES to the folder that holds them")
  return()
endif()
execute_process(COMMAND ${RUNNER} --cases $ENV{LOCKSTEP_CASES} COMMAND_ERROR_IS_FATAL ANY)
