# Writes lockstep.hpp with every header of the library in it, for places where one file is easier than a folder: online
# compilers, projects without a build system. Each header is put where it is first included; a body (.inl), which headers
# include several times on purpose, each time, also where it is named by LOCKSTEP_EACH_SET. What comes from outside is
# included where it was.
# Run with -D INCLUDE_DIR=<folder that holds lockstep/> -D LICENSE= -D VERSION= -D OUTPUT= -P.
cmake_minimum_required(VERSION 3.25)

set_property(GLOBAL PROPERTY seen "")

# Text is never held in a list: C++ is full of semicolons and brackets.
function(expand file)
  file(READ ${INCLUDE_DIR}/${file} rest)
  string(REPLACE "\n#pragma once\n" "\n" rest "\n${rest}")
  set(pattern "\n[ \t]*#[ \t]*(include|define LOCKSTEP_EACH_SET)[ \t]+([<\"](lockstep/[^>\"]*)[>\"]|LOCKSTEP_EACH_SET)[^\n]*")
  while(rest MATCHES "${pattern}")
    set(line "${CMAKE_MATCH_0}")
    set(verb "${CMAKE_MATCH_1}")
    set(included "${CMAKE_MATCH_3}")
    string(FIND "${rest}" "${line}" start)
    string(LENGTH "${line}" length)
    string(SUBSTRING "${rest}" 0 ${start} before)
    math(EXPR end "${start} + ${length}")
    string(SUBSTRING "${rest}" ${end} -1 rest)
    string(REGEX REPLACE "\n\n\n+" "\n\n" before "${before}")
    file(APPEND ${OUTPUT}.part "${before}\n")
    if(NOT verb STREQUAL "include")
      set_property(GLOBAL PROPERTY each_set ${included})
      continue()
    elseif(included STREQUAL "")
      get_property(included GLOBAL PROPERTY each_set)
    endif()
    get_property(seen GLOBAL PROPERTY seen)
    if(NOT included IN_LIST seen)
      if(NOT EXISTS ${INCLUDE_DIR}/${included})
        message(FATAL_ERROR "${file}: includes ${included}, which does not exist")
      endif()
      if(included MATCHES "[.]hpp$")
        set_property(GLOBAL APPEND PROPERTY seen ${included})
      endif()
      expand(${included})
    endif()
  endwhile()
  file(APPEND ${OUTPUT}.part "${rest}")
endfunction()

file(READ ${LICENSE} license)
string(STRIP "${license}" license)
string(REPLACE "\n" "\n// " license "// ${license}")
string(REPLACE "// \n" "//\n" license "${license}")
file(
  WRITE ${OUTPUT}.part
  "// Lockstep ${VERSION} in one header, generated from the library's own. Needs C++20 and Eigen 3.4 or newer.\n//\n"
  "${license}\n#pragma once\n\n"
)
expand(lockstep/lockstep.hpp)
file(RENAME ${OUTPUT}.part ${OUTPUT})
