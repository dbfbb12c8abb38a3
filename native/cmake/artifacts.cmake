# What artifacts/native packs, for each classifier the tree of its jar: artifacts/<classifier> in the build. Made only when
# the target artifacts is asked for.
set(artifacts_folder ${PROJECT_BINARY_DIR}/artifacts)
set(artifacts_path io/nvrar/native/linux-x86_64)

# The library without kernels. It has the same build id: its members can be in a group of CPUs with those of the other.
nvrar_add_kernels(nvrar_no_kernels ${PROJECT_BINARY_DIR}/no-kernels "")
block()
  set(nvrar_all_objects $<TARGET_OBJECTS:nvrar_objects> $<TARGET_OBJECTS:nvrar_no_kernels>)
  nvrar_library(nvrar_cpu ${build_id})
endblock()
set_target_properties(nvrar_cpu nvrar_no_kernels PROPERTIES EXCLUDE_FROM_ALL ON)
set_target_properties(nvrar_cpu PROPERTIES
  OUTPUT_NAME nvrar LIBRARY_OUTPUT_DIRECTORY ${artifacts_folder}/linux-x86_64-cpu/${artifacts_path})

if(nvrar_nvcc)
  # Not the target nvrar, with which the stub of the driver is made.
  nvrar_library(nvrar_cuda ${build_id})
  set_target_properties(nvrar_cuda PROPERTIES
    EXCLUDE_FROM_ALL ON OUTPUT_NAME nvrar LIBRARY_OUTPUT_DIRECTORY ${artifacts_folder}/linux-x86_64/${artifacts_path})
  add_custom_target(artifacts DEPENDS nvrar_cuda)
else()
  # None of an earlier build may be packed.
  add_custom_target(artifacts
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${artifacts_folder}/linux-x86_64
    COMMAND ${CMAKE_COMMAND} -E echo
      "nvrar: there is no jar linux-x86_64, which must hold kernels for GPUs, because this build has no nvcc (bin/nvrar setup --cuda gets one)$<SEMICOLON> linux-x86_64-cpu is made"
    VERBATIM)
endif()
add_dependencies(artifacts nvrar_cpu)
