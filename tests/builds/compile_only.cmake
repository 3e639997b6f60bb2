# Compiles SOURCES, several of them as one translation unit, and links nothing: no error, no warning. The library's
# headers are no system headers here. Run with -D COMPILER= -D "FLAGS=" -D SOURCES= -D TESTS_DIR= -D INCLUDE_DIR=
# -D SYSTEM_DIRS= -D UNIT= -P; UNIT is the file to write where there are several sources.
cmake_minimum_required(VERSION 3.25)

include(${CMAKE_CURRENT_LIST_DIR}/../meta/compiler.cmake)
find_compiler()
include_options(options)

set(unit ${SOURCES})
list(LENGTH unit count)
if(count GREATER 1)
  list(TRANSFORM SOURCES REPLACE "(.+)" "#include \"\\1\"\n" OUTPUT_VARIABLE lines)
  list(JOIN lines "" text)
  set(unit ${UNIT})
  file(WRITE ${unit} "${text}")
endif()
separate_arguments(flags UNIX_COMMAND "${FLAGS}")
execute_process(
  COMMAND ${compiler} ${options} -I ${TESTS_DIR} -fsyntax-only
          -Werror -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wold-style-cast -Wcast-qual -Wundef
          -Wnon-virtual-dtor -Woverloaded-virtual -Wdouble-promotion -Wnull-dereference ${flags} ${unit}
  COMMAND_ERROR_IS_FATAL ANY
)
