package io.nvrar.internal.channel;

import static io.nvrar.fuzz.FuzzProperties.holds;
import static io.nvrar.fuzz.FuzzProperties.sentence;
import static io.nvrar.fuzz.FuzzProperties.withinMemory;

import io.nvrar.GroupConfig;
import io.nvrar.internal.wire.Failure;
import io.nvrar.internal.wire.GroupKeys;
import io.nvrar.internal.wire.Message;
import io.nvrar.internal.wire.OpenTicket;
import io.nvrar.internal.wire.ProcessIdentity;
import io.nvrar.internal.wire.Wire;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * Authenticated members and observers that say anything in any order: the hub, which all others
 * need, survives each of them.
 */
public final class HubFuzzer {
  private static final int WORLD_SIZE = 2;
  private static final int MAX_STEPS = 64;
  private static final long MAX_BYTES = 16L << 20;
  private static final long STEP_NANOS = 100_000_000;
  private static final long AGES_NANOS = TimeUnit.HOURS.toNanos(1);

  private static final OpenTicket TICKET =
      new OpenTicket(
          "fuzzed",
          WORLD_SIZE,
          new byte[128],
          "127.0.0.1",
          1,
          new byte[GroupKeys.SECRET_BYTES],
          GroupConfig.builder().build());
  private static final Wire WIRE = new Wire();

  /** Of all peers: what is said to them goes nowhere. */
  private static final FramedChannel CHANNEL = nowhere();

  private static final ProcessIdentity PROCESS = new ProcessIdentity("host", 1, "boot");

  private HubFuzzer() {}

  /** A claim of two bytes for each of four peers, then steps: a peer, a kind, and what it takes. */
  public static void fuzzerTestOneInput(byte[] data) {
    withinMemory(MAX_BYTES, () -> talk(ByteBuffer.wrap(data)));
  }

  private static void talk(ByteBuffer in) {
    Coordinator hub = new Coordinator(TICKET.spec(), () -> RankZeroView.NOTHING, 0);
    List<Peer> peers = new ArrayList<>();
    for (int i = 0; i < 4; i++) {
      Handshake.Role role = next(in) % 4 == 3 ? Handshake.Role.OBSERVER : Handshake.Role.MEMBER;
      peers.add(new Peer(CHANNEL, new NoKey(), new Handshake.Claim(role, (byte) next(in)), 0));
    }
    long now = 0;
    for (int step = 0; step < MAX_STEPS && in.hasRemaining(); step++) {
      now += STEP_NANOS;
      Peer peer = peers.get(next(in) % peers.size());
      int kind = next(in);
      if (kind == 255) {
        hub.gone(peer, "connection closed", now);
      } else {
        Message message = message(kind, in);
        if (message != null) {
          hub.received(peer, message, now);
        }
      }
      hub.tick(now);
      hub.isFinished(now);
    }
    hub.fail(Failure.of(Failure.Kind.ABORTED, "the end"), now);
    for (Peer peer : peers) {
      hub.gone(peer, "connection closed", now);
    }
    holds(hub.isFinished(now + AGES_NANOS), "a hub that never ends");
  }

  private static int next(ByteBuffer in) {
    return in.hasRemaining() ? Byte.toUnsignedInt(in.get()) : 0;
  }

  private static FramedChannel nowhere() {
    try {
      return new FramedChannel(new ScriptedChannel(new byte[0], 1), new byte[32], new byte[32]);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Everything that a member or an observer can put into a frame. */
  private static @Nullable Message message(int kind, ByteBuffer in) {
    if (kind < 128) {
      return switch (kind % 11) {
        case 0 -> new Message.Hello(PROCESS, "1", "build", 1 + next(in) % 3, "CPU");
        case 1 -> new Message.ObserverHello(PROCESS);
        case 2 -> new Message.Descriptor(new byte[next(in)]);
        case 3 -> new Message.Connected();
        case 4 -> new Message.Closing((byte) next(in), next(in), next(in) % 2 == 1);
        case 5 -> new Message.Goodbye();
        case 6 -> new Message.Destroy();
        case 7 -> Failure.of(Failure.Kind.ABORTED, "failed");
        case 8 -> new Message.Split(next(in) % 4, (byte) next(in), (byte) next(in), next(in));
        case 9 -> new Message.SplitRendezvous(next(in) % 4, new byte[next(in)], "host", 1, "");
        default -> new Message.Heartbeat();
      };
    }
    byte[] bytes = new byte[Math.min(next(in), in.remaining())];
    in.get(bytes);
    try {
      return WIRE.read(bytes, 0, bytes.length, Message.class);
    } catch (IllegalArgumentException e) {
      sentence(e);
      return null;
    }
  }
}
