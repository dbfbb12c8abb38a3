#include "gpu/add_norm.h"

#include <nvrar.h>

#include <algorithm>

#include "gpu/images.h"
#include "gpu/kernels/add_norm_args.h"

namespace nvrar::bench {
namespace {

using add_norm::kMostThreads;

// Of the forms whose threads need nothing of each other's.
constexpr unsigned kThreads = 128;
constexpr uint32_t kFewRows = 4;
constexpr unsigned kBlocksOfFewRows = 4;

unsigned div_up(unsigned a, unsigned b) { return (a + b - 1) / b; }

unsigned vectors_of(const Problem& problem) {
  return problem.hidden * type_bytes(problem.data_type) / add_norm::kVectorBytes;
}

const char* kernel_name(int32_t form) {
  switch (form) {
    case NVRAR_FUSION_RESIDUAL:
      return "nvrar_bench_add_residual";
    case NVRAR_FUSION_BIAS:
      return "nvrar_bench_add_bias";
    case NVRAR_FUSION_RMS_FOLD:
      return "nvrar_bench_add_rms_fold";
    default:
      return "nvrar_bench_add_rms_norm";
  }
}

}  // namespace

AddNorm::AddNorm(bool has_clusters, const Options& options)
    : has_clusters_(has_clusters),
      programmatic_launch_(options.programmatic_launch),
      given_blocks_(options.apart_blocks) {}

bool AddNorm::takes(const Problem& problem) const {
  return has_clusters_ || problem.form != NVRAR_FUSION_RMS_NORM || vectors_of(problem) <= kMostThreads;
}

unsigned AddNorm::blocks_of(const Problem& problem) const {
  const unsigned vectors = vectors_of(problem);
  if (problem.form != NVRAR_FUSION_RMS_NORM) return div_up(vectors, kThreads);
  const unsigned wanted = !has_clusters_               ? 1
                          : given_blocks_ != 0         ? given_blocks_
                          : problem.rows() <= kFewRows ? kBlocksOfFewRows
                                                       : 1;
  unsigned blocks = wanted;
  while (div_up(vectors, blocks) > kMostThreads) blocks *= 2;
  return blocks;
}

CudaFunction AddNorm::kernel_of(const Problem& problem, unsigned blocks) {
  std::string name = kernel_name(problem.form);
  if (problem.form == NVRAR_FUSION_RMS_NORM && blocks > 1) name += "_" + std::to_string(blocks);
  name += std::string("_") + type_name(problem.data_type);
  const auto found = kernels_.find(name);
  if (found != kernels_.end()) return found->second;
  return kernels_.emplace(name, Kernels(add_norm_image()).of(name.c_str())).first->second;
}

void AddNorm::enqueue(const Problem& problem, const Buffers& at, CudaStream stream) {
  const unsigned blocks = blocks_of(problem);
  const unsigned threads = div_up(div_up(vectors_of(problem), blocks), 32) * 32;
  const unsigned cluster = problem.form == NVRAR_FUSION_RMS_NORM ? blocks : 1;
  add_norm::Arguments arguments{};
  arguments.in = at.recv;
  arguments.residual = at.residual;
  arguments.weight = at.weight;
  arguments.residual_out = at.residual_out;
  arguments.out = at.recv;
  arguments.squares = at.squares;
  arguments.vectors = vectors_of(problem);
  arguments.blocks = blocks;
  arguments.hidden = static_cast<float>(problem.hidden);
  arguments.eps = problem.eps();
  void* pointers[] = {&arguments};
  launch(kernel_of(problem, blocks), {problem.rows() * blocks, threads, cluster}, programmatic_launch_, stream,
         pointers);
}

}  // namespace nvrar::bench
