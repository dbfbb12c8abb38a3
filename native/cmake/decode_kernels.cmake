# The kernels of the example that decodes: every examples/09-llama-decode/kernels/*.cu becomes an image in the folder
# decode-kernels of the build, from which the examples' jar takes them.
set(decode_kernels_source ${PROJECT_SOURCE_DIR}/../examples/09-llama-decode/kernels)
set(decode_kernels_folder ${PROJECT_BINARY_DIR}/decode-kernels)

# These use what GPUs before compute capability 9.0 do not have.
set(decode_kernels_new_only attention gemm prefill)

# Nobody runs those of a sanitizer build.
if(nvrar_nvcc AND NOT NVRAR_SANITIZE)
  file(MAKE_DIRECTORY ${decode_kernels_folder})
  file(GLOB sources CONFIGURE_DEPENDS ${decode_kernels_source}/*.cu)
  set(images "")
  foreach(source IN LISTS sources)
    cmake_path(GET source STEM name)
    set(architectures ${NVRAR_CUDA_ARCHITECTURES})
    if(name IN_LIST decode_kernels_new_only)
      list(FILTER architectures EXCLUDE REGEX "^[1-8][0-9](-|$)")
    endif()
    if(architectures)
      nvrar_fatbin(${source} ${decode_kernels_folder}/${name}.fatbin "${architectures}")
      list(APPEND images ${decode_kernels_folder}/${name}.fatbin)
    endif()
  endforeach()
  add_custom_target(decode_kernels ALL DEPENDS ${images})
  # bin/nvrar builds the target nvrar alone.
  add_dependencies(nvrar decode_kernels)
else()
  # None of an earlier build may be packed.
  file(REMOVE_RECURSE ${decode_kernels_folder})
endif()
