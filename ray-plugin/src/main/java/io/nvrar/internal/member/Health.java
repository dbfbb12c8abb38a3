package io.nvrar.internal.member;

import io.nvrar.GroupHealth;
import io.nvrar.RankHealth;
import io.nvrar.internal.binding.CallRecord;
import io.nvrar.internal.binding.NativeCommunicator;
import io.nvrar.internal.wire.Message;
import io.nvrar.internal.wire.ProcessIdentity;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import java.util.function.IntPredicate;
import org.jspecify.annotations.Nullable;

/** Builds a member's health report from what it knows already. */
final class Health {
  private Health() {}

  /**
   * The health of the group as this member knows it.
   *
   * @param rank the rank of this member
   * @param failure why its group has failed; null if it has not
   * @param hasClosed whether a rank is known to have closed
   * @param hubSilentNanos how long rank 0 has been silent, the only rank with whose process this
   *     member has a control channel
   */
  static GroupHealth of(
      NativeCommunicator comm,
      int rank,
      Message.Members members,
      @Nullable String failure,
      IntPredicate hasClosed,
      long hubSilentNanos) {
    List<RankHealth> ranks = new ArrayList<>();
    for (int r = 0; r < members.inRankOrder().length; r++) {
      ProcessIdentity process = members.inRankOrder()[r].process();
      CallRecord last = comm.call(r);
      long silentMillis =
          r == rank ? 0 : r == 0 ? TimeUnit.NANOSECONDS.toMillis(hubSilentNanos) : -1;
      ranks.add(
          new RankHealth(
              r,
              process.host(),
              process.pid(),
              lastCall(last),
              last.groupSequence(),
              hasClosed.test(r),
              silentMillis,
              comm.link(r)));
    }
    return new GroupHealth(failure, ranks);
  }

  private static String lastCall(CallRecord call) {
    return switch (call.state()) {
      case NONE -> "no call yet";
      case UNKNOWN -> "unknown, on another host";
      default -> call.description() + ", " + call.state().name().toLowerCase(Locale.ROOT);
    };
  }
}
