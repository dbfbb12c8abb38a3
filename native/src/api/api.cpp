// The C ABI. Only this file turns exceptions into a status and the calling thread's last error.
#include <nvrar.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "api/communicator.h"
#include "api/onlooker.h"
#include "api/version.h"
#include "call/fusion.h"
#include "call/top_k.h"
#include "common/abi_struct.h"
#include "common/error.h"
#include "cuda/nvshmem/nvshmem.h"
#include "link/cipher.h"
#include "link/close_on_exec.h"
#include "member/host_key.h"

struct nvrar_comm {
  std::unique_ptr<nvrar::Communicator> communicator;
};

namespace {

using nvrar::Call;
using nvrar::Error;

constexpr size_t kLastErrorBytes = 2048;
// Fixed storage, so that no destructor runs when a thread ends, which may be after this library was unloaded.
thread_local char last_error[kLastErrorBytes] = "";

nvrar_status fail(nvrar_status status, const char* sentence) noexcept {
  std::snprintf(last_error, sizeof last_error, "%s", sentence);
  return status;
}

template <class Body>
nvrar_status guarded(Body body) noexcept {
  last_error[0] = '\0';
  try {
    body();
    return NVRAR_OK;
  } catch (const Error& error) {
    return fail(error.status(), error.what());
  } catch (const std::bad_alloc&) {
    return fail(NVRAR_SYSTEM, "the process is out of memory");
  } catch (const std::exception& error) {
    return fail(NVRAR_INTERNAL, error.what());
  } catch (...) {
    return fail(NVRAR_INTERNAL, "an unknown exception");
  }
}

void require(const void* pointer, const char* name) {
  if (pointer == nullptr) throw Error(NVRAR_INVALID_ARGUMENT, std::string(name) + " is null");
}

template <class Struct>
void require_struct(const Struct* out) {
  require(out, "out");
  nvrar::check_struct_size<Struct>("out", out->size);
}

nvrar_status run(nvrar_comm* comm, const Call& call, uint64_t stream) noexcept {
  return guarded([&] {
    require(comm, "comm");
    comm->communicator->run(call, stream);
  });
}

}  // namespace

