# The check of documentation's C++ must refuse what does not compile, wherever it stands, and accept the rest. Run with
# -D COMPILER= -D SCRATCH_DIR= -P.
cmake_minimum_required(VERSION 3.25)

file(WRITE ${SCRATCH_DIR}/preamble.hpp "#pragma once\nextern int given;\n")
set(good "text\n```cpp\nint twice = 2 * given;  // [of what is given]\nstatic_assert(sizeof(\"\\n;\") == 3);\n```\n```sh\nno C++\n```\n")
set(whole "```cpp\n#include \"preamble.hpp\"\nint main() { return given; }\n```\n")
set(types "```cpp\n// A comment before it.\nstruct Twice {\n  template <class T>\n  T of(T x) { return x + x; }\n};\n```\n")
set(header "/// A function:\n///\n/// ```cpp\n/// given = 3;\n/// ```\nint f();\n")

function(run name content expected)
  file(WRITE ${SCRATCH_DIR}/${name} "${content}")
  execute_process(
    COMMAND ${CMAKE_COMMAND} -D COMPILER=${COMPILER} -D FILES=${SCRATCH_DIR}/${name} -D PREAMBLE=${SCRATCH_DIR}/preamble.hpp
            -D SCRATCH_DIR=${SCRATCH_DIR} -D FLAGS=-std=c++20 -P ${CMAKE_CURRENT_LIST_DIR}/snippets.cmake
    OUTPUT_VARIABLE said ERROR_VARIABLE output RESULT_VARIABLE result
  )
  if(expected STREQUAL "" AND NOT result EQUAL 0)
    message(FATAL_ERROR "${name} is refused:\n${output}")
  elseif(NOT expected STREQUAL "" AND (result EQUAL 0 OR NOT output MATCHES "${expected}"))
    message(FATAL_ERROR "${name}: nothing says '${expected}':\n${said}${output}")
  endif()
endfunction()

run(good.md "${good}${whole}${types}" "")
run(header.hpp "${header}" "")
run(unknown_name.md "${good}\n```cpp\nint three = 3 * not_given;\n```\n" "unknown_name.md:11:.*not_given")
run(wrong_file.md "${whole}```cpp\n#include \"preamble.hpp\"\nint main() { return given.size(); }\n```\n" "wrong_file.md:7:.*size")
run(wrong_type.md "```cpp\nstruct Half {\n  Unknown x;\n};\n```\n" "wrong_type.md:3:.*Unknown")
run(wrong_header.hpp "/// ```cpp\n/// given = nothing;\n/// ```\n" "wrong_header.hpp:2:.*nothing")
run(without_end.md "```cpp\nint a = 1;\n" "has no end")
run(without_blocks.md "no C++\n" "no block of C")
