// One member of a group on the CUDA backend: its rings in symmetric memory, and the launches on its streams.
#ifndef NVRAR_CUDA_MEMBER_CUDA_MEMBER_H
#define NVRAR_CUDA_MEMBER_CUDA_MEMBER_H

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "cuda/driver/owned.h"
#include "cuda/kernels/crossing/crossing_args.h"
#include "cuda/kernels/launch/fused_args.h"
#include "cuda/kernels/launch/kernel_args.h"
#include "cuda/kernels/move/transfer_args.h"
#include "cuda/kernels/top_k/top_k_args.h"
#include "cuda/launch/device.h"
#include "cuda/launch/launch_log.h"
#include "cuda/memory/symmetric_memory.h"
#include "cuda/proxy/proxy.h"
#include "member/member.h"
#include "member/nodes_of_hosts.h"
#include "plan/kernels.h"

namespace nvrar::cuda {

constexpr uint64_t kCudaRingBytes = uint64_t{16} << 20;
// The host page, and the scratch for what the host reads of a GPU: a launch of thousands of blocks has many exits.
constexpr uint64_t kHostPageBytes = uint64_t{64} << 10;

struct CudaMemberConfig : LinkConfig {
  uint32_t rank = 0;
  protocol::Topology topology{};
  uint64_t ring_bytes = 0;  // 0: kCudaRingBytes
  uint64_t timeout_ns = 0;
  uint64_t group_hash = 0;
  uint32_t concurrent_groups = 0;  // groups that may have launches on a device at once; 0: 2
  bool exclusive = false;          // this group is the only one that has
  bool programmatic_launch = false;
  MemoryConfig memory{};  // all except bytes, rank and world
};

class CudaMember final : public Member {
 public:
  explicit CudaMember(const CudaMemberConfig& config);
  ~CudaMember() override;

  int32_t architecture() const noexcept override { return static_cast<int32_t>(device_->compute_capability()); }
  Plan plan(const Call& call, const TuningTable& tuning) const override;
  void describe(Descriptor* descriptor) const override;
  void map_peers(const std::vector<Descriptor>& descriptors) override;
  bool run(const Call& call, const Plan& plan, const nvrar_call& record, uint64_t stream) override;
  KeyRoom find_keys(const TopK& top_k, uint32_t first_row, uint32_t rows, uint64_t stream) override;
  void choose(const TopK& top_k, uint32_t first_row, uint32_t rows, uint64_t stream) override;
  bool captures(uint64_t stream) const override { return captures(reinterpret_cast<Stream>(stream)); }
  bool run_batch(const nvrar_transfer* transfers, uint32_t count, uint64_t group_sequence, uint64_t stream,
                 BatchResult* result) override;
  void record_empty(const nvrar_call& call) noexcept override { (void)record(call, NVRAR_CALL_QUEUED); }
  void update_record() noexcept override;
  shared::Poison poisoned() noexcept override;
  BatchResult failed_transfer() noexcept override;
  void poison(const shared::Poison& poison) noexcept override;
  void update_remote(bool wait) noexcept override;
  nvrar_link link_of(uint32_t rank) const noexcept override {
    return crosses_ ? proxy_->talk().link_of(rank) : Member::link_of(rank);
  }
  const char* refused(uint32_t rank) const noexcept override;
  uint64_t waited_ns() const noexcept override { return timeout_ns_; }
  bool quiet(uint64_t limit_ns) noexcept override;

 private:
  struct QueuedTransfer {
    uint64_t record;  // number in the flight record
    uint32_t pair;    // index of its PairState
    uint64_t sequence;
  };

