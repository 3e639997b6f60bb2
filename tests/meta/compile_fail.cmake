# Compiles SOURCE as it stands, which must work, and again with LOCKSTEP_BAD defined, which must fail with the expected
# sentence. The good half is there so that a failure for another reason does not pass. The file says in comments:
#   // expect: REGEX     what the compiler must print (CMake's regular expressions)
#   // flags: OPTIONS    options of the bad half; each such line is an attempt of its own
# Run with -D COMPILER= -D SOURCE= -D INCLUDE_DIR= -D SYSTEM_DIRS= -P.
cmake_minimum_required(VERSION 3.25)

file(STRINGS ${SOURCE} expect REGEX "^// expect: ")
list(LENGTH expect count)
if(NOT count EQUAL 1)
  message(FATAL_ERROR "${SOURCE}: must hold one line '// expect: REGEX', holds ${count}")
endif()
string(REGEX REPLACE "^// expect: " "" expect "${expect}")

set(command ${COMPILER} -std=c++20 -fsyntax-only -I ${INCLUDE_DIR})
foreach(dir IN LISTS SYSTEM_DIRS)
  list(APPEND command -isystem ${dir})
endforeach()

execute_process(COMMAND ${command} ${SOURCE} RESULT_VARIABLE result ERROR_VARIABLE output)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${SOURCE}: the good half does not compile:\n${output}")
endif()

file(STRINGS ${SOURCE} attempts REGEX "^// flags: ")
if(NOT attempts)
  set(attempts "// flags: ")
endif()
foreach(attempt IN LISTS attempts)
  string(REGEX REPLACE "^// flags: " "" flags "${attempt}")
  separate_arguments(flags UNIX_COMMAND "${flags}")
  execute_process(
    COMMAND ${command} -DLOCKSTEP_BAD ${flags} ${SOURCE} RESULT_VARIABLE result ERROR_VARIABLE output
  )
  if(result EQUAL 0)
    message(FATAL_ERROR "${SOURCE}: the bad half compiles (flags: '${flags}')")
  endif()
  # Compilers break long sentences of a static_assert nowhere, but quote the source around them.
  if(NOT output MATCHES "error: [^\n]*${expect}")
    message(FATAL_ERROR "${SOURCE}: refused, but no error says '${expect}' (flags: '${flags}'):\n${output}")
  endif()
  message(STATUS "refused as it should be (flags: '${flags}')")
endforeach()
