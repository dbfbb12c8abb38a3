#include "gpu/yardstick_peers.h"

#include <algorithm>
#include <stdexcept>

namespace nvrar::bench {

YardstickPeers::YardstickPeers(Team* team)
    : team_(team),
      ring_(yardstick::kRingBytes),
      epochs_(yardstick::kMaxBlocks * sizeof(uint32_t)),
      control_(yardstick::kControlBytes) {
  ring_.fill(0xFF);
  epochs_.fill(0);
  control_.fill(0);
  cuda::IpcMemoryHandle mine{};
  cuda::check(cuda::driver().cuIpcGetMemHandle(&mine, ring_.address()), "sharing the study's ring");
  const std::vector<cuda::IpcMemoryHandle> all = team_->exchange(mine);
  arguments_.rings[0] = ring_.address();
  for (int k = 1; k < team_->size(); ++k) {
    uint64_t address = 0;
    cuda::check(
        cuda::driver().cuIpcOpenMemHandle_v2(&address, all[static_cast<size_t>((team_->rank() + k) % team_->size())],
                                             cuda::kIpcLazyEnablePeerAccess),
        "mapping another rank's ring of the study");
    mapped_.push_back(address);
    arguments_.rings[k] = address;
  }
  arguments_.epoch = epochs_.address();
  arguments_.control = control_.address();
  arguments_.rank = static_cast<uint32_t>(team_->rank());
  team_->meet();
}

YardstickPeers::~YardstickPeers() {
  for (uint64_t ring : mapped_) (void)cuda::driver().cuIpcCloseMemHandle(ring);
  try {
    team_->meet();  // before a ring is freed that other ranks have mapped
  } catch (const std::exception&) {
    // Another rank has failed and reports it.
  }
}

void YardstickPeers::check() const {
  std::vector<uint8_t> control(sizeof(uint32_t));
  control_.read(&control);
  if (std::any_of(control.begin(), control.end(), [](uint8_t byte) { return byte != 0; })) {
    throw std::runtime_error("a kernel of the study has waited in vain for another rank");
  }
}

}  // namespace nvrar::bench
