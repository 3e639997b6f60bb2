# Eigen 3.4 or newer. No version is asked of find_package, because each of Eigen's two version files understands another
# dialect: asking for 3.4 silently passes over an Eigen 5 that Eigen3_DIR names, and a range passes over 3.4.0. Included by
# the build and by the installed package.
find_package(Eigen3 CONFIG QUIET)
if(NOT Eigen3_FOUND)
  set(lockstep_eigen_problem "Eigen 3.4 or newer is needed and was not found (Debian: libeigen3-dev)")
elseif(Eigen3_VERSION VERSION_LESS 3.4)
  set(lockstep_eigen_problem "Eigen 3.4 or newer is needed, ${Eigen3_DIR} holds ${Eigen3_VERSION}")
else()
  unset(lockstep_eigen_problem)
  if(NOT CMAKE_FIND_QUIETLY AND NOT lockstep_FIND_QUIETLY)
    message(STATUS "lockstep: Eigen ${Eigen3_VERSION} from ${Eigen3_DIR}")
  endif()
endif()

if(lockstep_eigen_problem)
  if(DEFINED CMAKE_FIND_PACKAGE_NAME)
    set(lockstep_FOUND FALSE)
    set(lockstep_NOT_FOUND_MESSAGE "${lockstep_eigen_problem}")
  else()
    message(FATAL_ERROR "lockstep: ${lockstep_eigen_problem}")
  endif()
endif()
