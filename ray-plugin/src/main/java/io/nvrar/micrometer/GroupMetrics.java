package io.nvrar.micrometer;

import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.binder.MeterBinder;
import io.nvrar.CollectiveException;
import io.nvrar.CollectiveGroup;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Consumer;

/**
 * The metrics of one member of a group: its calls and their durations, for whom it has waited, and
 * whether the group has failed. Every meter has the tags {@code group} and {@code rank}; <a
 * href="https://github.com/ray-nvrar/ray-nvrar/blob/main/docs/guides/operations.md">docs/guides/operations.md</a>
 * lists them.
 *
 * <p>Calls do not become slower by it: the library counts them anyway ({@link
 * CollectiveGroup#statistics}), and a meter reads its numbers when the registry asks for it. There
 * is a meter for every collective, type and peer from the start, at 0 until there is something to
 * count.
 *
 * <pre>{@code
 * try (CollectiveGroup tp = Groups.join(ticket, rank);
 *     GroupMetrics metrics = new GroupMetrics(tp)) {
 *   metrics.bindTo(registry);
 *   decode(tp);
 * }
 * }</pre>
 *
 * <p>Close it together with the group, so that a registry does not keep the meters of a group that
 * no longer exists. If a new group of the same name and rank is bound before that, its meters take
 * the place of the former group's, and closing the former metrics leaves them. Any thread may call.
 * The registries keep only weak references to the group.
 */
public final class GroupMetrics implements MeterBinder, AutoCloseable {
  private final CollectiveGroup group;
  private final FailureCount failures = new FailureCount();
  private final Consumer<CollectiveException> listener = failures::add;
  private final List<GroupMeters> bound = new CopyOnWriteArrayList<>();

  /**
   * Metrics of this process's member of a group. If that has just failed, waits for its flight
   * record, at most 250 ms.
   */
  public GroupMetrics(CollectiveGroup group) {
    this.group = group;
    group.addFailureListener(listener);
  }

  /** Adds the meters to a registry. */
  @Override
  public void bindTo(MeterRegistry registry) {
    bound.add(new GroupMeters(registry, group, failures));
  }

  /** Removes the meters from their registries. Idempotent. */
  @Override
  public void close() {
    group.removeFailureListener(listener);
    for (GroupMeters meters : bound) {
      meters.remove();
    }
    bound.clear();
  }
}
