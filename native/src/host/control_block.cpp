#include "host/control_block.h"

namespace nvrar::host {

void CallRecord::begin(const Call& call, uint64_t sequence, int32_t state) noexcept {
  const uint32_t version = version_.load(std::memory_order_relaxed);
  version_.store(version + 1, std::memory_order_relaxed);
  state_.store(state, std::memory_order_release);
  sequence_.store(sequence, std::memory_order_release);
  count_.store(call.count, std::memory_order_release);
  collective_.store(call.collective, std::memory_order_release);
  data_type_.store(call.data_type, std::memory_order_release);
  op_.store(call.op, std::memory_order_release);
  root_.store(call.root, std::memory_order_release);
  version_.store(version + 2, std::memory_order_release);
}

nvrar_call CallRecord::read() const noexcept {
  nvrar_call call{};
  call.size = sizeof call;
  for (int tries = 0; tries < 1000; ++tries) {
    const uint32_t before = version_.load(std::memory_order_acquire);
    call.state = state_.load(std::memory_order_acquire);
    call.sequence = sequence_.load(std::memory_order_acquire);
    call.count = count_.load(std::memory_order_acquire);
    call.collective = collective_.load(std::memory_order_acquire);
    call.data_type = data_type_.load(std::memory_order_acquire);
    call.op = op_.load(std::memory_order_acquire);
    call.root = root_.load(std::memory_order_acquire);
    if (before % 2 == 0 && before == version_.load(std::memory_order_relaxed)) break;
  }
  return call;
}

}  // namespace nvrar::host
