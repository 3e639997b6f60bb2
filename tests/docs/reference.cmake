# Doxygen over the headers and the README without a warning; and with one where a public name has no comment. Run with
# -D DOXYGEN= -D SOURCE_DIR= -D BINARY_DIR= -D SCRATCH_DIR= -P.
cmake_minimum_required(VERSION 3.25)

if(NOT DOXYGEN)
  message("SKIPPED: no doxygen, install it to check that every public name has a doc comment")
  return()
endif()

# The output goes to a folder of its own, beside that of target docs.
file(READ ${BINARY_DIR}/Doxyfile settings)
file(MAKE_DIRECTORY ${SCRATCH_DIR})
file(WRITE ${SCRATCH_DIR}/Doxyfile "${settings}\nOUTPUT_DIRECTORY = \"${SCRATCH_DIR}\"\n")
execute_process(
  COMMAND ${DOXYGEN} ${SCRATCH_DIR}/Doxyfile WORKING_DIRECTORY ${SOURCE_DIR} RESULT_VARIABLE result ERROR_VARIABLE output
)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "doc comments are missing or wrong:\n${output}")
endif()

file(
  WRITE ${SCRATCH_DIR}/undocumented/mask/some.hpp
  "/// A library.\nnamespace lockstep {\n/// A mask.\nstruct Some {\n  bool visible(int q) const noexcept;\n  int untold = 0;\n};\nvoid untold_function();\n}\n"
)
file(
  WRITE ${SCRATCH_DIR}/Undocumented
  "${settings}\nINPUT = \"${SCRATCH_DIR}/undocumented\"\nUSE_MDFILE_AS_MAINPAGE =\nOUTPUT_DIRECTORY = \"${SCRATCH_DIR}/undocumented\"\n"
)
execute_process(
  COMMAND ${DOXYGEN} ${SCRATCH_DIR}/Undocumented WORKING_DIRECTORY ${SOURCE_DIR} RESULT_VARIABLE result ERROR_VARIABLE output
)
foreach(name IN ITEMS "untold \\(variable\\)" "untold_function")
  if(result EQUAL 0 OR NOT output MATCHES "Member ${name}.*not documented")
    message(FATAL_ERROR "Doxygen let a name without a comment pass (${name}):\n${output}")
  endif()
endforeach()
if(output MATCHES "Member visible")
  message(FATAL_ERROR "what a concept asks for was not taken from there:\n${output}")
endif()
