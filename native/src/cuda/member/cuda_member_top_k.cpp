// The launches of a top-k before and behind its all-gather.
#include <algorithm>

#include "cuda/member/cuda_member.h"

namespace nvrar::cuda {

// The tickets, then the keys of the parts of rows, this rank's, and those of all ranks.
uint64_t CudaMember::top_k_bytes(uint32_t world) noexcept {
  return TopK::kMostKeys * (sizeof(uint32_t) + (kMostSplits + 1 + uint64_t{world}) * sizeof(uint64_t));
}

TopKArgs CudaMember::top_k_args(const TopK& top_k, uint32_t first_row, uint32_t rows, bool captured) const noexcept {
  TopKArgs args{};
  static_cast<KernelArgs&>(args) = args_;
  // Only whether the launch is counted: it neither fails nor is anything reported of it.
  args.tag = captured ? kCapturedTag | 1 : 1;
  const uint32_t size = element_bytes(top_k.data_type);
  const uint64_t places = uint64_t{first_row} * top_k.k;
  args.input = reinterpret_cast<const uint8_t*>(top_k.input + uint64_t{first_row} * top_k.columns * size);
  if (top_k.values != 0) args.values = reinterpret_cast<uint8_t*>(top_k.values + places * size);
  args.indices = reinterpret_cast<int32_t*>(top_k.indices + places * sizeof(int32_t));
  args.tickets = reinterpret_cast<uint32_t*>(keys_->get());
  args.parts = reinterpret_cast<uint64_t*>(keys_->get() + TopK::kMostKeys * sizeof(uint32_t));
  args.own = args.parts + kMostSplits * TopK::kMostKeys;
  args.all = args.own + TopK::kMostKeys;
  args.rows = rows;
  args.k = top_k.k;
  args.columns = top_k.columns;
  args.first = top_k.first;
  // A block has several thousand columns, and several times k, if there are as many.
  constexpr uint32_t kColumnsOfASplit = 4096;
  args.splits = std::clamp(top_k.columns / std::max(kColumnsOfASplit, 4 * top_k.k), 1u, kMostSplits);
  args.world = world();
  return args;
}

KeyRoom CudaMember::find_keys(const TopK& top_k, uint32_t first_row, uint32_t rows, uint64_t stream_handle) {
  if (rows == 0) return {};
  const CurrentContext current(device_->context());
  const Stream stream = stream_of(stream_handle);
  if (first_row == 0) {
    const uint64_t places = uint64_t{top_k.rows} * top_k.k;
    const uint32_t size = element_bytes(top_k.data_type);
    require_device_memory("input", top_k.input, uint64_t{top_k.rows} * top_k.columns * size);
    require_device_memory("values", top_k.values, places * size);
    require_device_memory("indices", top_k.indices, places * sizeof(int32_t));
  }
  const bool captured = captures(stream);
  TopKArgs args = top_k_args(top_k, first_row, rows, captured);
  launch(device_->kernel({KernelFamily::kFindKeys, static_cast<uint8_t>(top_k.data_type), 0}),
         {.blocks = rows * args.splits, .threads = kTopKThreads, .single = false}, {.may_be_early = false}, &args,
         stream, captured);
  return {reinterpret_cast<uint64_t>(args.own), reinterpret_cast<uint64_t>(args.all)};
}

void CudaMember::choose(const TopK& top_k, uint32_t first_row, uint32_t rows, uint64_t stream_handle) {
  const CurrentContext current(device_->context());
  const auto stream = reinterpret_cast<Stream>(stream_handle);
  const bool captured = captures(stream);
  TopKArgs args = top_k_args(top_k, first_row, rows, captured);
  launch(device_->kernel({KernelFamily::kChoose, static_cast<uint8_t>(top_k.data_type), 0}),
         {.blocks = rows, .threads = kTopKThreads, .single = false}, {.may_be_early = false}, &args, stream, captured);
}

}  // namespace nvrar::cuda
