# The kernels: every src/cuda/kernels/*/*.cu is compiled into an image for the GPUs (a fatbin). Each architecture is
# compiled separately, so that all of them compile in parallel. This is not CMake's own CUDA language, which needs a
# host compiler that nvcc supports, and the CUDA runtime; the library uses neither.
set(NVRAR_KERNELS AUTO CACHE STRING "Kernels in the library: AUTO (where there is an nvcc), ON (an error where there is none), OFF")
set_property(CACHE NVRAR_KERNELS PROPERTY STRINGS AUTO ON OFF)
set(NVRAR_NVCC "" CACHE FILEPATH "The nvcc that compiles the kernels; empty: what cmake/find-nvcc finds")
set(NVRAR_CUDA_ARCHITECTURES 80-real 90 100-real CACHE STRING "What for: N is SASS and PTX, N-real SASS, N-virtual PTX")

set(NVRAR_KERNELS_BUILT "" CACHE PATH "The folder kernels of another build of these sources, whose images are taken; empty: they are compiled")

if(NVRAR_KERNELS_BUILT AND NOT NVRAR_SANITIZE)
  message(FATAL_ERROR "nvrar: NVRAR_KERNELS_BUILT is for the sanitizer builds, whose kernels nobody runs")
endif()

# Not cached, so that an nvcc that was installed meanwhile is found the next time.
set(nvrar_nvcc "")
if(NVRAR_KERNELS)
  execute_process(COMMAND ${CMAKE_CURRENT_LIST_DIR}/find-nvcc "${NVRAR_NVCC}"
    OUTPUT_VARIABLE nvrar_nvcc ERROR_VARIABLE why OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_STRIP_TRAILING_WHITESPACE)
  if(nvrar_nvcc)
    message(STATUS "nvrar: kernels by ${nvrar_nvcc}")
    cmake_path(GET nvrar_nvcc PARENT_PATH nvrar_cuda_bin)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/find-nvcc)
  elseif(NVRAR_NVCC OR NOT NVRAR_KERNELS STREQUAL AUTO)
    message(FATAL_ERROR "nvrar: ${why}")
  else()
    message(STATUS "nvrar: the library is built without kernels (${why})")
  endif()
endif()

file(GLOB_RECURSE nvrar_kernel_sources CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src/cuda/kernels/*.cu)
list(SORT nvrar_kernel_sources COMPARE FILE_BASENAME)
file(GLOB_RECURSE nvrar_kernel_headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src/cuda/kernels/*.cuh)

# nvrar_compile_kernels(SOURCE KIND ARCHITECTURE OUTPUT OPTIONS...): KIND is cubin or ptx. ptxas's report of registers
# and spills, and the time, go to OUTPUT.log. A SOURCE may be PTX, which needs no options.
function(nvrar_compile_kernels source kind architecture output)
  if(kind STREQUAL "cubin")
    set(target -cubin -arch=sm_${architecture} -Xptxas -v)
  else()
    set(target -ptx -arch=compute_${architecture})
  endif()
  set(arguments "")
  set(headers "")
  if(NOT source MATCHES "[.]ptx$")
    set(arguments -std=c++17 -O3 -DNVRAR_CUDA_KERNELS ${ARGN}
      -I ${PROJECT_SOURCE_DIR}/src -I ${PROJECT_SOURCE_DIR}/src/cuda -I ${PROJECT_SOURCE_DIR}/include
      -MD -MF ${output}.d -MT ${output})
    set(headers DEPFILE ${output}.d)
  endif()
  add_custom_command(OUTPUT ${output}
    COMMAND ${PROJECT_SOURCE_DIR}/cmake/compile-kernels ${output}.log
      ${nvrar_nvcc} -Werror all-warnings ${target} ${arguments} -o ${output} ${source}
    DEPENDS ${source} ${nvrar_nvcc} ${PROJECT_SOURCE_DIR}/cmake/compile-kernels
    ${headers}
    COMMENT "nvcc ${kind} ${architecture} ${source}"
    VERBATIM)
endfunction()

# nvrar_fatbin(SOURCE OUTPUT ARCHITECTURES OPTIONS...): SASS for an architecture is made of the PTX for it or for an
# earlier one in the list, if the image has any, because making PTX of the source takes nearly all of the time.
function(nvrar_fatbin source output architectures)
  set(images "")
  set(parts "")
  set(cubin_source ${source})
  foreach(entry IN LISTS architectures)
    string(REGEX MATCH "^([0-9]+a?f?)(-real|-virtual)?$" matched "${entry}")
    if(NOT matched)
      message(FATAL_ERROR "nvrar: NVRAR_CUDA_ARCHITECTURES holds '${entry}', which is no N, N-real or N-virtual")
    endif()
    set(architecture ${CMAKE_MATCH_1})
    set(limit "${CMAKE_MATCH_2}")
    set(cubin_file ${output}.sm_${architecture}.cubin)
    set(ptx_file ${output}.compute_${architecture}.ptx)
    if(NOT limit STREQUAL "-real")
      list(APPEND parts ${ptx_file})
      list(APPEND images --image3=kind=ptx,sm=${architecture},file=${ptx_file})
      nvrar_compile_kernels(${source} ptx ${architecture} ${ptx_file} ${ARGN})
      set(cubin_source ${ptx_file})
    endif()
    if(NOT limit STREQUAL "-virtual")
      list(APPEND parts ${cubin_file})
      list(APPEND images --image3=kind=elf,sm=${architecture},file=${cubin_file})
      nvrar_compile_kernels(${cubin_source} cubin ${architecture} ${cubin_file} ${ARGN})
    endif()
  endforeach()
  # Compressed images take a tenth of the space, and the driver can read them.
  add_custom_command(OUTPUT ${output}
    COMMAND ${nvrar_cuda_bin}/fatbinary --create=${output} -64 --compress-all ${images}
    DEPENDS ${parts} VERBATIM)
endfunction()

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
