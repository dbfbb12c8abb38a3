// The kernels of fused all-reduces: those of all-reduces by teams and pairs, each of whose blocks works on one row.
#pragma once

#include <type_traits>

#include "kernels/allreduce/fused_epilogue.cuh"
#include "kernels/allreduce/team_steps.cuh"

namespace nvrar::cuda {

template <class Element, uint32_t kRanks, TeamForm kForm, bool kSingle, bool kNorm, bool kProgrammatic>
__device__ __forceinline__ void fused_team(const FusedArgs& args) {
  __shared__ Packet gathered[kTeamWarps * kWarpThreads];
  __shared__ Packet results[kForm == TeamForm::kTwoShot ? kTeamWarps * kWarpThreads : 1];
  using Vector = std::conditional_t<kForm == TeamForm::kTwoShot, Packet, uint32_t>;
  using Epilogue = RowEpilogue<Element, Vector, kSingle, kNorm>;
  run_beside_headers<TeamSum<Element, kRanks, kForm, kSingle, OneRow, Epilogue>, kProgrammatic>(args, gathered,
                                                                                                results);
}

template <class Element, bool kSingle, bool kNorm, bool kProgrammatic>
__device__ __forceinline__ void fused_pair(const FusedArgs& args) {
  using Epilogue = RowEpilogue<Element, Packet, kSingle, kNorm>;
  run_beside_headers<PairSum<Element, false, kSingle, OneRow, Epilogue>, kProgrammatic>(args);
}

}  // namespace nvrar::cuda

#define NVRAR_FUSED_KERNEL(name, ...) \
  NVRAR_KERNEL_OF(FusedArgs, fused_##name, kTeamWarps* kWarpThreads, kPlaces, __VA_ARGS__)
// For RMS_NORM and for the other forms.
#define NVRAR_FUSED_FORMS(name, suffix, steps, single, programmatic, ...)           \
  NVRAR_FUSED_KERNEL(name##suffix, steps<__VA_ARGS__, single, false, programmatic>) \
  NVRAR_FUSED_KERNEL(norm_##name##suffix, steps<__VA_ARGS__, single, true, programmatic>)
// For blocks that repeat, and faster ones for blocks that do not and whose threads have a vector each.
#define NVRAR_FUSED_PAIR(name, suffix, steps, programmatic, ...)           \
  NVRAR_FUSED_FORMS(name, suffix, steps, false, programmatic, __VA_ARGS__) \
  NVRAR_FUSED_FORMS(name##_single, suffix, steps, true, programmatic, __VA_ARGS__)
#define NVRAR_FUSED_TEAM(name, suffix, element, ranks, form, programmatic) \
  NVRAR_FUSED_PAIR(name, suffix, fused_team, programmatic, protocol::element, ranks, TeamForm::form)
#define NVRAR_FUSED_ANY_TEAM(name, suffix, element, form, programmatic) \
  NVRAR_FUSED_FORMS(name, suffix, fused_team, false, programmatic, protocol::element, 0, TeamForm::form)
// For any world size, and faster ones for the most common sizes. A two-shot between two ranks is never the faster one.
#define NVRAR_FUSED_KERNELS_OF(type, element, suffix, programmatic)                          \
  NVRAR_FUSED_PAIR(one_shot_##type##_2, suffix, fused_pair, programmatic, protocol::element) \
  NVRAR_FUSED_TEAM(one_shot_##type##_4, suffix, element, 4, kOneShot, programmatic)          \
  NVRAR_FUSED_TEAM(one_shot_##type##_8, suffix, element, 8, kOneShot, programmatic)          \
  NVRAR_FUSED_ANY_TEAM(one_shot_##type##_0, suffix, element, kOneShot, programmatic)         \
  NVRAR_FUSED_TEAM(two_shot_##type##_4, suffix, element, 4, kTwoShot, programmatic)          \
  NVRAR_FUSED_TEAM(two_shot_##type##_8, suffix, element, 8, kTwoShot, programmatic)          \
  NVRAR_FUSED_ANY_TEAM(two_shot_##type##_0, suffix, element, kTwoShot, programmatic)
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define NVRAR_FUSED_KERNELS(type, element)       \
  NVRAR_FUSED_KERNELS_OF(type, element, , false) \
  NVRAR_FUSED_KERNELS_OF(type, element, _programmatic, true)
#else
#define NVRAR_FUSED_KERNELS(type, element) NVRAR_FUSED_KERNELS_OF(type, element, , false)
#endif