extern "C" {

uint32_t nvrar_abi_version(void) { return nvrar::abi_version(); }

const char* nvrar_build_id(void) { return nvrar::build_id(); }

const char* nvrar_last_error(void) { return last_error; }

nvrar_status nvrar_probe(int32_t backend) {
  return guarded([&] { nvrar::probe(backend); });
}

nvrar_status nvrar_find_nvshmem(const char* place, char* text, uint32_t text_bytes) {
  return guarded([&] {
    require(text, "text");
    // A pointer, because GCC 13 takes the reference for one to the argument, which is a temporary.
    const nvrar::cuda::Nvshmem* const found = &nvrar::cuda::find_nvshmem(place == nullptr ? "" : place);
    std::snprintf(text, text_bytes, "%s, %s", found->version.text().c_str(), found->path.c_str());
  });
}

nvrar_status nvrar_find_libcrypto(char* text, uint32_t text_bytes) {
  return guarded([&] {
    require(text, "text");
    std::snprintf(text, text_bytes, "%s", nvrar::link::find_libcrypto().c_str());
  });
}

nvrar_status nvrar_host(char* text, uint32_t text_bytes) {
  return guarded([&] {
    require(text, "text");
    const std::string host = nvrar::HostKey::of_this_process().text();
    if (host.size() >= text_bytes) {
      throw Error(NVRAR_INVALID_ARGUMENT, "text_bytes is " + std::to_string(text_bytes) + ", must be at least " +
                                              std::to_string(host.size() + 1));
    }
    std::memcpy(text, host.c_str(), host.size() + 1);
  });
}

nvrar_status nvrar_close_on_exec(int32_t local_port, int32_t remote_port) {
  return guarded([&] { nvrar::link::close_on_exec(local_port, remote_port); });
}

nvrar_status nvrar_unique_id(int32_t backend, uint8_t* out) {
  return guarded([&] {
    require(out, "out");
    nvrar::make_unique_id(backend, out);
  });
}

nvrar_status nvrar_prepare(const nvrar_config* config, const nvrar_tuning_rule* rules, uint32_t rule_count,
                           const uint8_t* unique_id, uint8_t* descriptor, nvrar_comm** out) {
  return guarded([&] {
    require(config, "config");
    require(unique_id, "unique_id");
    require(descriptor, "descriptor");
    require(out, "out");
    if (rule_count != 0) require(rules, "rules");
    auto comm = std::make_unique<nvrar_comm>();
    const auto taken_config = nvrar::take_struct<nvrar_config>(config, "config");
    nvrar::TuningTable::check_count(rule_count);
    std::vector<nvrar_tuning_rule> room;
    const std::span<const nvrar_tuning_rule> taken = nvrar::take_structs(rules, rule_count, "rules", &room);
    comm->communicator = nvrar::Communicator::prepare(taken_config, taken, unique_id, descriptor);
    *out = comm.release();
  });
}

nvrar_status nvrar_set_tuning(nvrar_comm* comm, const nvrar_tuning_rule* rules, uint32_t rule_count) {
  return guarded([&] {
    require(comm, "comm");
    if (rule_count != 0) require(rules, "rules");
    nvrar::TuningTable::check_count(rule_count);
    std::vector<nvrar_tuning_rule> room;
    comm->communicator->set_tuning(nvrar::take_structs(rules, rule_count, "rules", &room));
  });
}

nvrar_status nvrar_connect(nvrar_comm* comm, const uint8_t* descriptors) {
  return guarded([&] {
    require(comm, "comm");
    require(descriptors, "descriptors");
    comm->communicator->connect(descriptors);
  });
}

nvrar_status nvrar_all_reduce(nvrar_comm* comm, uint64_t send, uint64_t recv, uint64_t count, int32_t data_type,
                              int32_t op, int32_t algorithm, uint64_t stream) {
  return run(comm, {NVRAR_ALL_REDUCE, send, recv, count, data_type, op, nvrar::kNoRoot, algorithm}, stream);
}

nvrar_status nvrar_reduce(nvrar_comm* comm, uint64_t send, uint64_t recv, uint64_t count, int32_t data_type, int32_t op,
                          int32_t root, uint64_t stream) {
  return run(comm, {NVRAR_REDUCE, send, recv, count, data_type, op, root}, stream);
}

nvrar_status nvrar_reduce_scatter(nvrar_comm* comm, uint64_t send, uint64_t recv, uint64_t count, int32_t data_type,
                                  int32_t op, uint64_t stream) {
  return run(comm, {NVRAR_REDUCE_SCATTER, send, recv, count, data_type, op, nvrar::kNoRoot}, stream);
}

nvrar_status nvrar_all_to_all(nvrar_comm* comm, uint64_t send, uint64_t recv, uint64_t count, int32_t data_type,
                              uint64_t stream) {
  return run(comm, {NVRAR_ALL_TO_ALL, send, recv, count, data_type, nvrar::kNoOp, nvrar::kNoRoot}, stream);
}

nvrar_status nvrar_all_gather(nvrar_comm* comm, uint64_t send, uint64_t recv, uint64_t count, int32_t data_type,
                              uint64_t stream) {
  return run(comm, {NVRAR_ALL_GATHER, send, recv, count, data_type, nvrar::kNoOp, nvrar::kNoRoot}, stream);
}

nvrar_status nvrar_broadcast(nvrar_comm* comm, uint64_t send, uint64_t recv, uint64_t count, int32_t data_type,
                             int32_t root, uint64_t stream) {
  return run(comm, {NVRAR_BROADCAST, send, recv, count, data_type, nvrar::kNoOp, root}, stream);
}

nvrar_status nvrar_all_reduce_fused(nvrar_comm* comm, const nvrar_fused_all_reduce* call, uint64_t stream) {
  return guarded([&] {
    require(comm, "comm");
    require(call, "call");
    const auto taken = nvrar::take_struct<nvrar_fused_all_reduce>(call, "call");
    const nvrar::Fusion fusion = nvrar::fusion_of(taken);
    comm->communicator->run(nvrar::fused_call(taken, fusion), stream);
  });
}

nvrar_status nvrar_top_k(nvrar_comm* comm, const nvrar_selection* selection, uint64_t stream) {
  return guarded([&] {
    require(comm, "comm");
    require(selection, "selection");
    const auto taken = nvrar::take_struct<nvrar_selection>(selection, "selection");
    comm->communicator->run_top_k(nvrar::checked_top_k(taken), stream);
  });
}

nvrar_status nvrar_barrier(nvrar_comm* comm, uint64_t stream) {
  return run(comm, {NVRAR_BARRIER, 0, 0, 0, nvrar::kNoType, nvrar::kNoOp, nvrar::kNoRoot}, stream);
}

nvrar_status nvrar_batch(nvrar_comm* comm, const nvrar_transfer* transfers, uint32_t transfer_count, uint64_t stream) {
  return guarded([&] {
    require(comm, "comm");
    if (transfer_count != 0) require(transfers, "transfers");
    std::vector<nvrar_transfer> room;
    const std::span<const nvrar_transfer> taken = nvrar::take_structs(transfers, transfer_count, "transfers", &room);
    comm->communicator->run_batch(taken.data(), transfer_count, stream);
  });
}

nvrar_status nvrar_abort(nvrar_comm* comm) {
  return guarded([&] {
    require(comm, "comm");
    comm->communicator->abort();
  });
}

nvrar_status nvrar_async_error(nvrar_comm* comm) {
  return guarded([&] {
    require(comm, "comm");
    comm->communicator->throw_if_failed();
  });
}

nvrar_status nvrar_failure_of(nvrar_comm* comm, nvrar_failure* out) {
  return guarded([&] {
    require(comm, "comm");
    require_struct(out);
    nvrar::give_struct(out, out->size, comm->communicator->failure());
  });
}

nvrar_status nvrar_refresh(nvrar_comm* comm, int32_t wait) {
  return guarded([&] {
    require(comm, "comm");
    comm->communicator->refresh(wait != 0);
  });
}

nvrar_status nvrar_call_of(nvrar_comm* comm, int32_t rank, nvrar_call* out) {
  return guarded([&] {
    require(comm, "comm");
    require_struct(out);
    nvrar::give_struct(out, out->size, comm->communicator->call_of(rank));
  });
}

nvrar_status nvrar_link_of(nvrar_comm* comm, int32_t rank, nvrar_link* out) {
  return guarded([&] {
    require(comm, "comm");
    require_struct(out);
    nvrar::give_struct(out, out->size, comm->communicator->link_of(rank));
  });
}

nvrar_status nvrar_flight_record(nvrar_comm* comm, int32_t rank, nvrar_call* out, uint32_t capacity, uint32_t* count) {
  return guarded([&] {
    require(comm, "comm");
    require(count, "count");
    if (capacity != 0) require_struct(out);
    std::vector<nvrar_call> calls(std::min<uint32_t>(capacity, NVRAR_FLIGHT_RECORDS));
    const uint32_t size = capacity == 0 ? 0 : out->size;
    *count = comm->communicator->flight_record(rank, calls.data(), static_cast<uint32_t>(calls.size()));
    for (uint32_t i = 0; i < *count; ++i) {
      nvrar::give_struct(reinterpret_cast<uint8_t*>(out) + size_t{i} * size, size, calls[i]);
    }
  });
}

nvrar_status nvrar_statistics_of(nvrar_comm* comm, int32_t collective, nvrar_statistics* out) {
  return guarded([&] {
    require(comm, "comm");
    require_struct(out);
    nvrar::give_struct(out, out->size, comm->communicator->statistics_of(collective));
  });
}

nvrar_status nvrar_wait_of(nvrar_comm* comm, int32_t rank, nvrar_wait* out) {
  return guarded([&] {
    require(comm, "comm");
    require_struct(out);
    nvrar::give_struct(out, out->size, comm->communicator->wait_of(rank));
  });
}

const int32_t* nvrar_last_algorithm(nvrar_comm* comm) {
  return comm == nullptr ? nullptr : comm->communicator->last_algorithm();
}

nvrar_status nvrar_look_at(const uint8_t* descriptor, nvrar_call* out, uint32_t capacity, uint32_t* count,
                           uint64_t* begun, nvrar_status* failure) {
  return guarded([&] {
    require(descriptor, "descriptor");
    require(count, "count");
    require(begun, "begun");
    require(failure, "failure");
    if (capacity != 0) require_struct(out);
    const uint32_t size = capacity == 0 ? 0 : out->size;
    const nvrar::Sight sight = nvrar::look_at(descriptor, capacity);
    *count = static_cast<uint32_t>(sight.newest.size());
    *begun = sight.begun;
    *failure = sight.failure;
    for (uint32_t i = 0; i < *count; ++i) {
      nvrar::give_struct(reinterpret_cast<uint8_t*>(out) + size_t{i} * size, size, sight.newest[i]);
    }
  });
}

nvrar_status nvrar_destroy(nvrar_comm* comm) {
  return guarded([&] {
    if (comm == nullptr) return;
    if (!comm->communicator->shut()) {
      throw Error(NVRAR_INTERNAL,
                  "what this rank has enqueued or runs did not end within 10 s of being aborted: nothing is freed, and "
                  "nvrar_destroy may be called again");
    }
    delete comm;
  });
}

}  // extern "C"
