#include "nvrar_calls.h"

#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace nvrar::bench {
namespace {

constexpr uint64_t kCallTimeoutNs = 30'000'000'000;

struct UniqueId {
  uint8_t bytes[NVRAR_UNIQUE_ID_BYTES];
};
struct Descriptor {
  uint8_t bytes[NVRAR_DESCRIPTOR_BYTES];
};

void require(nvrar_status status, const char* what) {
  if (status != NVRAR_OK) throw std::runtime_error(std::string(what) + ": " + nvrar_last_error());
}

int32_t code_of(Collective collective) {
  switch (collective) {
    case Collective::kReduce:
      return NVRAR_REDUCE;
    case Collective::kBroadcast:
      return NVRAR_BROADCAST;
    case Collective::kAllGather:
      return NVRAR_ALL_GATHER;
    case Collective::kReduceScatter:
      return NVRAR_REDUCE_SCATTER;
    case Collective::kAllToAll:
      return NVRAR_ALL_TO_ALL;
    case Collective::kBarrier:
      return NVRAR_BARRIER;
    default:
      return NVRAR_ALL_REDUCE;
  }
}

// For all types.
nvrar_tuning_rule rule_of(int32_t collective, int32_t algorithm, uint64_t bytes_max, uint32_t blocks, uint32_t tiles) {
  nvrar_tuning_rule rule{};
  rule.size = sizeof rule;
  rule.data_type = -1;
  rule.collective = collective;
  rule.algorithm = algorithm;
  rule.bytes_max = bytes_max;
  rule.blocks = blocks;
  rule.tiles = tiles;
  return rule;
}

}  // namespace

Communicator::Communicator(const Options& options, int32_t backend, int device, Team* team)
    : rank_(team->rank()), algorithm_(options.algorithm) {
  nvrar_config config{};
  config.size = sizeof config;
  config.backend = backend;
  config.rank = rank_;
  config.world_size = team->size();
  config.device = device;
  config.ring_bytes = options.ring_bytes;
  config.timeout_ns = kCallTimeoutNs;
  config.ranks_per_node = options.ranks_per_node;
  config.memory = options.memory;
  if (options.links != 0) {
    config.link_threads = static_cast<uint32_t>(options.links);
    std::strcpy(config.link_address, "127.0.0.1");
    config.links = NVRAR_LINKS_BETWEEN_NODES;
  }
  if (!options.address.empty()) std::strcpy(config.link_address, options.address.c_str());
  config.exclusive = options.exclusive ? 1 : 0;
  config.programmatic_launch = options.programmatic_launch ? 1 : 0;
  config.shared_devices = options.gpus > 0 && options.gpus < team->size() ? 1 : 0;
  UniqueId id{};
  if (rank_ == 0) require(nvrar_unique_id(backend, id.bytes), "nvrar_unique_id");
  id = team->exchange(id)[0];
  Descriptor mine{};
  std::vector<nvrar_tuning_rule> rules;
  for (const RuleOption& rule : options.rules) {
    rules.push_back(rule_of(NVRAR_ALL_REDUCE, rule.algorithm, rule.bytes_max, rule.blocks, rule.tiles));
  }
  require(nvrar_prepare(&config, rules.data(), static_cast<uint32_t>(rules.size()), id.bytes, mine.bytes, &comm_),
          "nvrar_prepare");
  try {
    const std::vector<Descriptor> all = team->exchange(mine);
    require(nvrar_connect(comm_, all[0].bytes), "nvrar_connect");
    team->meet();
  } catch (...) {
    nvrar_destroy(comm_);
    throw;
  }
}

Communicator::~Communicator() { nvrar_destroy(comm_); }

void Communicator::call(const Problem& p, const Buffers& at, uint64_t stream) {
  if (p.form != 0) return fused_call(p, at, stream);
  switch (p.collective) {
    case Collective::kAllReduce:
      return require(nvrar_all_reduce(comm_, at.send, at.recv, p.count, p.data_type, p.op, algorithm_, stream),
                     "nvrar_all_reduce");
    case Collective::kReduce:
      return require(nvrar_reduce(comm_, at.send, at.recv, p.count, p.data_type, p.op, p.root, stream), "nvrar_reduce");
    case Collective::kBroadcast:
      return require(nvrar_broadcast(comm_, at.send, at.recv, p.count, p.data_type, p.root, stream), "nvrar_broadcast");
    case Collective::kAllGather:
      return require(nvrar_all_gather(comm_, at.send, at.recv, p.count, p.data_type, stream), "nvrar_all_gather");
    case Collective::kReduceScatter:
      return require(nvrar_reduce_scatter(comm_, at.send, at.recv, p.count, p.data_type, p.op, stream),
                     "nvrar_reduce_scatter");
    case Collective::kAllToAll:
      return require(nvrar_all_to_all(comm_, at.send, at.recv, p.count, p.data_type, stream), "nvrar_all_to_all");
    case Collective::kSendReceive: {
      const nvrar_transfer transfers[] = {
          {sizeof(nvrar_transfer), NVRAR_SEND, (rank_ + 1) % p.world, p.data_type, at.send, p.count},
          {sizeof(nvrar_transfer), NVRAR_RECV, (rank_ + p.world - 1) % p.world, p.data_type, at.recv, p.count},
      };
      return require(nvrar_batch(comm_, transfers, 2, stream), "nvrar_batch");
    }
    case Collective::kBarrier:
      return barrier(stream);
  }
}

void Communicator::fused_call(const Problem& p, const Buffers& at, uint64_t stream) {
  nvrar_fused_all_reduce call{};
  call.size = sizeof call;
  call.form = p.form;
  call.data_type = p.data_type;
  call.algorithm = algorithm_;
  call.rows = p.rows();
  call.hidden = p.hidden;
  call.eps = p.eps();
  call.input = at.send;
  call.residual = at.residual;
  call.weight = at.weight;
  call.residual_out = at.residual_out;
  call.output = at.recv;
  call.squares = at.squares;
  require(nvrar_all_reduce_fused(comm_, &call, stream), "nvrar_all_reduce_fused");
}

void Communicator::use(Collective collective, const Point& point) {
  const nvrar_tuning_rule rule = rule_of(code_of(collective), point.algorithm, ~uint64_t{0}, point.blocks, point.tiles);
  require(nvrar_set_tuning(comm_, &rule, 1), "nvrar_set_tuning");
}

void Communicator::barrier(uint64_t stream) { require(nvrar_barrier(comm_, stream), "nvrar_barrier"); }

void Communicator::check(uint64_t stream) {
  if (nvrar_async_error(comm_) == NVRAR_OK) return;
  // Any further call of a failed communicator reports the failure.
  require(nvrar_barrier(comm_, stream), "a call that was enqueued");
}

}  // namespace nvrar::bench
