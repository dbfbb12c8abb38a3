package io.nvrar.internal.wire;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;
import static org.awaitility.Awaitility.await;

import io.nvrar.Algorithm;
import io.nvrar.Backend;
import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.GroupConfig;
import io.nvrar.TuningTable;
import io.nvrar.standalone.GroupTicket;
import io.nvrar.standalone.Groups;
import io.nvrar.standalone.Members;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Random;
import java.util.Set;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

class TicketCodecTest {
  private static final int HEADER_BYTES = 9;

  private static OpenTicket ticket() {
    return ticket(
        "tp",
        GroupConfig.builder()
            .backend(Backend.CPU)
            .timeout(Duration.ofMillis(1500))
            .ringBytes(8192)
            .rendezvousPort(4242)
            .gpusPerNode(2)
            .links(links -> links.ports(7000, 7007).threads(4).spin(Duration.ofMillis(3)))
            .tuning(
                TuningTable.of(
                    List.of(
                        new TuningTable.Rule(DataType.BFLOAT16, 4, 2, 65536, Algorithm.ONE_SHOT),
                        new TuningTable.Rule(null, 0, 0, Long.MAX_VALUE, Algorithm.TWO_SHOT))))
            .build());
  }

  private static OpenTicket ticket(String name, GroupConfig config) {
    return new OpenTicket(name, 4, Crypto.random(128), "10.1.2.3", 4242, Crypto.random(32), config);
  }

  /** A frame whose digest is right, as someone would make it who wants to be read. */
  private static byte[] framed(byte[] body) throws Exception {
    ByteBuffer frame = ByteBuffer.allocate(HEADER_BYTES + body.length + 16);
    frame.put("NVRT".getBytes(java.nio.charset.StandardCharsets.US_ASCII));
    frame.put(TicketCodec.PROTOCOL_VERSION).putInt(body.length).put(body);
    MessageDigest sha256 = MessageDigest.getInstance("SHA-256");
    sha256.update(frame.array(), 0, frame.position());
    frame.put(sha256.digest(), 0, 16);
    return frame.array();
  }

  @Test
  void aTicketComesBackWhole() {
    OpenTicket ticket = ticket();
    byte[] bytes = ticket.toBytes();
    OpenTicket back = OpenTicket.of(bytes);
    assertThat(back).usingRecursiveComparison().isEqualTo(ticket);
    assertThat(back.config()).isEqualTo(ticket.config());
    assertThat(bytes.length).isLessThan(2048);
  }

  @Test
  void theLargestTableStillTravels() {
    TuningTable.Rule largest =
        new TuningTable.Rule(
            DataType.INT64,
            Integer.MAX_VALUE,
            Integer.MAX_VALUE,
            Long.MAX_VALUE,
            Algorithm.HIERARCHICAL,
            TuningTable.Collective.ALL_REDUCE,
            "sm_121",
            new TuningTable.LaunchShape(TuningTable.LaunchShape.MAX_BLOCKS, 1024, 0));
    GroupConfig config =
        GroupConfig.builder()
            .tuning(TuningTable.of(Collections.nCopies(TuningTable.MAX_RULES, largest)))
            .build();
    byte[] bytes = ticket("\u20ac".repeat(GroupSpec.MAX_NAME_CHARS), config).toBytes();
    assertThat(OpenTicket.of(bytes).config()).isEqualTo(config);
    assertThat(bytes.length).isLessThan(5120);
  }

  @Test
  void everyTruncationIsRefused() {
    byte[] bytes = ticket().toBytes();
    for (int length = 0; length < bytes.length; length++) {
      byte[] part = Arrays.copyOf(bytes, length);
      assertThatThrownBy(() -> OpenTicket.of(part))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessageContaining("ticket");
    }
    assertThatThrownBy(() -> OpenTicket.of(Arrays.copyOf(bytes, bytes.length + 1)))
        .isInstanceOf(IllegalArgumentException.class);
  }

  @Test
  void everyDamagedByteIsNoticedWhateverItBecomes() {
    byte[] bytes = ticket().toBytes();
    for (int i = 0; i < bytes.length; i++) {
      for (int flip = 1; flip < 256; flip++) {
        byte[] damaged = bytes.clone();
        damaged[i] ^= (byte) flip;
        refused(damaged, GroupTicket::of, "byte " + i + " changed by " + flip);
      }
    }
  }

