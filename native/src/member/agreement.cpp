#include "member/agreement.h"

#include <string>

#include "common/error.h"
#include "plan/gpu_limits.h"

namespace nvrar {
namespace {

// How a difference is told.
enum class Told : uint8_t {
  kValues,    // "rank 1 has WHAT 2, this rank (0) has 1"
  kPrepared,  // "rank 1 was prepared with another WHAT than this rank (0)"
  kGroup,     // "the group is VALUE on rank 1 and VALUE on this rank (0)"
  kGpus,      // "rank 1's GPU WHAT, this rank's (0) has 132: a group needs GPUs of one kind"; % in WHAT is the value
};

struct Row {
  Told told;
  const char* what;
  std::string (*value)(const Descriptor&);
  bool of_gpus = false;
  bool of_peers = false;  // the caller checks this member's own
};

template <auto kField>
std::string number(const Descriptor& of) {
  return std::to_string(of.*kField);
}

// The table, in the order in which differences are told.
constexpr Row kRows[] = {
    {Told::kValues, "ABI version", number<&Descriptor::abi_version>},
    {Told::kValues, "library build", [](const Descriptor& of) { return std::string(of.build_id); }},
    {Told::kValues, "backend", number<&Descriptor::backend>},
    {Told::kValues, "world size", number<&Descriptor::world>},
    {Told::kPrepared, "unique id", number<&Descriptor::group_hash>},
    {Told::kValues, "ring_bytes", number<&Descriptor::ring_bytes>},
    {Told::kValues, "ranks_per_node", number<&Descriptor::ranks_per_node>},
    {Told::kValues, "link_address", [](const Descriptor& of) { return std::string(of.link.exists() ? "one" : "none"); },
     false, true},
    // With an honest peer this follows from the rows above. It is here because stores at this member's offsets must lie
    // inside the peer's segment.
    {Told::kValues, "segment bytes", [](const Descriptor& of) { return std::to_string(of.segment.bytes); }},
    {Told::kPrepared, "tuning table", number<&Descriptor::tuning_hash>},
    {Told::kValues, "link_security", number<&Descriptor::link_security>},
    {Told::kValues, "links", number<&Descriptor::links>},
    // By it messages between hosts are divided.
    {Told::kValues, "link_threads",
     [](const Descriptor& of) { return std::to_string(of.link.exists() ? of.link_threads : 0); }, true},
    // From here on: how a call runs on GPUs, and how many blocks a launch may have.
    {Told::kGpus, "has compute capability %",
     [](const Descriptor& of) { return cuda::capability_text(of.compute_capability); }, true},
    {Told::kGpus, "has % multiprocessors", number<&Descriptor::multiprocessors>, true},
    {Told::kGpus, "holds % blocks per multiprocessor", number<&Descriptor::places_per_multiprocessor>, true},
    {Told::kGpus, "has % blocks in a cluster", number<&Descriptor::most_in_cluster>, true},
    {Told::kGroup, "",
     [](const Descriptor& of) { return std::string(of.exclusive != 0 ? "exclusive" : "not exclusive"); }, true},
    {Told::kValues, "concurrent_groups", number<&Descriptor::concurrent_groups>, true},
};

Error difference(const Row& row, const std::string& who, const std::string& self, const std::string& theirs,
                 const std::string& ours) {
  const std::string what = row.what;
  switch (row.told) {
    case Told::kValues:
      return Error(NVRAR_MISMATCH, who + " has " + what + " " + theirs + ", this rank (" + self + ") has " + ours);
    case Told::kPrepared:
      return Error(NVRAR_MISMATCH, who + " was prepared with another " + what + " than this rank (" + self + ")");
    case Told::kGroup:
      return Error(NVRAR_MISMATCH,
                   "the group is " + theirs + " on " + who + " and " + ours + " on this rank (" + self + ")");
    case Told::kGpus:
      break;
  }
  const size_t value = what.find('%');
  const std::string verb = what.substr(0, what.find(' '));
  const std::string has = what.substr(0, value) + theirs + what.substr(value + 1);
  return Error(NVRAR_MISMATCH, who + "'s GPU " + has + ", this rank's (" + self + ") " + verb + " " + ours +
                                   ": a group needs GPUs of one kind");
}

}  // namespace

void require_agreement(uint32_t rank, const Descriptor& peer, const Descriptor& own) {
  for (const Row& row : kRows) {
    if (row.of_gpus && own.backend != NVRAR_BACKEND_CUDA) continue;
    if (row.of_peers && rank == own.rank) continue;
    const std::string theirs = row.value(peer);
    const std::string ours = row.value(own);
    if (theirs == ours) continue;
    const std::string who = "rank " + std::to_string(rank);
    const std::string self = std::to_string(own.rank);
    throw difference(row, who, self, theirs, ours);
  }
}

}  // namespace nvrar
