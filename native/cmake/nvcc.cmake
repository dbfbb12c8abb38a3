# Finds nvcc and compiles .cu files into images for the GPUs (fatbins), for this project and for others that include this
# file. Each architecture is compiled separately, so that all of them compile in parallel. This is not CMake's own CUDA
# language, which needs a host compiler that nvcc supports, and the CUDA runtime; kernels here use neither.
set(NVRAR_KERNELS AUTO CACHE STRING "Kernels: AUTO (where there is an nvcc), ON (an error where there is none), OFF")
set_property(CACHE NVRAR_KERNELS PROPERTY STRINGS AUTO ON OFF)
set(NVRAR_NVCC "" CACHE FILEPATH "The nvcc that compiles the kernels; empty: what cmake/find-nvcc finds")
set(NVRAR_CUDA_ARCHITECTURES 80-real 90 100-real CACHE STRING "What for: N is SASS and PTX, N-real SASS, N-virtual PTX")

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
    message(STATUS "nvrar: no kernels are built (${why})")
  endif()
endif()

# nvrar_compile_kernels(SOURCE KIND ARCHITECTURE OUTPUT OPTIONS...): KIND is cubin or ptx. ptxas's report of registers
# and spills, and the time, go to OUTPUT.log. A SOURCE may be PTX, which needs no options. nvrar_kernel_includes are nvcc's
# options for a project's headers.
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
      ${nvrar_kernel_includes}
      -MD -MF ${output}.d -MT ${output})
    set(headers DEPFILE ${output}.d)
  endif()
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/compile-kernels ${output}.log
      ${nvrar_nvcc} -Werror all-warnings ${target} ${arguments} -o ${output} ${source}
    DEPENDS ${source} ${nvrar_nvcc} ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/compile-kernels
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
