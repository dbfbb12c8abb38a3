package io.nvrar.internal.channel;

import static org.assertj.core.api.Assertions.assertThat;

import com.esotericsoftware.kryo.kryo5.io.Output;
import io.nvrar.GroupConfig;
import io.nvrar.internal.wire.Failure;
import io.nvrar.internal.wire.GroupKeys;
import io.nvrar.internal.wire.Message;
import io.nvrar.internal.wire.OpenTicket;
import io.nvrar.internal.wire.ProcessIdentity;
import io.nvrar.internal.wire.Wire;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * The largest and ugliest that a member or an observer can put into a frame, in every place of
 * every message: the hub sends it on or refuses it, and no control character reaches the others.
 */
class HostileTextTest {
  private static final String MARK = "MARK";

  /** The same bytes in either order, as text, bytes or number. */
  private static final int MARK_NUMBER = 0x4d4d4d4d;

  private static final Wire WIRE = new Wire();
  private static final byte[] KEY = new byte[32];
  private static final ProcessIdentity PROCESS = new ProcessIdentity("host", 1, "boot");

  /** What the hub adds of its own to what it sends on. */
  private static final String ACTIVITIES = "; rank 0 is in barrier #1".repeat(400);

  private static final OpenTicket TICKET =
      new OpenTicket(
          "hostile",
          2,
          new byte[128],
          "127.0.0.1",
          1,
          new byte[GroupKeys.SECRET_BYTES],
          GroupConfig.builder().build());

  /** Each with one place that is the sender's to fill. */
  static Stream<Message> places() {
    ProcessIdentity host = new ProcessIdentity(MARK, 1, "boot");
    ProcessIdentity machine = new ProcessIdentity("host", 1, MARK);
    return Stream.of(
        new Message.Hello(host, "1", "build", 2, "CPU"),
        new Message.Hello(machine, "1", "build", 2, "CPU"),
        new Message.Hello(PROCESS, MARK, "build", 2, "CPU"),
        new Message.Hello(PROCESS, "1", MARK, 2, "CPU"),
        new Message.Hello(PROCESS, "1", "build", 2, MARK),
        new Message.Hello(host, "1", "build", 3, "CPU"),
        new Message.ObserverHello(host),
        new Message.Descriptor(MARK.getBytes(StandardCharsets.US_ASCII)),
        Failure.of(Failure.Kind.ABORTED, MARK),
        Failure.of(Failure.Kind.DRIVER, MARK),
        Failure.lost(1, host, "lost"),
        Failure.timeout("late", MARK_NUMBER),
        new Message.SplitRendezvous(1, MARK.getBytes(StandardCharsets.US_ASCII), "host", 4242, ""),
        new Message.SplitRendezvous(1, new byte[128], MARK, 4242, ""),
        new Message.SplitRendezvous(1, new byte[0], "", 0, MARK));
  }

  @ParameterizedTest
  @MethodSource("places")
  void theHubSendsItOnOrRefusesItAndNoControlCharacterArrives(Message marked) throws Exception {
    for (byte[] filling : fillings()) {
      for (int bytes :
          new int[] {ProcessIdentity.MAX_CHARS, Failure.MAX_MESSAGE_CHARS, Wire.MAX_BYTES}) {
        byte[] frame = filled(marked, filling, bytes);
        for (int rank = 0; rank < 2; rank++) {
          // Before the group is formed, and while it runs.
          say(frame, new Hub(), rank);
          say(frame, new Hub().form(), rank);
        }
        say(frame, new Hub(), 2);
        say(frame, new Hub().form(), 2);
      }
    }
  }

  private static void say(byte[] frame, Hub hub, int sender) throws IOException {
    Message message;
    try {
      message = WIRE.read(frame, 0, frame.length, Message.class);
    } catch (IllegalArgumentException e) {
      assertThat(hasControl(String.valueOf(e.getMessage()))).as(e.getMessage()).isFalse();
      return;
    }
    hub.says(sender, message);
    hub.form(); // for the others, if the hub thinks they still can
    hub.says(sender, message);
    hub.fails();
    hub.checkWhatWasSaid();
  }

  private static boolean hasControl(String text) {
    return text.chars().anyMatch(Character::isISOControl);
  }

