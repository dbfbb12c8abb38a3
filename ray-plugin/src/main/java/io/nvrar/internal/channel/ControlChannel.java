package io.nvrar.internal.channel;

import io.nvrar.CollectiveException;
import io.nvrar.internal.CloseHelper;
import io.nvrar.internal.Daemon;
import io.nvrar.internal.wire.GroupSpec;
import io.nvrar.internal.wire.Message;
import io.nvrar.internal.wire.Phrases;
import java.io.IOException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.util.Objects;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A member's or an observer's end of the control channel: one thread that reads, sends heartbeats
 * and detects the hub's silence. It never blocks on anything except the socket.
 */
public final class ControlChannel {
  private static final Logger LOG = LoggerFactory.getLogger(ControlChannel.class);
  private static final long TURN_MAX_NANOS = TimeUnit.MILLISECONDS.toNanos(250);

  /** How long {@link #leave} waits until the last messages are written. */
  private static final long FAREWELL_NANOS = TimeUnit.MILLISECONDS.toNanos(500);

  /** Its methods are called on the channel's thread. */
  public interface Listener {
    /** A message of the hub, other than a heartbeat. */
    void received(Message message);

    /** The connection has ended or the hub is silent; called at most once. */
    void lost(String why);

    /**
     * Called once a turn.
     *
     * @return the longest time until the next turn, in nanoseconds
     */
    long tick();

    /**
     * The thread ends because of an error, such as an OutOfMemoryError of the application. Called
     * again after a pause if it throws, so it is idempotent, and begins with what needs no memory.
     */
    void broken(Throwable e);

    /** Called last, when the thread ends; called again after a pause if it throws. */
    void ended();
  }

  private final FramedChannel framed;
  private final Heartbeats heartbeats;
  private final String silence;
  private final Selector selector;
  private final ConcurrentLinkedQueue<Message> outbox = new ConcurrentLinkedQueue<>();
  private volatile boolean leaving;
  private volatile long lastHeardNanos = System.nanoTime();

  // Used by the thread only.
  private boolean connected = true;
  private long lastSentNanos;
  private @Nullable Throwable thrown;

  /** Takes ownership of {@code framed}, even if this fails. */
  public ControlChannel(FramedChannel framed, GroupSpec spec) {
    this.framed = framed;
    heartbeats = new Heartbeats(spec.config());
    silence = Heartbeats.SILENT + Phrases.seconds(spec.config().heartbeatLimit());
    Selector opened = null;
    try {
      opened = Selector.open();
      framed.channel().register(opened, SelectionKey.OP_READ);
      selector = opened;
    } catch (IOException e) {
      CloseHelper.closeQuietly(opened);
      CloseHelper.closeQuietly(framed);
      throw new CollectiveException("the control channel cannot be opened: " + e.getMessage(), e);
    }
  }

  public void start(String threadName, Listener listener) {
    // Made now: at the end there may be no memory for a lambda.
    Runnable breakOff = () -> listener.broken(Objects.requireNonNull(thrown));
    Runnable end =
        () -> {
          CloseHelper.closeQuietly(framed);
          CloseHelper.closeQuietly(selector);
          listener.ended();
        };
    try {
      Daemon.of(threadName, () -> run(listener, breakOff, end)).start();
    } catch (RuntimeException | Error e) { // for example, no thread could be started
      end.run();
      throw e;
    }
  }

  /** How long the hub has been silent. Any thread. */
  public long silentNanos() {
    return System.nanoTime() - lastHeardNanos;
  }

  /** Wakes the thread for a turn. Any thread may call. */
  public void wake() {
    selector.wakeup();
  }

  /** Queues a message; never blocks. Any thread may call. */
  public void send(Message message) {
    outbox.add(message);
    selector.wakeup();
  }

  /**
   * Makes the thread send the queued messages, say goodbye and end, after a last {@link
   * Listener#tick}, which may send more. Does not wait. Any thread may call.
   */
  public void leave() {
    leaving = true;
    selector.wakeup();
  }

  private void run(Listener listener, Runnable breakOff, Runnable end) {
    try {
      serve(listener);
    } catch (Throwable e) {
      thrown = e;
      Daemon.untilDone(breakOff);
    } finally {
      Daemon.untilDone(end);
    }
  }

