include(${CMAKE_CURRENT_LIST_DIR}/lockstepEigen.cmake)
if(NOT lockstep_eigen_problem)
  include(${CMAKE_CURRENT_LIST_DIR}/lockstepTargets.cmake)
endif()