  /** Plain, three bytes a character, not UTF-8 (which grows as it is sent on), and commands. */
  private static List<byte[]> fillings() {
    return List.of(
        new byte[] {'x'},
        "\u20ac".getBytes(StandardCharsets.UTF_8),
        new byte[] {(byte) 0xff},
        "\n\u001b[2J\u0085".getBytes(StandardCharsets.UTF_8));
  }

  /** {@code marked} as bytes, with up to {@code bytes} of {@code filling} in the marked place. */
  private static byte[] filled(Message marked, byte[] filling, int bytes) {
    byte[] plain = WIRE.write(marked);
    String text = new String(plain, StandardCharsets.ISO_8859_1);
    int at = text.indexOf(MARK);
    int unit = 1;
    if (at < 0) {
      at = text.indexOf("MMMM");
      unit = 4;
    }
    assertThat(at).as("the place in " + marked).isPositive();
    int units = Math.min(bytes, Wire.MAX_BYTES - plain.length + 4 - 2) / unit;
    byte[] content = new byte[units * unit];
    for (int i = 0; i < content.length; i++) {
      content[i] = filling[i % filling.length];
    }
    Output frame = new Output(Wire.MAX_BYTES);
    frame.writeBytes(plain, 0, at - 1); // the length before the place takes one byte
    frame.writeVarInt(units, true);
    frame.writeBytes(content);
    frame.writeBytes(plain, at + 4, plain.length - at - 4);
    return frame.toBytes();
  }

  private static final RankZeroView VIEW =
      new RankZeroView() {
        @Override
        public String activities() {
          return ACTIVITIES;
        }

        @Override
        public String flightRecord(boolean isRankZeroLost) {
          return "";
        }
      };

  /** A hub with two members and an observer whose connections keep what is said to them. */
  private static final class Hub {
    private final Coordinator coordinator = new Coordinator(TICKET.spec(), () -> VIEW, 0);
    private final List<ScriptedChannel> sockets = new ArrayList<>();
    private final List<Peer> peers = new ArrayList<>();
    private long now;

    Hub() throws IOException {
      add(new Handshake.Claim(Handshake.Role.MEMBER, 0));
      add(new Handshake.Claim(Handshake.Role.MEMBER, 1));
      add(new Handshake.Claim(Handshake.Role.OBSERVER, 0));
    }

    private void add(Handshake.Claim claim) throws IOException {
      ScriptedChannel socket = new ScriptedChannel(new byte[0], 1).keepWritten();
      sockets.add(socket);
      peers.add(new Peer(new FramedChannel(socket, KEY, KEY), new NoKey(), claim, now));
    }

    void says(int peer, Message message) {
      coordinator.received(peers.get(peer), message, ++now);
      coordinator.tick(now);
    }

    /** As far as the hub lets them. Both have called a split. */
    Hub form() {
      Message.Hello hello = new Message.Hello(PROCESS, "1", "build", 2, "CPU");
      says(2, new Message.ObserverHello(PROCESS));
      for (Message message :
          List.of(
              hello,
              new Message.Descriptor(new byte[256]),
              new Message.Connected(),
              new Message.Split(1, 0, 0, 1))) {
        says(0, message);
        says(1, message);
      }
      return this;
    }

    void fails() {
      coordinator.beat();
      coordinator.fail(Failure.of(Failure.Kind.ABORTED, "the end"), ++now);
    }

    void checkWhatWasSaid() throws IOException {
      for (int i = 0; i < peers.size(); i++) {
        String broken = peers.get(i).broken;
        assertThat(
                broken == null
                    || broken.equals(
                        "it sent a greeting for a role other than the authenticated one"))
            .as(broken)
            .isTrue();
        List<Message> heard = new ArrayList<>();
        new FramedChannel(new ScriptedChannel(sockets.get(i).written(), 4096), KEY, KEY)
            .receive(heard::add);
        for (Message message : heard) {
          texts(message)
              .forEach(text -> assertThat(hasControl(text)).as(message.toString()).isFalse());
        }
      }
    }

    private static Stream<String> texts(Message message) {
      if (message instanceof Failure failure) {
        return Stream.of(failure.message(), failure.host());
      }
      if (message instanceof Message.Members members) {
        return Arrays.stream(members.inRankOrder())
            .flatMap(member -> Stream.of(member.process().host(), member.process().machine()));
      }
      if (message instanceof Message.SplitRendezvous rendezvous) {
        return Stream.of(rendezvous.host(), rendezvous.problem());
      }
      return Stream.of(message.toString());
    }
  }
}
