package io.nvrar.internal.group;

import io.nvrar.internal.binding.NativeCommunicator;
import io.nvrar.internal.channel.RankZeroView;
import io.nvrar.internal.wire.Hosts;

/** What rank 0's member sees of its group, for the hub in the same process. */
final class GroupView implements RankZeroView {
  private final NativeCommunicator communicator;
  private final MemberFailures failure;
  private final Hosts hosts;
  private final int worldSize;
  private final boolean isAloneOnHost;

  GroupView(NativeCommunicator communicator, MemberFailures failure, Hosts hosts, int worldSize) {
    this.communicator = communicator;
    this.failure = failure;
    this.hosts = hosts;
    this.worldSize = worldSize;
    isAloneOnHost = hosts.elsewhere(0).cardinality() == worldSize - 1;
  }

  @Override
  public String activities() {
    // On the hub's thread, which cannot wait for the answers: they are those of the time before,
    // or come with the failure.
    communicator.refresh(false);
    return Activities.ofAll(communicator, worldSize);
  }

  @Override
  public String flightRecord(boolean isRankZeroLost) {
    return isRankZeroLost && isAloneOnHost ? "" : failure.recordPlace(hosts);
  }
}
