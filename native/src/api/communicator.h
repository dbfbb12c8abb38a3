// One member's life: it is prepared, connected, runs one call at a time, may be poisoned, and is destroyed.
#ifndef NVRAR_API_COMMUNICATOR_H
#define NVRAR_API_COMMUNICATOR_H

#include <nvrar.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "api/report.h"
#include "call/batch.h"
#include "call/call.h"
#include "call/top_k.h"
#include "common/error.h"
#include "member/member.h"
#include "plan/tuning.h"

namespace nvrar {

// Throws NVRAR_UNAVAILABLE, with a message that says what is missing.
void probe(int32_t backend);
void make_unique_id(int32_t backend, uint8_t* out);

// All functions throw Error unless they are noexcept.
class Communicator {
 public:
  ~Communicator();
  static std::unique_ptr<Communicator> prepare(const nvrar_config& config, std::span<const nvrar_tuning_rule> rules,
                                               const uint8_t* unique_id, uint8_t* descriptor);
  void set_tuning(std::span<const nvrar_tuning_rule> rules);
  void connect(const uint8_t* descriptors);
  void run(const Call& call, uint64_t stream);
  void run_top_k(const TopK& top_k, uint64_t stream);
  void run_batch(const nvrar_transfer* transfers, uint32_t count, uint64_t stream);

  void abort() noexcept;
  nvrar_failure failure() const noexcept;
  // Throws the failure that poisoned this communicator, if there is one.
  void throw_if_failed();
  // Asks the ranks of other hosts what they are doing; with `wait`, waits a moment for the answers.
  void refresh(bool wait) noexcept;
  nvrar_call call_of(int32_t rank) const;
  nvrar_link link_of(int32_t rank) const;
  nvrar_statistics statistics_of(int32_t collective) const;
  nvrar_wait wait_of(int32_t rank) const;
  const int32_t* last_algorithm() const noexcept;
  uint32_t flight_record(int32_t rank, nvrar_call* out, uint32_t capacity) const;
  // Aborts running work and refuses all later calls. Returns false if some work did not end: then nothing may be freed,
  // and shut() may be called again.
  bool shut() noexcept;

 private:
  Communicator(int32_t backend, std::unique_ptr<Member> member, TuningTable tuning, uint64_t group_hash);
  void require_ready();
  void run_alone(const Call& call, uint64_t stream);
  uint32_t visible_rank(int32_t rank) const;
  void fill_descriptor(uint8_t* out) const;
  [[noreturn]] void throw_poisoned(const shared::Poison& poison, const std::string& running);
  [[noreturn]] void throw_half_enqueued(const nvrar_call& call, const std::exception& error);
  uint64_t waited_ns() const noexcept;
  std::vector<RankActivity> activities() const;

  const int32_t backend_;
  std::unique_ptr<Member> member_;
  TuningTable tuning_;   // guarded by busy_
  uint64_t group_hash_;  // hash of the unique id
  std::atomic<bool> connected_{false};
  std::atomic<bool> busy_{false};
  std::atomic<uint64_t> running_{0};  // number of the running call, 0 if none
  uint64_t sequence_ = 0;             // guarded by busy_
  BatchRoom batch_room_;              // guarded by busy_
  std::mutex sentence_mutex_;
  std::string poison_sentence_;  // the message of the first call that found the poison
};

}  // namespace nvrar

#endif  // NVRAR_API_COMMUNICATOR_H
