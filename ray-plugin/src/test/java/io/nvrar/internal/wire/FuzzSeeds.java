package io.nvrar.internal.wire;

import io.nvrar.Algorithm;
import io.nvrar.DataType;
import io.nvrar.GroupConfig;
import io.nvrar.LinkSecurity;
import io.nvrar.MemoryProvider;
import io.nvrar.TuningTable;
import io.nvrar.internal.channel.Handshake;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;

/** Writes valid inputs into the directory of its argument, for {@code fuzz/run --merge}. */
final class FuzzSeeds {
  private static final byte SIGNED = (byte) 0xff;

  /** Four claims, then greet, describe, connect, split, close and leave; as HubFuzzer reads it. */
  private static final String LIFE =
      "00000001"
          + "03000301"
          + "000001"
          + "010001"
          + "0201"
          + "0002ff"
          + "0102ff"
          + "0003"
          + "0103"
          + "000800010105"
          + "010800010005"
          + "01090180"
          + "0004002a"
          + "0104012a"
          + "00ff"
          + "01ff";

  private FuzzSeeds() {}

  public static void main(String[] args) throws IOException {
    Path corpora = Path.of(args[0]);
    Wire wire = new Wire();
    ByteBuffer all = ByteBuffer.allocate(Wire.MAX_BYTES).put(SIGNED);
    for (Message message : messages()) {
      byte[] body = wire.write(message);
      String name = "valid-" + message.getClass().getSimpleName();
      ByteBuffer frame = ByteBuffer.allocate(3 + body.length).put(SIGNED);
      write(corpora, "FrameFuzzer", name, frame.putShort((short) body.length).put(body).array());
      all.putShort((short) body.length).put(body);
    }
    byte[] together = new byte[all.position()];
    all.flip().get(together);
    write(corpora, "FrameFuzzer", "valid-all", together);
    write(corpora, "ConfigFuzzer", "valid", ConfigCodec.encode(config()));
    OpenTicket ticket =
        new OpenTicket("tp", 2, new byte[256], "10.1.2.3", 4242, new byte[32], config());
    byte[] spec = wire.write(ticket.spec());
    write(corpora, "TicketFuzzer", "valid-spec", prefixed((byte) 1, spec));
    write(corpora, "TicketFuzzer", "valid", prefixed((byte) 0, ticket.toBytes()));
    byte[] hello = new Handshake(ticket.keys()).clientHello(Handshake.Role.MEMBER, 1);
    write(corpora, "HandshakeFuzzer", "valid-hello", prefixed(SIGNED, hello));
    write(corpora, "HubFuzzer", "valid-life", HexFormat.of().parseHex(LIFE));
  }

  static List<Message> messages() {
    ProcessIdentity process = new ProcessIdentity("host", 7, "boot");
    Message.MemberInfo member = new Message.MemberInfo(process, new byte[256]);
    List<Message> messages = new ArrayList<>();
    messages.add(new Message.Hello(process, "1", "build", 2, "CPU"));
    messages.add(new Message.ObserverHello(process));
    messages.add(new Message.Descriptor(new byte[256]));
    messages.add(member);
    messages.add(new Message.Members(new Message.MemberInfo[] {member, member}));
    messages.add(new Message.Connected());
    messages.add(new Message.Ready());
    messages.add(new Message.Heartbeat());
    messages.add(new Message.Closing(1, 41, false));
    messages.add(new Message.AllClosed());
    messages.add(new Message.Goodbye());
    messages.add(new Message.Destroy());
    messages.add(new Message.Activity("; rank 0 is in barrier #1"));
    messages.add(new Message.Split(1, 2, 3, 41));
    messages.add(new Message.Split(1, 0, 1, 41, new int[] {3, 1}));
    messages.add(new Message.SplitPlaces(1, new int[] {1, 0}));
    messages.add(new Message.SplitRendezvous(1, new byte[128], "host", 4242, ""));
    messages.add(Failure.timeout("late", 1, 2));
    return messages;
  }

  private static GroupConfig config() {
    return GroupConfig.builder()
        .gpusPerNode(1)
        .cuda(
            cuda ->
                cuda.memory(MemoryProvider.NVSHMEM)
                    .concurrentGroups(3)
                    .arenaBytes(1 << 20)
                    .exclusive(true)
                    .programmaticLaunch(true))
        .links(
            links ->
                links
                    .ports(7000, 7007)
                    .networkInterface("fd00::/8")
                    .security(LinkSecurity.ENCRYPTED)
                    .threads(2)
                    .spin(Duration.ofMillis(3)))
        .tuning(
            TuningTable.of(
                List.of(new TuningTable.Rule(DataType.FLOAT32, 2, 1, 4096, Algorithm.ONE_SHOT))))
        .build();
  }

  private static byte[] prefixed(byte first, byte[] rest) {
    return ByteBuffer.allocate(1 + rest.length).put(first).put(rest).array();
  }

  private static void write(Path corpora, String target, String name, byte[] bytes)
      throws IOException {
    Files.write(Files.createDirectories(corpora.resolve(target)).resolve(name), bytes);
  }
}
