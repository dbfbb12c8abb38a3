package io.nvrar.standalone;

import io.nvrar.CollectiveException;
import io.nvrar.internal.Monitor;
import io.nvrar.internal.channel.ControlChannel;
import io.nvrar.internal.channel.Dialer;
import io.nvrar.internal.channel.FramedChannel;
import io.nvrar.internal.channel.Handshake;
import io.nvrar.internal.channel.Sockets;
import io.nvrar.internal.wire.Failure;
import io.nvrar.internal.wire.GroupKeys;
import io.nvrar.internal.wire.GroupSpec;
import io.nvrar.internal.wire.Message;
import io.nvrar.internal.wire.Phrases;
import io.nvrar.internal.wire.ProcessIdentity;
import java.time.Duration;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;

/**
 * The implementation of {@link GroupObserver}: an observer's connection to the rendezvous, and what
 * it has received about the group.
 */
final class DriverObserver implements GroupObserver, ControlChannel.Listener {
  private static final long FOREVER = Long.MAX_VALUE;
  private static final long END_NANOS = TimeUnit.SECONDS.toNanos(2);

  private final GroupSpec spec;
  private final ControlChannel channel;
  private final Monitor monitor = new Monitor();

  // Guarded by the monitor.
  private @Nullable Failure failure;
  private boolean groupEnded;
  private boolean disconnected;
  private Message.@Nullable Members members;
  private boolean rankZeroClosing;
  private String activity = "";
  private long activityNanos;
  private boolean ended;

  /** Made beforehand, for a channel's thread that has no memory to make it. */
  private final Failure outOfMemory;

  private DriverObserver(GroupSpec spec, ControlChannel channel) {
    this.spec = spec;
    this.channel = channel;
    outOfMemory = endedBy(OutOfMemoryError.class.getName());
  }

  private Failure endedBy(String error) {
    return Failure.of(
        Failure.Kind.DRIVER,
        String.format(
            Locale.ROOT,
            "%s was aborted: the control thread of the driver (%s) was ended by %s",
            spec.label(),
            ProcessIdentity.current(),
            error));
  }

  static DriverObserver observe(GroupSpec spec, GroupKeys keys, Duration limit) {
    FramedChannel framed =
        new Dialer(spec, new Handshake(keys), Handshake.Role.OBSERVER, 0).dial(limit);
    ControlChannel channel = new ControlChannel(framed, spec);
    DriverObserver observer = new DriverObserver(spec, channel);
    channel.send(new Message.ObserverHello(ProcessIdentity.current()));
    channel.prepareLast(observer.outOfMemory);
    channel.start("nvrar-" + spec.name() + "-observer", observer);
    Sockets.keepFromPrograms(framed.channel());
    return observer;
  }

  @Override
  public String name() {
    return spec.name();
  }

  @Override
  public int worldSize() {
    return spec.worldSize();
  }

  @Override
  public @Nullable CollectiveException failure() {
    return monitor.locked(() -> failure == null ? null : failure.toException());
  }

  @Override
  public void abort(String reason) {
    Failure aborted =
        Failure.of(
            Failure.Kind.DRIVER,
            String.format(
                Locale.ROOT,
                "the driver (%s) aborted %s: %s",
                ProcessIdentity.current(),
                spec.label(),
                reason));
    if (record(aborted)) {
      channel.send(aborted);
    }
  }

  @Override
  public void destroy() {
    channel.send(new Message.Destroy());
    long joinNanos = spec.config().joinTimeout().toNanos();
    if (!await(() -> groupEnded || failure != null || disconnected || ended, joinNanos)) {
      abort("it was not closed within " + Phrases.seconds(spec.config().joinTimeout()));
    }
    // Rank 0 closes the channel when it has left; from then on the port can be used again.
    await(() -> disconnected || ended, END_NANOS);
    close();
  }

  @Override
  public void close() {
    channel.leave();
    await(() -> ended, END_NANOS);
  }

  /** Waits on the monitor; returns false on a timeout. An interrupt would abort the group. */
  private boolean await(BooleanSupplier condition, long nanos) {
    return monitor.awaitUninterruptibly(condition, System.nanoTime() + nanos);
  }

  private boolean record(Failure reason) {
    return monitor.locked(
        () -> {
          if (failure != null || groupEnded || ended) {
            return false;
          }
          monitor.update(() -> failure = reason);
          return true;
        });
  }

  @Override
  public void received(Message message) {
    if (message instanceof Failure reason) {
      record(reason);
    } else if (message instanceof Message.Members all) {
      monitor.update(() -> members = all);
    } else if (message instanceof Message.Activity seen) {
      monitor.update(
          () -> {
            activity = seen.sentence();
            activityNanos = System.nanoTime();
          });
    } else if (message instanceof Message.AllClosed
        || (message instanceof Message.Closing closing && closing.rank() == 0)) {
      // Rank 0 runs the rendezvous, so there is nothing to observe without it.
      monitor.update(
          () -> {
            groupEnded |= message instanceof Message.AllClosed;
            rankZeroClosing = true;
          });
    }
  }

  @Override
  public void lost(String why) {
    Failure loss = monitor.locked(() -> loss(why));
    monitor.update(
        () -> {
          groupEnded |= rankZeroClosing;
          disconnected = true;
        });
    record(loss);
  }

  @Override
  public void broken(Throwable e) {
    Failure reason = outOfMemory;
    if (!(e instanceof OutOfMemoryError)) {
      reason = endedBy(e.toString());
      channel.prepareLast(reason);
    }
    channel.sendLast();
    record(reason);
  }

  /** Called under the monitor. */
  private Failure loss(String why) {
    ProcessIdentity rankZero = ProcessIdentity.ofRankZero(spec, members);
    String lastSeen =
        activity.isEmpty()
            ? ""
            : String.format(
                Locale.ROOT,
                "; %d ms before%s",
                TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - activityNanos),
                activity.replaceFirst("; ", " "));
    return Failure.lost(
        0,
        rankZero,
        String.format(
            Locale.ROOT,
            "rank 0 (%s) of %s was lost: %s%s",
            rankZero,
            spec.label(),
            why,
            lastSeen));
  }

  @Override
  public long tick() {
    return FOREVER;
  }

  @Override
  public void ended() {
    monitor.update(() -> ended = true);
  }

  @Override
  public String toString() {
    return "observer of " + spec.label();
  }
}
