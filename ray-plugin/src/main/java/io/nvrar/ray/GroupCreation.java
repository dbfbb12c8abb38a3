package io.nvrar.ray;

import io.nvrar.CollectiveTimeoutException;
import io.nvrar.GroupConfig;
import io.nvrar.internal.wire.ConfigCodec;
import io.nvrar.internal.wire.Phrases;
import io.nvrar.standalone.GroupObserver;
import io.nvrar.standalone.GroupTicket;
import io.nvrar.standalone.Groups;
import io.ray.api.ActorHandle;
import io.ray.api.ObjectRef;
import io.ray.api.Ray;
import io.ray.api.WaitResult;
import io.ray.api.id.ActorId;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/**
 * The driver's part of creating one group. Rank 0 creates a ticket, whose {@link ObjectRef} is an
 * argument of every join task, so that Ray carries it to the members. The driver then waits for all
 * tasks together, so that it notices the death of one actor at once although the others still wait
 * for it.
 */
final class GroupCreation {

  /** How long the tasks may take to reach their actors, in addition to the join timeout. */
  static final int MARGIN_SECONDS = 10;

  /**
   * How long a failed creation waits for its members to leave. An actor that is busy longer leaves
   * later.
   */
  private static final int LEAVE_SECONDS = 5;

  /**
   * How long a failed creation that has no observer yet waits for the ticket, and for observing.
   */
  private static final int LATE_MILLIS = 1_000;

  /** {@link #LEAVE_SECONDS}, plus the time that getting and closing the observer may take. */
  static final int UNDO_SECONDS = LEAVE_SECONDS + 4;

  private final String name;
  private final List<ActorHandle<? extends CollectiveActor>> actors;
  private final GroupConfig config;
  private final CreationFailures failures;

  /** The driver's observer of the group; null until rank 0 has created a ticket. */
  private @Nullable GroupObserver observer;