  private void serve(Listener listener) throws IOException {
    lastHeardNanos = System.nanoTime();
    // The first heartbeat is due at once, so that the hub knows that this process is alive; a
    // member needs some time until its greeting.
    lastSentNanos = System.nanoTime() - heartbeats.intervalNanos();
    long leaveNanos = 0;
    while (true) {
      boolean ending = leaving;
      if (ending && leaveNanos == 0) {
        leaveNanos = System.nanoTime();
        listener.tick();
        outbox.add(new Message.Goodbye());
      }
      turn(listener);
      if (!ending) {
        await(listener.tick());
        continue;
      }
      if (!connected || !framed.hasUnsent() || System.nanoTime() - leaveNanos > FAREWELL_NANOS) {
        return;
      }
      await(TimeUnit.MILLISECONDS.toNanos(5));
    }
  }

  /**
   * Prepares the last message of a thread that runs out of memory. Called before the thread starts.
   */
  public void prepareLast(Message message) {
    framed.prepareLast(message);
  }

  /** Whether messages wait to be sent. For {@link Listener#broken}; allocates nothing. */
  public boolean hasQueued() {
    return !outbox.isEmpty() || framed.hasUnsent();
  }

  /** Sends the message of {@link #prepareLast}, without allocating. For {@link Listener#broken}. */
  public void sendLast() {
    try {
      framed.sendLast();
    } catch (IOException e) {
      LOG.debug("nobody reads the last words", e);
    }
  }

  private void await(long nanos) throws IOException {
    long turn = Math.min(Math.min(nanos, heartbeats.intervalNanos()), TURN_MAX_NANOS);
    selector.select(Math.max(1, TimeUnit.NANOSECONDS.toMillis(turn)));
    selector.selectedKeys().clear();
  }

  private void turn(Listener listener) {
    // Taken before reading: if this process is paused in between, data that has arrived meanwhile
    // is read first.
    long now = System.nanoTime();
    String why = read(listener);
    try {
      sendQueued();
    } catch (IOException e) {
      // Messages that the hub sent before it went away may still have arrived.
      String end = why == null ? read(listener) : why;
      why = end == null ? FramedChannel.reason(e) : end;
    }
    if (why == null && heartbeats.isSilent(lastHeardNanos, now)) {
      why = silence;
    }
    if (connected && why != null) {
      listener.lost(why);
      disconnect();
    }
  }

  /** Reads the data that has arrived; returns why the connection has ended, or null. */
  private @Nullable String read(Listener listener) {
    try {
      return !connected || framed.receive(message -> heard(message, listener))
          ? null
          : "connection closed";
    } catch (IOException e) {
      return FramedChannel.reason(e);
    }
  }

  private void heard(Message message, Listener listener) {
    lastHeardNanos = System.nanoTime();
    if (!(message instanceof Message.Heartbeat)) {
      listener.received(message);
    }
  }

  private void sendQueued() throws IOException {
    for (Message message = outbox.peek(); message != null; message = outbox.peek()) {
      sendNow(message);
      outbox.poll(); // not before: if an error ends the thread, the message counts as not sent
    }
    if (System.nanoTime() - lastSentNanos >= heartbeats.intervalNanos()) {
      sendNow(new Message.Heartbeat());
    }
    if (connected) {
      boolean unsent = !framed.flush();
      SelectionKey key = framed.channel().keyFor(selector);
      if (key != null && key.isValid()) {
        key.interestOps(
            unsent ? SelectionKey.OP_READ | SelectionKey.OP_WRITE : SelectionKey.OP_READ);
      }
    }
  }

  private void sendNow(Message message) throws IOException {
    if (connected) {
      framed.send(message);
      lastSentNanos = System.nanoTime();
    }
  }

  private void disconnect() {
    try {
      sendQueued(); // the listener's messages about the loss, in case the hub still reads them
    } catch (IOException e) {
      LOG.debug("nobody reads the last words", e);
    }
    connected = false;
    CloseHelper.closeQuietly(framed);
  }
}
