# For scripts that compile by one command line.

# Sets `compiler` to the program that COMPILER names; where there is none, says so and leaves the script.
macro(find_compiler)
  find_program(compiler NAMES ${COMPILER} NO_CACHE)
  if(NOT compiler)
    message("SKIPPED: no ${COMPILER} here")
    return()
  endif()
endmacro()

# Sets `result` to the options that show INCLUDE_DIR, and SYSTEM_DIRS as folders of others.
function(include_options result)
  set(options -std=c++20 -I ${INCLUDE_DIR})
  foreach(dir IN LISTS SYSTEM_DIRS)
    list(APPEND options -isystem ${dir})
  endforeach()
  set(${result} ${options} PARENT_SCOPE)
endfunction()
