# Includes between the library's headers point one way. Run with -D INCLUDE_DIR=<folder that holds lockstep/> -P.
#
# Each row: layer | its files below lockstep/ (a regular expression, first match wins) | layers it may include besides itself.
# `policy` stands for every family of policies; a family never includes another one. `ground` is memory, the layout of keys and
# values in it, and tasks: what policies and kernels both stand on. A file that fits no row is refused, so that a new header is
# placed on purpose.
cmake_minimum_required(VERSION 3.25)

set(rows
    "lockstep   | lockstep[.]hpp                                  | attention attend defaults kernel policy concepts softmax_state ground simd views numeric contract version"
    "attention  | attention[.]hpp                                 | attend defaults concepts ground simd views numeric contract version"
    "attend     | attend([.]hpp|/.*)                              | defaults kernel concepts softmax_state ground simd views numeric contract version"
    "defaults   | defaults[.]hpp                                  | kernel policy plain concepts views numeric contract"
    "kernel     | kernel/.*                                       | concepts softmax_state ground simd views numeric contract"
    "ground     | (tasks|aligned|workspace|cache/layout)[.]hpp    | views numeric contract"
    "mask       | mask/.*                                         | concepts views numeric contract"
    "position   | position/.*                                     | concepts ground simd views numeric contract"
    "heads      | heads/.*                                        | plain concepts ground views numeric contract"
    "logit      | logit/.*                                        | plain concepts simd views numeric contract"
    "bias       | bias/.*                                         | concepts ground simd views numeric contract"
    "sinks      | sinks/.*                                        | concepts views numeric contract"
    "norm       | norm/.*                                         | concepts ground simd views numeric contract"
    "cache      | cache/.*                                        | concepts ground views numeric contract"
    "projection | projection/.*                                   | concepts ground simd views numeric contract"
    "executor   | executor/.*                                     | plain concepts ground views numeric contract"
    "dropout    | dropout/.*                                      | concepts views numeric contract"
    "plain      | plain[.]hpp                                     | concepts views numeric contract"
    "concepts   | concepts[.]hpp                                  | views numeric contract"
    "softmax_state | softmax_state[.]hpp                          | views numeric contract"
    "simd       | simd/.*                                         | softmax_state numeric contract"
    "views      | views[.]hpp                                     | numeric contract"
    "numeric    | numeric/.*                                      | contract"
    "contract   | contract[.]hpp                                  | version"
    "version    | version[.]hpp                                   | "
)
set(policy mask position heads logit bias sinks norm cache projection executor dropout)

set(layers "")
foreach(row IN LISTS rows)
  string(REPLACE "|" ";" cells "${row} ")
  # A regular expression may hold a bar: the first cell and the last one are the ends.
  list(POP_FRONT cells layer)
  list(POP_BACK cells allowed)
  list(JOIN cells "|" files)
  string(STRIP "${layer}" layer)
  string(STRIP "${files}" files)
  separate_arguments(allowed)
  list(TRANSFORM allowed REPLACE "^policy$" "${policy}")
  list(APPEND layers ${layer})
  set(files_${layer} "^${files}$")
  set(allowed_${layer} ${layer} ${allowed})
endforeach()

function(layer_of file result)
  foreach(layer IN LISTS layers)
    if(file MATCHES "${files_${layer}}")
      set(${result} ${layer} PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(${result} "" PARENT_SCOPE)
endfunction()

set(root ${INCLUDE_DIR}/lockstep)
file(GLOB_RECURSE headers RELATIVE ${root} ${root}/*.hpp ${root}/*.inl)
set(problems "")
set(arrows 0)
foreach(header IN LISTS headers)
  layer_of(${header} layer)
  if(layer STREQUAL "")
    list(APPEND problems "${header}: in no layer of the table in include_arrow.cmake")
    continue()
  endif()
  cmake_path(GET header PARENT_PATH folder)
  file(STRINGS ${root}/${header} lines REGEX "^[ \t]*#[ \t]*(include|define LOCKSTEP_EACH_SET)[ \t]*[<\"]")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^[^<\"]*[<\"]([^>\"]*)[>\"].*$" "\\1" target "${line}")
    if(target MATCHES "^lockstep/(.*)$")
      set(target ${CMAKE_MATCH_1})
    elseif(line MATCHES "^[^<]*\"")
      cmake_path(APPEND folder ${target} OUTPUT_VARIABLE target)
      cmake_path(NORMAL_PATH target)
    else()
      # Eigen's Tensor header is heavy: tensors are taken by what they offer.
      if(target MATCHES "CXX11/Tensor$")
        list(APPEND problems "${header}: includes ${target}, for which only those who use tensors shall pay")
      endif()
      continue()
    endif()
    math(EXPR arrows "${arrows} + 1")
    layer_of(${target} target_layer)
    if(NOT EXISTS ${root}/${target})
      list(APPEND problems "${header}: includes ${target}, which does not exist")
    elseif(target_layer STREQUAL "")
      continue()
    elseif(NOT target_layer IN_LIST allowed_${layer})
      list(APPEND problems "${header}: '${layer}' must not include '${target_layer}' (${target})")
    endif()
  endforeach()
endforeach()

list(LENGTH headers count)
if(count EQUAL 0)
  message(FATAL_ERROR "no headers under ${root}")
endif()
if(problems)
  list(JOIN problems "\n  " text)
  message(FATAL_ERROR "includes against the arrow:\n  ${text}")
endif()
message(STATUS "${count} headers, ${arrows} includes, all along the arrow")
