package io.nvrar.internal.channel;

import io.nvrar.CollectiveException;
import io.nvrar.CollectiveTimeoutException;
import io.nvrar.internal.wire.GroupSpec;
import io.nvrar.internal.wire.Phrases;
import io.nvrar.internal.wire.ProcessIdentity;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.net.BindException;
import java.net.ConnectException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketTimeoutException;
import java.net.StandardSocketOptions;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * Connects to the rendezvous; both sides prove that they know the group's secret. Tries again until
 * the limit, because a rendezvous under attack drops its oldest unauthenticated connection, which
 * may be this one.
 */
public final class Dialer {
  private static final long ATTEMPT_NANOS = TimeUnit.SECONDS.toNanos(5);
  private static final long PAUSE_MIN_MILLIS = 20;
  private static final long PAUSE_MAX_MILLIS = 500;

  private final GroupSpec spec;
  private final Handshake handshake;
  private final Handshake.Role role;
  private final int rank;

  /** What the ticket's host was last resolved to on this host; null before. */
  private @Nullable InetAddress resolved;

  /** The other end answered, but is not the rendezvous of this group. */
  private static final class StrangerException extends IOException {
    private static final long serialVersionUID = 1L;

    StrangerException(String message) {
      super(message);
    }
  }

  public Dialer(GroupSpec spec, Handshake handshake, Handshake.Role role, int rank) {
    this.spec = spec;
    this.role = role;
    this.rank = rank;
    this.handshake = handshake;
  }

  public FramedChannel dial(Duration limit) {
    long deadlineNanos = System.nanoTime() + limit.toNanos();
    long pauseMillis = PAUSE_MIN_MILLIS;
    while (true) {
      long left = deadlineNanos - System.nanoTime();
      try {
        return attempt(System.nanoTime() + Math.max(1, Math.min(left, ATTEMPT_NANOS)));
      } catch (ConnectException e) {
        // The rendezvous was open when its ticket was made, so a closed port will not open again.
        throw new CollectiveException(
            String.format(
                Locale.ROOT,
                "%s has no rendezvous at %s any more (%s): the ticket expired or was discarded, or the group has ended%s",
                spec.label(),
                where(),
                e.getMessage(),
                whereThatLeads()),
            e);
      } catch (StrangerException e) {
        throw new CollectiveException(
            String.format(
                Locale.ROOT,
                "what answers at %s is not the rendezvous of this ticket for %s: %s%s",
                where(),
                spec.label(),
                e.getMessage(),
                whereThatLeads()),
            e);
      } catch (UnknownHostException e) {
        throw new CollectiveException(
            String.format(
                Locale.ROOT,
                "the rendezvous host %s of %s cannot be resolved by %s (%s)%s",
                spec.host(),
                spec.label(),
                who(),
                ProcessIdentity.current(),
                Sockets.restriction()),
            e);
      } catch (Sockets.NoIpv6Exception e) {
        throw new CollectiveException(
            String.format(
                Locale.ROOT,
                "the rendezvous of %s at %s cannot be reached by %s (%s): %s",
                spec.label(),
                where(),
                who(),
                ProcessIdentity.current(),
                e.getMessage()),
            e);
      } catch (ClosedByInterruptException e) {
        throw interrupted(e);
      } catch (IOException e) {
        if (deadlineNanos - System.nanoTime() <= TimeUnit.MILLISECONDS.toNanos(pauseMillis)) {
          throw unreachable(limit, e);
        }
      }
      try {
        Thread.sleep(pauseMillis);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw interrupted(e);
      }
      pauseMillis = Math.min(2 * pauseMillis, PAUSE_MAX_MILLIS);
    }
  }

  private FramedChannel attempt(long deadlineNanos) throws IOException {
    InetSocketAddress address = spec.address();
    resolved = address.getAddress();
    SocketChannel channel = Sockets.open(address.getAddress());
    boolean done = false;
    try {
      channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
      channel.socket().connect(address, millisUntil(deadlineNanos));
      byte[] clientHello = handshake.clientHello(role, rank);
      channel.write(ByteBuffer.wrap(clientHello));
      byte[] serverHello = read(channel, Handshake.SERVER_HELLO_BYTES, deadlineNanos);
      if (!handshake.isServer(clientHello, serverHello)) {
        throw new StrangerException("it does not know the ticket's secret");
      }
      channel.write(ByteBuffer.wrap(handshake.clientProof(clientHello, serverHello)));
      byte[] answer = read(channel, Handshake.ADMISSION_BYTES, deadlineNanos);
      if (!handshake.isAdmission(clientHello, serverHello, answer)) {
        throw new StrangerException("it does not answer the proof");
      }
      Handshake.Keys keys = handshake.keys(clientHello, serverHello);
      FramedChannel framed = new FramedChannel(channel, keys.toServer(), keys.toClient());
      done = true;
      return framed;
    } finally {
      if (!done) {
        channel.close();
      }
    }
  }

  private static byte[] read(SocketChannel channel, int bytes, long deadlineNanos)
      throws IOException {
    byte[] answer = new byte[bytes];
    InputStream in = channel.socket().getInputStream();
    for (int have = 0; have < bytes; ) {
      channel.socket().setSoTimeout(millisUntil(deadlineNanos));
      int count = in.read(answer, have, bytes - have);
      if (count < 0) {
        throw new EOFException("the connection was closed before it was authenticated");
      }
      have += count;
    }
    return answer;
  }

  private static int millisUntil(long deadlineNanos) throws SocketTimeoutException {
    long left = TimeUnit.NANOSECONDS.toMillis(deadlineNanos - System.nanoTime());
    if (left <= 0) {
      throw new SocketTimeoutException("no answer");
    }
    return (int) left;
  }

  private CollectiveTimeoutException unreachable(Duration limit, IOException e) {
    CollectiveTimeoutException timeout =
        new CollectiveTimeoutException(
            String.format(
                Locale.ROOT,
                "the rendezvous of %s at %s could not be reached by %s within %s, from %s: %s%s",
                spec.label(),
                where(),
                who(),
                Phrases.seconds(limit),
                ProcessIdentity.current(),
                e.getMessage(),
                // The kernel gives the port that this end of a connection has.
                e instanceof BindException
                    ? "; connections from here use the ports " + Sockets.freePorts()
                    : whereThatLeads()),
            0);
    timeout.initCause(e);
    return timeout;
  }

  private CollectiveException interrupted(Exception e) {
    return new CollectiveException(who() + " was interrupted while it joined " + spec.label(), e);
  }

  private String who() {
    return role == Handshake.Role.MEMBER ? "rank " + rank : "an observer";
  }

  /** The rendezvous, and the address that it was resolved to if the ticket has its name. */
  private String where() {
    InetAddress address = resolved;
    return spec.place()
        + (address == null || spec.hasNumericHost()
            ? ""
            : " (" + address.getHostAddress() + " here)");
  }

  /**
   * What an address that leads to this host says of a rank 0 on another, as the end of a sentence.
   */
  private String whereThatLeads() {
    String ownership = resolved == null ? null : Sockets.ownership(resolved);
    return ownership == null
        ? ""
        : String.format(
            Locale.ROOT,
            "; %s, so it leads to %s itself: if rank 0 is on another host, its ticket has to be made with an address that leads there from all hosts",
            ownership,
            ProcessIdentity.current().host());
  }
}