  static FusedArgs fused_args(const KernelArgs& args, const Fusion& fusion, const RowShape& rows, uint64_t first_row);
  HostPage& page() const noexcept { return *static_cast<HostPage*>(page_.host()); }
  void link(const std::vector<Descriptor>& descriptors, const RankSet& remote);
  void launch_crossing(const Kernel& kernel, const LaunchShape& shape, const Plan& plan, const KernelArgs& args,
                       Stream stream, bool captured);
  void finish_crossing_rows(const Call& call, uint64_t first_row, KernelArgs args, Stream stream, bool captured);
  RankSet ranks_of(const DeviceFailure& failure) const noexcept;
  static uint64_t top_k_bytes(uint32_t world) noexcept;
  TopKArgs top_k_args(const TopK& top_k, uint32_t first_row, uint32_t rows, bool captured) const noexcept;
  void fill_state() const;
  void fill_rings(uint64_t bytes) const;  // of the memory of the rings
  void require_device_memory(const char* name, uint64_t address, uint64_t bytes) const;
  void await_leaving() const noexcept;
  void require_room(const nvrar_transfer* transfers, uint32_t count) const;
  TransferQueue queue_to(uint32_t peer, bool sends, uint16_t first) const noexcept;
  void launch_transfers(uint32_t tag, Stream stream, bool captured);
  // cluster: how many blocks meet; 1: none. may_be_early: whether a launch of a group with programmatic launch starts
  // before the one before has ended. Not where its blocks would wait in numbers that leave no room for other ranks'.
  struct LaunchWay {
    uint32_t cluster = 1;
    bool may_be_early = true;
  };
  void launch(const Kernel& kernel, const LaunchShape& shape, const LaunchWay& way, void* args, Stream stream,
              bool captured);
  void give_up(uint64_t first_record, uint32_t records, uint64_t sequence) noexcept;
  Stream stream_of(uint64_t handle) const;
  static bool captures(Stream stream);
  static nvrar_call record_of(const nvrar_transfer& transfer, uint64_t sequence, uint32_t transfers,
                              uint64_t group_sequence) noexcept;
  void watch() noexcept;
  void take_up_failure() noexcept;
  Result read(void* to, DeviceAddress from, size_t bytes) noexcept;
  bool peek(void* to, DeviceAddress from, size_t bytes) noexcept { return read(to, from, bytes) == kSuccess; }
  RankSet ranks_not_entered(bool by_slices) noexcept;
  void record_progress(bool ended) noexcept;
  void note_queued(const std::vector<QueuedTransfer>& transfers) noexcept;
  void record_transfers_done() noexcept;
  uint64_t record(const nvrar_call& call, int32_t state) noexcept;
  void stop_kernels() noexcept;
  bool tell_kernels() noexcept;
  struct Seen;
  Seen look_at_launches() noexcept;
  template <class Entry, class Visit>
  void read_all(Result* result, DeviceAddress from, uint64_t count, Visit visit) noexcept;
  void look_whether_all_is_over() noexcept;

  const uint64_t timeout_ns_;
  const NvshmemId nvshmem_id_;
  bool connected_ = false;
  const bool exclusive_;
  const bool programmatic_launch_;
  const uint32_t concurrent_groups_;
  std::shared_ptr<Device> device_;
  GpuFacts gpu_;                       // what a call may have of it is known once all members are
  OwnedStream own_stream_;             // fills rings, and tells kernels to leave
  std::optional<OwnedMemory> state_;   // DeviceState
  std::optional<OwnedMemory> places_;  // PlaceExit and a claim for each place
  std::optional<OwnedMemory> lines_;   // LaunchLine
  std::optional<OwnedMemory> keys_;    // of a top-k
  OwnedPage page_;                     // HostPage
  std::optional<OwnedMemory> pairs_;   // PairState of sends, then of receives
  // The number of sends to and receives from each rank that have been enqueued.
  std::array<std::array<uint64_t, protocol::kMaxGpuWorld>, 2> transfers_{};
  // Of a batch, kept from one to the next, because a call allocates nothing once it has had one like it.
  struct {
    std::array<std::vector<const nvrar_transfer*>, 2> own;  // the sends to this rank itself, and their recvs
    std::vector<QueuedTransfer> queued;
    std::vector<TransferQueue> queues;
    std::vector<TransferItem> items;
  } batch_room_;
  std::unique_ptr<SymmetricMemory> memory_;
  AllLeft all_left_;          // made here, because the destructor, which gives it away, must need no memory
  KernelArgs args_{};         // the arguments that are the same for every launch
  protocol::NodeList nodes_;  // of layout_, if the group spans several
  uint64_t firsts_ = 1;       // bit r: rank r is the first of its node
  const LinkConfig link_config_;
  std::optional<OwnedPage> arena_;             // of a group that spans nodes (protocol/crossing.h),
  std::optional<OwnedMemory> crossing_state_;  // ... and its counts, its sums, and the rows of a fused launch
  protocol::CrossingMemory crossing_;
  uint8_t* crossing_rows_ = nullptr;
  std::unique_ptr<Proxy> proxy_;      // null without an address
  std::atomic<bool> crosses_{false};  // whether there are ranks in other nodes that it reaches by links only
  std::atomic<bool> told_{false};     // whether those were told that the group has failed
  LaunchLog log_;

  std::mutex record_mutex_;  // guards the next four, and writing the flight record
  uint64_t recorded_ = 0;    // calls
  uint64_t known_done_ = 0;  // the first calls of them that are known to be done
  bool end_recorded_ = false;
  std::deque<QueuedTransfer> queued_transfers_;
  std::mutex peek_mutex_;
  std::mutex failure_mutex_;
  // Counts of launches, except for captured ones; read while no launch is being made.
  std::atomic<uint64_t> warps_launched_{0};
  std::atomic<bool> has_captured_{false};

  std::mutex watch_mutex_;  // guards the next four
  std::condition_variable watch_turns_;
  bool ends_ = false;
  bool ending_ = false;               // there are no more launches: the watcher checks whether all are over
  bool all_over_ = false;             // they are
  std::atomic<bool> stopped_{false};  // the kernels have been told of the poison
  std::thread watcher_;
};

}  // namespace nvrar::cuda

#endif  // NVRAR_CUDA_MEMBER_CUDA_MEMBER_H
