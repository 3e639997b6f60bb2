# Compiles SOURCE as it stands, which must work, and again with LOCKSTEP_BAD defined, which must fail with the expected
# sentence, before any other. The good half is there so that a failure for another reason does not pass. The file says in comments:
#   // expect: REGEX     what an error must say (CMake's regular expressions); where there are several such lines, each is an
#                        attempt of its own, and LOCKSTEP_BAD is its number, from 1
#   // flags: OPTIONS    options of the bad half; several such lines, beside one expectation, are attempts of their own
# Run with -D COMPILER= -D SOURCE= -D INCLUDE_DIR= -D SYSTEM_DIRS= -P.
cmake_minimum_required(VERSION 3.25)

include(${CMAKE_CURRENT_LIST_DIR}/compiler.cmake)
find_compiler()
include_options(options)
file(STRINGS ${SOURCE} expectations REGEX "^// expect: ")
file(STRINGS ${SOURCE} flag_lines REGEX "^// flags: ")
list(LENGTH expectations expected)
list(LENGTH flag_lines flagged)
if(expected EQUAL 0 OR (expected GREATER 1 AND flagged GREATER 0))
  message(FATAL_ERROR "${SOURCE}: must hold one line '// expect: REGEX', or several and no line '// flags: OPTIONS'")
endif()

set(command ${compiler} ${options} -fsyntax-only)

execute_process(COMMAND ${command} ${SOURCE} RESULT_VARIABLE result ERROR_VARIABLE output)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${SOURCE}: the good half does not compile:\n${output}")
endif()

function(refused number expectation flags)
  string(REGEX REPLACE "^// expect: " "" expectation "${expectation}")
  string(REGEX REPLACE "^// flags: " "" flags "${flags}")
  separate_arguments(options UNIX_COMMAND "${flags}")
  execute_process(
    COMMAND ${command} -DLOCKSTEP_BAD=${number} ${options} ${SOURCE} RESULT_VARIABLE result ERROR_VARIABLE output
  )
  if(result EQUAL 0)
    message(FATAL_ERROR "${SOURCE}: bad half ${number} compiles (flags: '${flags}')")
  endif()
  # What is read is the first error.
  string(REGEX MATCH "error: [^\n]*" first "${output}")
  if(NOT first MATCHES "${expectation}")
    message(
      FATAL_ERROR "${SOURCE}: bad half ${number} (flags: '${flags}'): the first error does not say '${expectation}':\n${output}"
    )
  endif()
  message(STATUS "refused: ${expectation} ${flags}")
endfunction()

if(flagged GREATER 0)
  foreach(flags IN LISTS flag_lines)
    refused(1 "${expectations}" "${flags}")
  endforeach()
else()
  set(number 0)
  foreach(expectation IN LISTS expectations)
    math(EXPR number "${number} + 1")
    refused(${number} "${expectation}" "")
  endforeach()
endif()
