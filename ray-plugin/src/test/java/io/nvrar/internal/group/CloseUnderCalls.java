package io.nvrar.internal.group;

import io.nvrar.Backend;
import io.nvrar.CollectiveException;
import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.standalone.Members;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.jspecify.annotations.Nullable;

/**
 * Groups whose members are closed while threads are in all kinds of their calls: a JVM of its own,
 * because it dies if one of them touches freed memory. Prints how many calls it made, and how many
 * were refused.
 *
 * <p>Arguments: how many groups, and a seed.
 */
public final class CloseUnderCalls {
  private static final int WORLD_SIZE = 2;

  private final AtomicLong made = new AtomicLong();
  private final AtomicLong refused = new AtomicLong();

  private CloseUnderCalls() {}

  public static void main(String[] arguments) throws Exception {
    CloseUnderCalls run = new CloseUnderCalls();
    Random random = new Random(Long.parseLong(arguments[1]));
    for (int round = 0; round < Integer.parseInt(arguments[0]); round++) {
      run.round(round, random);
    }
    System.out.println("MADE " + run.made + " REFUSED " + run.refused);
  }

  private void round(int round, Random random) throws Exception {
    Members members =
        Members.join(
            "under-calls-" + round,
            WORLD_SIZE,
            Members.config().backend(Backend.CPU).timeout(Duration.ofSeconds(5)).build());
    List<Future<?>> callers = new ArrayList<>();
    AtomicInteger calling = new AtomicInteger();
    for (int rank = 0; rank < WORLD_SIZE; rank++) {
      CollectiveGroup group = members.rank(rank);
      callers.add(members.start(untilClosed(calling, () -> allReduce(group))));
      callers.add(members.start(untilClosed(calling, () -> look(group))));
      callers.add(members.start(untilClosed(calling, () -> collide(group))));
    }
    while (calling.get() < callers.size()) {
      Thread.onSpinWait();
    }
    long pause = random.nextInt(2_000_000);
    long begin = System.nanoTime();
    while (System.nanoTime() - begin < pause) {
      Thread.onSpinWait();
    }
    List<Future<?>> closing = new ArrayList<>();
    boolean aborts = random.nextInt(4) == 0;
    for (int rank = 0; rank < WORLD_SIZE; rank++) {
      MemberGroup group = (MemberGroup) members.rank(rank);
      long orderly = random.nextBoolean() ? TimeUnit.SECONDS.toNanos(1) : 0;
      if (aborts && rank == 0) {
        closing.add(members.start(() -> done(() -> group.abort("by the test"))));
      }
      closing.add(members.start(() -> done(() -> group.close(orderly))));
    }
    for (Future<?> each : closing) {
      each.get(30, TimeUnit.SECONDS);
    }
    for (Future<?> each : callers) {
      each.get(30, TimeUnit.SECONDS);
    }
    members.close();
  }

  private static @Nullable Void done(Runnable work) {
    work.run();
    return null;
  }

  /** Repeats calls until the group refuses them. */
  private Callable<Void> untilClosed(AtomicInteger calling, Callable<Boolean> call) {
    return () -> {
      calling.incrementAndGet();
      while (call.call()) {
        made.incrementAndGet();
      }
      refused.incrementAndGet();
      return done(() -> {});
    };
  }

  private static boolean allReduce(CollectiveGroup group) {
    try (DeviceBuffer buffer = group.device().allocate(DataType.FLOAT32, 64)) {
      float[] values = new float[64];
      values[0] = 1;
      buffer.copyFrom(values);
      group.allReduce(buffer);
      buffer.copyTo(values);
      if (values[0] != WORLD_SIZE) {
        throw new AssertionError("the sum is " + values[0]);
      }
      return true;
    } catch (CollectiveException e) {
      return false;
    } catch (IllegalStateException e) {
      return isBusy(e);
    }
  }

  /** Whether another thread was in a call, which says nothing of the group. */
  private static boolean isBusy(IllegalStateException e) {
    return !String.valueOf(e.getMessage()).contains("can make no more calls");
  }

  /** A call that is refused where another one runs, and does not keep the others from theirs. */
  private static boolean collide(CollectiveGroup group) {
    try (DeviceBuffer buffer = group.device().allocate(DataType.FLOAT32, 1)) {
      group.reduce(buffer, -1);
      throw new AssertionError("there is no root -1");
    } catch (CollectiveException e) {
      return false;
    } catch (IllegalStateException e) {
      return isBusy(e);
    } catch (IllegalArgumentException e) {
      return true;
    }
  }

  /** What may be asked at any time, also of a closed group. */
  private static boolean look(CollectiveGroup group) {
    boolean closed = group.isClosed();
    group.health();
    group.statistics();
    return group.failure() == null && !closed;
  }
}
