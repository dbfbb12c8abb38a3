// Fuzzes the unique id, config and tuning table that a hostile ticket could hold: nvrar_prepare creates a member or
// refuses with a sentence, and allocates no more memory than the requested rings.
#include <fuzzer/FuzzedDataProvider.h>
#include <nvrar.h>

#include <array>
#include <cstring>
#include <vector>

#include "common/abi_struct.h"
#include "plan/tuning.h"
#include "property.h"

namespace nvrar::fuzz {
namespace {

constexpr uint32_t kChecksEvery = 1024;
constexpr uint64_t kRingBytesMax = 65536;  // what is refused is the same beyond; what is not would only be slow

nvrar_tuning_rule rule_of(FuzzedDataProvider& input) {
  nvrar_tuning_rule rule{};
  rule.size = sizeof rule;
  rule.collective = input.ConsumeBool() ? input.ConsumeIntegralInRange(-1, 10) : NVRAR_ALL_REDUCE;
  rule.data_type = input.ConsumeBool() ? input.ConsumeIntegralInRange(-2, 11) : input.ConsumeIntegral<int32_t>();
  rule.world_size = input.ConsumeBool() ? input.ConsumeIntegralInRange(-1, 9) : input.ConsumeIntegral<int32_t>();
  rule.ranks_per_node = input.ConsumeBool() ? input.ConsumeIntegralInRange(-1, 9) : input.ConsumeIntegral<int32_t>();
  rule.algorithm = input.ConsumeBool() ? input.ConsumeIntegralInRange(-1, 4) : input.ConsumeIntegral<int32_t>();
  rule.bytes_max = input.ConsumeIntegral<uint64_t>();
  if (input.ConsumeBool()) {
    rule.architecture = input.ConsumeIntegralInRange(-1, 120);
    rule.blocks = input.ConsumeIntegralInRange(0U, 2U * NVRAR_MAX_RULE_BLOCKS);
    rule.threads = input.ConsumeIntegralInRange(0U, 40U) * 32;
    rule.tiles = input.ConsumeIntegralInRange(0U, 2U * NVRAR_MAX_RULE_TILES);
  }
  return rule;
}

nvrar_config config_of(FuzzedDataProvider& input) {
  nvrar_config config{};
  config.size = input.ConsumeProbability<float>() < 0.8F ? uint32_t{sizeof config}
                : input.ConsumeBool()                    ? input.ConsumeIntegralInRange(0U, 2 * kMostStructBytes)
                                                         : input.ConsumeIntegral<uint32_t>();
  config.backend = input.ConsumeProbability<float>() < 0.9F ? NVRAR_BACKEND_CPU : input.ConsumeIntegral<int32_t>();
  config.world_size = input.ConsumeIntegralInRange(-1, 9);
  config.rank = input.ConsumeIntegralInRange(-1, 9);
  config.device = input.ConsumeIntegral<int32_t>();
  config.ranks_per_node = input.ConsumeBool() ? input.ConsumeIntegralInRange(-1, 9) : input.ConsumeIntegral<int32_t>();
  config.ring_bytes = input.ConsumeIntegral<uint64_t>();
  if (config.ring_bytes == 0 || (config.ring_bytes > kRingBytesMax && config.ring_bytes <= uint64_t{1} << 30)) {
    config.ring_bytes = (config.ring_bytes % (kRingBytesMax / 4096) + 1) * 4096;
  }
  config.timeout_ns = input.ConsumeIntegral<uint64_t>();
  config.memory = input.ConsumeBool() ? input.ConsumeIntegralInRange(-1, 4) : 0;
  config.concurrent_groups = input.ConsumeBool() ? input.ConsumeIntegral<uint32_t>() : 0;
  config.shared_devices = input.ConsumeBool() ? input.ConsumeIntegralInRange(0U, 2U) : 0;
  config.exclusive = input.ConsumeBool() ? input.ConsumeIntegralInRange(0U, 2U) : 0;
  config.programmatic_launch = input.ConsumeBool() ? input.ConsumeIntegralInRange(0U, 2U) : 0;
  config.reserved = input.ConsumeProbability<float>() < 0.9F ? 0 : input.ConsumeIntegral<uint32_t>();
  config.arena_bytes = input.ConsumeIntegral<uint64_t>();
  config.join_timeout_ns = input.ConsumeIntegral<uint64_t>();
  return config;
}

void try_prepare(const uint8_t* unique_id, const uint8_t* data, size_t size) {
  FuzzedDataProvider input(data, size);
  const nvrar_config config = config_of(input);
  // What a caller with a newer header may give: as long as its size says.
  std::array<uint8_t, kMostStructBytes> given{};
  std::memcpy(given.data(), &config, sizeof config);
  if (input.ConsumeBool()) given[input.ConsumeIntegralInRange<size_t>(sizeof config, given.size() - 1)] = 1;
  std::vector<nvrar_tuning_rule> rules(input.ConsumeIntegralInRange<size_t>(0, NVRAR_MAX_TUNING_RULES + 1));
  const size_t distinct = input.ConsumeIntegralInRange<size_t>(0, 4);
  for (size_t i = 0; i < rules.size(); ++i) {
    rules[i] = i < distinct || i == 0 ? rule_of(input) : rules[i - 1];
  }
  std::array<uint8_t, NVRAR_UNIQUE_ID_BYTES> id;
  std::copy(unique_id, unique_id + id.size(), id.begin());
  const auto patch = input.ConsumeRemainingBytes<uint8_t>();
  std::copy(patch.begin(), patch.begin() + static_cast<std::ptrdiff_t>(std::min(patch.size(), id.size())), id.begin());

  std::array<uint8_t, NVRAR_DESCRIPTOR_BYTES> descriptor;
  nvrar_comm* comm = nullptr;
  const nvrar_status status = nvrar_prepare(reinterpret_cast<const nvrar_config*>(given.data()), rules.data(),
                                            static_cast<uint32_t>(rules.size()), id.data(), descriptor.data(), &comm);
  if (status == NVRAR_OK) {
    const TuningTable table(rules);
    for (const uint64_t bytes : {uint64_t{1}, uint64_t{4096}, uint64_t{1} << 40}) {
      const auto world = static_cast<uint32_t>(config.world_size);
      const auto node = static_cast<uint32_t>(config.ranks_per_node);
      const bool one_node = node == 0 || node >= world;
      const nvrar_tuning_rule* const rule =
          table.match({NVRAR_ALL_REDUCE, NVRAR_ALGORITHM_AUTO, NVRAR_FLOAT32, bytes, world, one_node ? world : node});
      const int32_t algorithm = rule == nullptr ? NVRAR_ALGORITHM_AUTO : rule->algorithm;
      require(algorithm == NVRAR_ALGORITHM_AUTO || algorithm == NVRAR_ALGORITHM_ONE_SHOT ||
                  algorithm == NVRAR_ALGORITHM_TWO_SHOT || (algorithm == NVRAR_ALGORITHM_HIERARCHICAL && !one_node),
              "a table names an algorithm that the group has");
    }
    require(nvrar_destroy(comm) == NVRAR_OK, "a member can be destroyed");
    return;
  }
  require(comm == nullptr, "a refusal makes no member");
  require(status == NVRAR_INVALID_ARGUMENT || status == NVRAR_UNAVAILABLE || status == NVRAR_SYSTEM,
          "a refusal is the caller's mistake, no backend, or no room");
  require_sentence(nvrar_last_error());
}

}  // namespace
}  // namespace nvrar::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using nvrar::fuzz::Belongings;
  static uint8_t unique_id[NVRAR_UNIQUE_ID_BYTES];
  static const nvrar_status made = nvrar_unique_id(NVRAR_BACKEND_CPU, unique_id);
  nvrar::fuzz::require(made == NVRAR_OK, "an id can be made");
  static const Belongings before = Belongings::now();
  static uint32_t runs = 0;
  nvrar::fuzz::try_prepare(unique_id, data, size);
  if (++runs % nvrar::fuzz::kChecksEvery == 0) {
    Belongings::require_as(before);
  }
  return 0;
}
