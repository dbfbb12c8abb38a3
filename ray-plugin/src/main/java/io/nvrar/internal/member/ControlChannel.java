package io.nvrar.internal.member;

import io.nvrar.CollectiveException;
import io.nvrar.internal.wire.CloseHelper;
import io.nvrar.internal.wire.FramedChannel;
import io.nvrar.internal.wire.Heartbeats;
import io.nvrar.internal.wire.Message;
import io.nvrar.internal.wire.Phrases;
import io.nvrar.internal.wire.Ticket;
import java.io.IOException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A member's or an observer's end of the control channel: one thread that reads, sends heartbeats
 * and watches for the hub's silence. It waits for nothing but the socket.
 */
public final class ControlChannel {
  private static final Logger LOG = LoggerFactory.getLogger(ControlChannel.class);
  private static final long TURN_MAX_NANOS = TimeUnit.MILLISECONDS.toNanos(250);

  /** How long {@link #leave} waits for the socket to take the last messages. */
  private static final long FAREWELL_NANOS = TimeUnit.MILLISECONDS.toNanos(500);

  /** Called on the channel's thread. */
  public interface Listener {
    /** The hub said something; heartbeats are not passed on. */
    void received(Message message);

    /** The connection has ended or the hub is silent; called at most once. */
    void lost(String why);

    /**
     * Once a turn.
     *
     * @return after how many nanoseconds the next turn should come at the latest
     */
    long tick();

    /** The thread ends; called once, last. */
    void ended();
  }

  private final FramedChannel framed;
  private final Heartbeats heartbeats;
  private final String silence;
  private final Selector selector;
  private final ConcurrentLinkedQueue<Message> outbox = new ConcurrentLinkedQueue<>();
  private volatile boolean leaving;
  private volatile long lastHeardNanos = System.nanoTime();

  // Of the thread alone.
  private boolean connected = true;
  private long lastSentNanos;

  /** Takes over {@code framed}, also if this fails. */
  public ControlChannel(FramedChannel framed, Ticket ticket) {
    this.framed = framed;
    heartbeats = new Heartbeats(ticket.config());
    silence = "silent for more than " + Phrases.seconds(ticket.config().heartbeatLimit());
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
    Thread thread = new Thread(() -> run(listener), threadName);
    thread.setDaemon(true);
    try {
      thread.start();
    } catch (RuntimeException | Error e) { // such as no room for a thread: nobody else frees this
      CloseHelper.closeQuietly(framed);
      CloseHelper.closeQuietly(selector);
      listener.ended();
      throw e;
    }
  }

  /** How long the hub has been silent. Any thread. */
  long silentNanos() {
    return System.nanoTime() - lastHeardNanos;
  }

  /** Has the thread take a turn soon. Any thread. */
  void wake() {
    selector.wakeup();
  }

  /** Sends soon; never waits. Any thread. */
  public void send(Message message) {
    outbox.add(message);
    selector.wakeup();
  }

  /** Sends what is queued, says goodbye and ends the thread. Does not wait. Any thread. */
  public void leave() {
    outbox.add(new Message.Goodbye());
    leaving = true;
    selector.wakeup();
  }

  private void run(Listener listener) {
    lastHeardNanos = System.nanoTime();
    // The hub hears at once that somebody is there; what a member greets with takes it some time.
    lastSentNanos = System.nanoTime() - heartbeats.intervalNanos();
    long leaveNanos = 0;
    try {
      while (true) {
        boolean ending = leaving;
        turn(listener);
        if (!ending) {
          await(listener.tick());
          continue;
        }
        long now = System.nanoTime();
        leaveNanos = leaveNanos == 0 ? now : leaveNanos;
        if (!connected || !framed.hasUnsent() || now - leaveNanos > FAREWELL_NANOS) {
          return;
        }
        await(TimeUnit.MILLISECONDS.toNanos(5));
      }
    } catch (IOException | RuntimeException e) {
      LOG.error("the control channel failed", e);
      listener.lost("its control channel failed: " + e);
    } finally {
      CloseHelper.closeQuietly(framed);
      CloseHelper.closeQuietly(selector);
      listener.ended();
    }
  }

  private void await(long nanos) throws IOException {
    long turn = Math.min(Math.min(nanos, heartbeats.intervalNanos()), TURN_MAX_NANOS);
    selector.select(Math.max(1, TimeUnit.NANOSECONDS.toMillis(turn)));
    selector.selectedKeys().clear();
  }

  private void turn(Listener listener) {
    // Before it reads: if this process is paused in between, what came meanwhile is read first.
    long now = System.nanoTime();
    String why = read(listener);
    try {
      sendQueued();
    } catch (IOException e) {
      // What the hub said before it went may have come since.
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

  /** Takes in what has arrived; returns why the connection has ended, or null. */
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
    for (Message message = outbox.poll(); message != null; message = outbox.poll()) {
      sendNow(message);
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
      sendQueued(); // what the listener had to say about the loss, if anyone still reads it
    } catch (IOException e) {
      LOG.debug("nobody reads the last words", e);
    }
    connected = false;
    CloseHelper.closeQuietly(framed);
  }
}
