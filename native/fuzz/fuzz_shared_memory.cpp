// Fuzzes the memory of a peer that this process reads: a flight record and a poison word of any content are read within
// bounds, and every message about them is printable.
#include <fuzzer/FuzzedDataProvider.h>
#include <nvrar.h>

#include <memory>
#include <vector>

#include "api/report.h"
#include "call/call.h"
#include "property.h"
#include "shared/control_block.h"
#include "shared/flight_record.h"

namespace nvrar::fuzz {
namespace {

using shared::FlightEntry;
using shared::FlightRecord;

// The first bytes of a record come from the input; the rest, and so most entries, was never written.
void overlay(FuzzedDataProvider& input, FlightRecord* record) {
  auto* bytes = reinterpret_cast<uint8_t*>(record);
  std::memset(static_cast<void*>(record), 0, sizeof *record);
  const uint64_t written = input.ConsumeBool() ? input.ConsumeIntegralInRange<uint64_t>(0, 2 * NVRAR_FLIGHT_RECORDS)
                                               : input.ConsumeIntegral<uint64_t>();
  std::memcpy(bytes, &written, sizeof written);
  constexpr size_t kEntries = sizeof(FlightEntry);  // the entries begin on the next line
  for (uint32_t back = 1; back <= 4; ++back) {
    const uint64_t number = written - back;
    uint8_t* entry = bytes + kEntries + number % NVRAR_FLIGHT_RECORDS * sizeof(FlightEntry);
    const auto content = input.ConsumeBytes<uint8_t>(sizeof(FlightEntry));
    std::copy(content.begin(), content.end(), entry);
    if (input.ConsumeProbability<float>() < 0.9F) {  // a version that passes for whole
      const auto whole = static_cast<uint32_t>(2 * (number / NVRAR_FLIGHT_RECORDS) + 2);
      std::memcpy(entry, &whole, sizeof whole);
    }
  }
}

void require_reads(const FlightRecord& record, const TickClock& clock, uint32_t capacity) {
  // Exactly as long as asked for, so that the address sanitizer sees a step beyond.
  const std::unique_ptr<nvrar_call[]> out(new nvrar_call[capacity]);
  const uint32_t count = record.read(clock, out.get(), capacity);
  require(count <= capacity && count <= NVRAR_FLIGHT_RECORDS, "a record gives what was asked for at most");
  for (uint32_t i = 0; i < count; ++i) require_sentence(describe(out[i]).c_str());
}

void try_memory(FlightRecord* record, const TickClock& clock, const uint8_t* data, size_t size) {
  FuzzedDataProvider input(data, size);
  overlay(input, record);
  require_reads(*record, clock, input.ConsumeIntegralInRange<uint32_t>(0, 8));

  std::vector<RankActivity> ranks(input.ConsumeIntegralInRange<size_t>(1, NVRAR_MAX_RANKS_PER_NODE));
  for (RankActivity& rank : ranks) {
    rank.call = record->last(clock);
    rank.known = input.ConsumeBool();
    rank.closed = input.ConsumeBool();
    if (input.ConsumeBool()) rank.call.sequence = input.ConsumeIntegral<uint64_t>();
  }
  const auto own = input.ConsumeIntegralInRange<uint32_t>(0, static_cast<uint32_t>(ranks.size()) - 1);
  const auto word = input.ConsumeIntegral<uint64_t>();
  RankSet::Words concerned{};
  for (uint64_t& bits : concerned) bits = input.ConsumeIntegral<uint64_t>();
  const shared::Poison poison = shared::Poison::of(word, RankSet(concerned));
  require((word == 0) == (poison.status == NVRAR_OK), "a poison word is a failure");
  const std::string running = input.ConsumeBool() ? describe(ranks[own].call) : "";
  const std::string sentence = describe_failure(poison, own, running, input.ConsumeIntegral<uint64_t>(), ranks);
  require_sentence(sentence.c_str());
}

}  // namespace
}  // namespace nvrar::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto record = std::make_unique<nvrar::shared::FlightRecord>();
  static const nvrar::TickClock clock;
  nvrar::fuzz::try_memory(record.get(), clock, data, size);
  return 0;
}