  @Test
  void aDamagedTicketIsRefusedAndLeavesNothing() throws Exception {
    GroupTicket ticket =
        Groups.createTicket(
            "damaged", 1, Members.config().backend(Backend.CPU).build(), "127.0.0.1");
    byte[] good = ticket.toBytes();
    List<byte[]> damaged = new ArrayList<>();
    for (int i = 0; i < good.length; i++) {
      byte[] flipped = good.clone();
      flipped[i] ^= 0x10;
      damaged.add(flipped);
      damaged.add(Arrays.copyOf(good, i));
    }
    Set<Thread> threads = Thread.getAllStackTraces().keySet();
    long files = openFiles();
    for (byte[] bytes : damaged) {
      refused(bytes, GroupTicket::of, Arrays.toString(bytes));
    }
    // Other files of this process may be opened and closed meanwhile.
    await()
        .atMost(Duration.ofSeconds(5))
        .untilAsserted(() -> assertThat(openFiles()).isLessThanOrEqualTo(files));
    assertThat(Thread.getAllStackTraces().keySet())
        .filteredOn(thread -> thread.getName().startsWith("nvrar-"))
        .isSubsetOf(threads);
    try (CollectiveGroup group = Groups.join(ticket, 0)) {
      group.barrier(); // the right one is still good
    }
  }

  private static void refused(byte[] ticket, Consumer<byte[]> door, String what) {
    try {
      door.accept(ticket);
    } catch (RuntimeException e) {
      assertThat(e).as(what).isExactlyInstanceOf(IllegalArgumentException.class);
      assertThat(e.getMessage())
          .as(what)
          .contains("ticket")
          .hasSizeLessThan(200)
          .doesNotContainPattern("\\p{Cc}");
      return;
    }
    throw new AssertionError("it was taken for a ticket: " + what);
  }

  private static long openFiles() throws IOException {
    try (Stream<Path> open = Files.list(Path.of("/proc/self/fd"))) {
      return open.count();
    }
  }

  @Test
  void nullGarbageAndOtherVersionsAreNamed() {
    assertThatThrownBy(() -> TicketCodec.decode(null, OpenTicket::of))
        .hasMessage("the ticket is null");
    assertThatThrownBy(() -> OpenTicket.of(new byte[100]))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("not a ticket: it does not begin with NVRT");
    byte[] other = ticket().toBytes();
    other[4] = 7;
    assertThatThrownBy(() -> OpenTicket.of(other))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("the ticket has protocol version 7, this library speaks version 4");
  }

  @Test
  void randomBodiesWithARightDigestNeverTakeMemoryOrHang() throws Exception {
    Random random = new Random(1);
    byte[] good = ticket().toBytes();
    byte[] goodBody = Arrays.copyOfRange(good, HEADER_BYTES, good.length - 16);
    for (int round = 0; round < 1500; round++) {
      byte[] body;
      if (round % 2 == 0) {
        body = new byte[random.nextInt(64)];
        random.nextBytes(body);
      } else {
        body = goodBody.clone();
        body[random.nextInt(Math.min(40, body.length))] = (byte) random.nextInt();
      }
      Throwable thrown = catchThrowable(() -> OpenTicket.of(framed(body)));
      if (thrown != null) {
        assertThat(thrown).isInstanceOf(IllegalArgumentException.class);
      }
    }
  }

  @Test
  void sixBytesCannotAskForTwoGigabytes() {
    // Registered ids travel as id + 2; then a length of 2^31 - 9 in five bytes.
    for (int id : new int[] {1, 10, 11, 24}) {
      byte[] bomb =
          HexFormat.of().parseHex(String.format(Locale.ROOT, "%02x", id + 2) + "f7ffffff07");
      assertThatThrownBy(() -> new Wire().read(bomb, 0, bomb.length, Object.class))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessageContaining("length 2147483639 with 0 bytes left");
    }
  }

  @Test
  void aClassNameIsRefusedBeforeItsLengthIsBelieved() {
    byte[] named = HexFormat.of().parseHex("0100" + "f7ffffff0f");
    assertThatThrownBy(() -> new Wire().read(named, 0, named.length, Object.class))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("class name");
  }

  @Test
  void anotherObjectInTheFrameIsNoTicket() throws Exception {
    byte[] ready = new Wire().write(new Message.Ready());
    byte[] body = ByteBuffer.allocate(32 + ready.length).position(32).put(ready).array();
    assertThatThrownBy(() -> OpenTicket.of(framed(body)))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("the ticket cannot be read: not a GroupSpec but a Ready");
  }

  @Test
  void aTicketThatEndsInItsSecretIsRefused() throws Exception {
    assertThatThrownBy(() -> GroupTicket.of(framed(new byte[5])))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("the ticket cannot be read: secret has 5 bytes, must have 32");
  }

  @Test
  void textNeverShowsTheSecret() {
    OpenTicket ticket = ticket();
    assertThat(ticket.toGroupTicket().toString())
        .contains("tp", "10.1.2.3:4242")
        .doesNotContain(
            HexFormat.of().formatHex(ticket.secret()),
            Base64.getEncoder().encodeToString(ticket.secret()),
            Arrays.toString(ticket.secret()),
            "secret");
  }
}
