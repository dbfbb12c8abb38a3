# The library's kernels: every src/cuda/kernels/*/*.cu becomes an image for the GPUs.
include(${CMAKE_CURRENT_LIST_DIR}/nvcc.cmake)

set(NVRAR_KERNELS_BUILT "" CACHE PATH "The folder kernels of another build of these sources, whose images are taken; empty: they are compiled")

if(NVRAR_KERNELS_BUILT AND NOT NVRAR_SANITIZE)
  message(FATAL_ERROR "nvrar: NVRAR_KERNELS_BUILT is for the sanitizer builds, whose kernels nobody runs")
endif()

file(GLOB_RECURSE nvrar_kernel_sources CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src/cuda/kernels/*.cu)
list(SORT nvrar_kernel_sources COMPARE FILE_BASENAME)
file(GLOB_RECURSE nvrar_kernel_headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src/cuda/kernels/*.cuh)

set(nvrar_kernel_includes -I ${PROJECT_SOURCE_DIR}/src -I ${PROJECT_SOURCE_DIR}/src/cuda -I ${PROJECT_SOURCE_DIR}/include)

# nvrar_add_kernels(TARGET DIRECTORY ARCHITECTURES OPTIONS...): creates the object library TARGET from
# src/cuda/launch/fatbin.cpp, which contains the images, or none if there is no nvcc or
# ARCHITECTURES is empty.
function(nvrar_add_kernels target directory architectures)
  file(MAKE_DIRECTORY ${directory})
  set(list "")
  set(images "")
  if(nvrar_nvcc AND architectures)
    foreach(source IN LISTS nvrar_kernel_sources)
      cmake_path(GET source STEM name)
      if(NVRAR_KERNELS_BUILT)
        set(image ${NVRAR_KERNELS_BUILT}/${name}.fatbin)
      else()
        set(image ${directory}/${name}.fatbin)
        nvrar_fatbin(${PROJECT_SOURCE_DIR}/${source} ${image} "${architectures}" ${ARGN})
      endif()
      list(APPEND images ${image})
      string(APPEND list "NVRAR_FATBIN(${name}, \"${image}\")\n")
    endforeach()
  endif()
  file(CONFIGURE OUTPUT ${directory}/fatbins.inc CONTENT "${list}")
  list(LENGTH images count)
  add_library(${target} OBJECT ${PROJECT_SOURCE_DIR}/src/cuda/launch/fatbin.cpp)
  nvrar_common(${target})
  target_include_directories(${target} PRIVATE ${directory})
  target_compile_definitions(${target} PRIVATE NVRAR_FATBINS=${count})
  # A property of the source for all targets of a directory: one without kernels must not take it from the others.
  if(images)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/src/cuda/launch/fatbin.cpp PROPERTIES OBJECT_DEPENDS "${images}")
  endif()
endfunction()
