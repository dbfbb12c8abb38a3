package io.nvrar.internal.group;

import io.nvrar.Algorithm;
import io.nvrar.Collective;
import io.nvrar.DataType;
import io.nvrar.GroupHealth;
import io.nvrar.LastCall;
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
import java.util.function.Predicate;
import java.util.stream.Stream;
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

  private static LastCall lastCall(CallRecord call) {
    return new LastCall(
        LastCall.State.valueOf(call.state().name()),
        find(Collective.values(), collective -> collective.code() == call.collective()),
        call.sequence(),
        find(DataType.values(), type -> type.name().toLowerCase(Locale.ROOT).equals(call.type())),
        call.elements(),
        call.algorithm() == Algorithm.AUTO.code()
            ? null
            : find(Algorithm.values(), algorithm -> algorithm.code() == call.algorithm()),
        call.peer(),
        nanos(call),
        call.description());
  }

  // The library's times are of the clock that System.nanoTime shows on Linux.
  private static long nanos(CallRecord call) {
    if (call.beginNanos() == 0) {
      return -1;
    }
    long end = call.endNanos() == 0 ? System.nanoTime() : call.endNanos();
    return Math.max(0, end - call.beginNanos());
  }

  private static <T> @Nullable T find(T[] values, Predicate<T> isIt) {
    return Stream.of(values).filter(isIt).findFirst().orElse(null);
  }
}