  GroupCreation(
      String name,
      List<? extends ActorHandle<? extends CollectiveActor>> actors,
      GroupConfig config) {
    if (name.isBlank()) {
      throw new IllegalArgumentException("the group's name is empty");
    }
    if (actors.isEmpty() || actors.size() > Groups.MAX_WORLD_SIZE) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "a group has 1 to %d members, '%s' was given %d actors",
              Groups.MAX_WORLD_SIZE,
              name,
              actors.size()));
    }
    Map<ActorId, Integer> ranks = new HashMap<>();
    for (int rank = 0; rank < actors.size(); rank++) {
      Integer other = ranks.put(actors.get(rank).getId(), rank);
      if (other != null) {
        throw new IllegalArgumentException(
            String.format(
                Locale.ROOT,
                "ranks %d and %d of group '%s' are the same actor",
                other,
                rank,
                name));
      }
    }
    this.name = name;
    this.actors = List.copyOf(actors);
    this.config = Objects.requireNonNull(config, "config");
    this.failures = new CreationFailures(name);
  }

  RayCollectiveGroup run() {
    DriverChecks.warn();
    DriverChecks.requireCollective(name, actors);
    DriverChecks.requireAlive(name, actors);
    ObjectRef<byte[]> ticket =
        MemberTasks.createTicket(actors.get(0), name, actors.size(), ConfigCodec.encode(config));
    List<ObjectRef<Object>> joins = new ArrayList<>();
    try {
      for (int rank = 0; rank < actors.size(); rank++) {
        joins.add(untyped(MemberTasks.join(actors.get(rank), name, ticket, rank)));
      }
      await(ticket, joins);
      GroupObserver observing = observer;
      if (failures.isEmpty() && observing != null) {
        return new RayCollectiveGroup(observing, actors, ticket);
      }
    } catch (RuntimeException | Error e) {
      undoAfter(e, ticket);
      throw e;
    }
    undo(ticket);
    collect(joins);
    throw failures.mostTelling();
  }

  /** Waits until all tasks have ended or one has failed; adds failures to {@link #failures}. */
  private void await(ObjectRef<byte[]> ticket, List<ObjectRef<Object>> joins) {
    ObjectRef<Object> ticketTask = untyped(ticket);
    List<ObjectRef<Object>> pending = new ArrayList<>(joins);
    pending.add(ticketTask);
    Duration limit = config.joinTimeout().plusSeconds(MARGIN_SECONDS);
    long deadline = System.nanoTime() + limit.toNanos();
    while (!pending.isEmpty() && failures.isEmpty()) {
      WaitResult<Object> result = DriverWaits.forOne(pending, deadline, what());
      if (result.getReady().isEmpty()) {
        failures.add(timeout(limit, joins, pending));
        break;
      }
      for (ObjectRef<Object> done : result.getReady()) {
        take(done, done == ticketTask, joins, deadline);
      }
      pending = result.getUnready();
    }
  }

  private void take(
      ObjectRef<Object> done, boolean isTicket, List<ObjectRef<Object>> joins, long deadlineNanos) {
    Object value;
    try {
      value = done.get();
    } catch (RuntimeException e) {
      failures.add(Math.max(0, joins.indexOf(done)), e);
      return;
    }
    if (isTicket) {
      try {
        // From here on the driver can abort the joins, and its death ends them.
        observer =
            Groups.observe(
                GroupTicket.of((byte[]) value),
                Duration.ofNanos(Math.max(0, deadlineNanos - System.nanoTime())));
      } catch (RuntimeException e) {
        if (Thread.currentThread().isInterrupted()) {
          throw DriverWaits.interrupted(what());
        }
        failures.add(e);
      }
    }
  }

  private String what() {
    return "created group '" + name + "'";
  }

  private CollectiveTimeoutException timeout(
      Duration limit, List<ObjectRef<Object>> joins, List<ObjectRef<Object>> pending) {
    int[] missing =
        IntStream.range(0, joins.size()).filter(i -> pending.contains(joins.get(i))).toArray();
    return new CollectiveTimeoutException(
        String.format(
            Locale.ROOT,
            "%s of group '%s' did not join within %d s: is the actor busy with another task, or not yet started?",
            Phrases.ranks(missing),
            name,
            limit.toSeconds()),
        missing);
  }

  /** Calls {@link #undo} and adds its failure to {@code reason} as suppressed. */
  private void undoAfter(Throwable reason, ObjectRef<byte[]> ticket) {
    try {
      undo(ticket);
    } catch (RuntimeException | Error e) {
      reason.addSuppressed(e);
    }
  }

  private void undo(ObjectRef<byte[]> ticket) {
    GroupObserver observing = observer == null ? observeLate(ticket) : observer;
    if (observing != null) {
      observing.abort("the driver gave up creating the group");
      observing.close();
    }
    // Without a ticket these tasks fail on their argument, and there is nothing to undo.
    List<ObjectRef<Boolean>> undone = MemberTasks.leave(actors, name, ticket);
    Ray.wait(undone, undone.size(), 1_000 * LEAVE_SECONDS);
  }

  /**
   * Observes a group whose creation has failed before the driver had its ticket: members that have
   * joined wait for the others until they are told.
   *
   * @return null if there is nobody to tell
   */
  private static @Nullable GroupObserver observeLate(ObjectRef<byte[]> ticket) {
    if (Ray.wait(List.of(ticket), 1, LATE_MILLIS).getReady().isEmpty()) {
      return null;
    }
    boolean interrupted = Thread.interrupted(); // which would end the observer's join
    try {
      return Groups.observe(GroupTicket.of(ticket.get()), Duration.ofMillis(LATE_MILLIS));
    } catch (RuntimeException e) {
      return null; // the reason why the creation fails is the one to tell
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  /** Adds the failures of the joins that have ended since the first failure was seen. */
  private void collect(List<ObjectRef<Object>> joins) {
    for (ObjectRef<Object> done : Ray.wait(joins, joins.size(), 0).getReady()) {
      try {
        done.get();
      } catch (RuntimeException e) {
        failures.add(joins.indexOf(done), e);
      }
    }
  }

  /**
   * Gives tasks of different result types one type, for one wait over all of them; safe because the
   * values are only read.
   */
  @SuppressWarnings("unchecked")
  private static ObjectRef<Object> untyped(ObjectRef<?> ref) {
    return (ObjectRef<Object>) ref;
  }
}
