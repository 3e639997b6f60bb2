# Runs the program where it was built and looks at what its project installs: the program and nothing of the library.
# Run in the build folder.
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND ./parent COMMAND_ERROR_IS_FATAL ANY)
set(prefix ${CMAKE_CURRENT_BINARY_DIR}/prefix)
file(REMOVE_RECURSE ${prefix})
execute_process(COMMAND ${CMAKE_COMMAND} --install . --prefix ${prefix} COMMAND_ERROR_IS_FATAL ANY)
file(GLOB_RECURSE files RELATIVE ${prefix} ${prefix}/*)
if(NOT files STREQUAL "bin/parent")
  message(FATAL_ERROR "the project must install bin/parent alone, not '${files}'")
endif()
