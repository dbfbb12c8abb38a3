package io.nvrar.internal.channel;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.internal.wire.Crypto;
import io.nvrar.internal.wire.Failure;
import io.nvrar.internal.wire.Message;
import io.nvrar.internal.wire.ProcessIdentity;
import io.nvrar.internal.wire.Wire;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class FramedChannelTest {
  private static final byte[] TO_SERVER = new byte[32];
  private static final byte[] TO_CLIENT = Crypto.random(32);

  /** More than any sentence, so that it takes several reads. */
  private static final Message LONG = Failure.of(Failure.Kind.ABORTED, "\u20ac".repeat(8192));

  private final List<Message> heard = new ArrayList<>();

  /** What a client has sent, a frame each. */
  private static List<byte[]> frames(Message... messages) throws IOException {
    ScriptedChannel socket = new ScriptedChannel(new byte[0], 1).keepWritten();
    List<byte[]> frames = new ArrayList<>();
    try (FramedChannel client = new FramedChannel(socket, TO_SERVER, TO_CLIENT)) {
      int before = 0;
      for (Message message : messages) {
        client.send(message);
        byte[] all = socket.written();
        frames.add(Arrays.copyOfRange(all, before, all.length));
        before = all.length;
      }
    }
    return frames;
  }

  private static ScriptedChannel socket(int pieceBytes, List<byte[]> frames) {
    ByteArrayOutputStream stream = new ByteArrayOutputStream();
    frames.forEach(stream::writeBytes);
    return new ScriptedChannel(stream.toByteArray(), pieceBytes);
  }

  private static FramedChannel server(ScriptedChannel socket) throws IOException {
    return new FramedChannel(socket, TO_CLIENT, TO_SERVER);
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 100, 8192, 1 << 20})
  void oneWhoSendsWithoutPauseHasATurnLikeOthersAndAllIsHeardInTheEnd(int pieceBytes)
      throws IOException {
    int count = 2000;
    Message[] sent = new Message[count];
    for (int i = 0; i < count; i++) {
      sent[i] = i % 500 == 300 ? LONG : new Message.Closing(1, i, false);
    }
    ScriptedChannel socket = socket(pieceBytes, frames(sent));
    long most = 0;
    try (FramedChannel server = server(socket)) {
      boolean open = true;
      while (open) {
        long before = socket.bytesRead;
        int heardBefore = heard.size();
        open = server.receiveTurn(heard::add);
        if (open) {
          assertThat(heard).as("heard in a turn").hasSizeGreaterThan(heardBefore);
        }
        most = Math.max(most, socket.bytesRead - before);
      }
    }
    assertThat(heard).containsExactly(sent);
    assertThat(most).isLessThan(Wire.MAX_BYTES);
  }

  @Test
  void aTurnOfShortMessagesIsShort() throws IOException {
    Message[] sent = new Message[10_000];
    Arrays.fill(sent, new Message.Heartbeat());
    try (FramedChannel server = server(socket(1 << 20, frames(sent)))) {
      assertThat(server.receiveTurn(heard::add)).isTrue();
    }
    assertThat(heard).hasSizeBetween(1, 500);
  }

  @Test
  void aLongMessageLeavesNoLongBuffersBehind() throws IOException {
    Message[] members = {
      new Message.MemberInfo(new ProcessIdentity("host", 1, ""), new byte[1 << 20])
    };
    List<byte[]> stream = frames(members);
    List<FramedChannel> channels = new ArrayList<>();
    long before = usedBytes();
    for (int i = 0; i < 64; i++) {
      FramedChannel channel = server(socket(1 << 20, stream));
      channel.send(members[0]);
      channel.receive(heard::add);
      heard.clear();
      channels.add(channel);
    }
    assertThat((usedBytes() - before) / channels.size())
        .as("bytes of a connection, beside the stream that it has read")
        .isLessThan((1 << 20) + 512 * 1024);
  }

  private static long usedBytes() {
    System.gc();
    Runtime heap = Runtime.getRuntime();
    return heap.totalMemory() - heap.freeMemory();
  }

  @Test
  void theLongestFrameIsHeardInOneTurn() throws IOException {
    Message.MemberInfo member =
        new Message.MemberInfo(new ProcessIdentity("host", 1, ""), new byte[60_000]);
    try (FramedChannel server = server(socket(1000, frames(member)))) {
      assertThat(server.receiveTurn(heard::add)).isTrue();
      assertThat(heard).hasSize(1);
    }
  }

  @ParameterizedTest
  @CsvSource({
    "'0 0', 1", // repeated
    "'0 1 0', 2", // repeated later
    "'1 0', 0", // exchanged
    "'0 2', 1", // one left out
    "'1', 0", // the first left out
  })
  void aFrameOutOfItsTurnIsRefused(String order, int heardBefore) throws IOException {
    List<byte[]> frames =
        frames(new Message.Heartbeat(), new Message.Closing(1, 2, false), new Message.Heartbeat());
    List<byte[]> stream =
        Stream.of(order.split(" ", -1))
            .map(number -> frames.get(Integer.parseInt(number)))
            .toList();
    try (FramedChannel server = server(socket(1 << 20, stream))) {
      assertThatThrownBy(() -> server.receive(heard::add))
          .isInstanceOf(IOException.class)
          .hasMessage("it sent a frame with a wrong MAC");
    }
    assertThat(heard).hasSize(heardBefore);
  }

  @Test
  void whatOneSaidIsNotHeardAsSaidToOneself() throws IOException {
    ScriptedChannel echo = socket(1 << 20, frames(new Message.Heartbeat()));
    try (FramedChannel client = new FramedChannel(echo, TO_SERVER, TO_CLIENT)) {
      assertThatThrownBy(() -> client.receive(heard::add))
          .hasMessage("it sent a frame with a wrong MAC");
    }
  }
}
