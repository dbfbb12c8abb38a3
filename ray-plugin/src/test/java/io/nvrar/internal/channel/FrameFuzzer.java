package io.nvrar.internal.channel;

import static io.nvrar.fuzz.FuzzProperties.holds;
import static io.nvrar.fuzz.FuzzProperties.sentence;
import static io.nvrar.fuzz.FuzzProperties.withinMemory;

import io.nvrar.internal.wire.Crypto;
import io.nvrar.internal.wire.Message;
import io.nvrar.internal.wire.Wire;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import javax.crypto.Mac;

/** Frames of the control channel: as they come, and with the MACs of one who knows the secret. */
public final class FrameFuzzer {
  private static final byte[] KEY = new byte[32];
  private static final int MAC_BYTES = 16;

  /** The channel's buffer of 64 KiB, Kryo's, and the messages. */
  private static final long MAX_BYTES = 512 * 1024;

  private FrameFuzzer() {}

  /**
   * The first byte says how much a read gets and whether frames are signed; then each frame is two
   * bytes of length and a body.
   */
  public static void fuzzerTestOneInput(byte[] data) {
    if (data.length == 0) {
      return;
    }
    byte[] rest = Arrays.copyOfRange(data, 1, data.length);
    boolean signed = data[0] < 0;
    int pieceBytes = 1 + (data[0] & 0x7f) * 16;
    byte[] stream = signed ? signed(rest) : rest;
    List<Message> messages = new ArrayList<>();
    withinMemory(
        MAX_BYTES + 8L * stream.length,
        () -> {
          messages.clear();
          receive(stream, pieceBytes, messages);
        });
    Wire wire = new Wire();
    for (Message message : messages) {
      byte[] bytes = wire.write(message);
      Message again = wire.read(bytes, 0, bytes.length, Message.class);
      holds(again.getClass() == message.getClass(), "another message");
      holds(message.toString() != null, "no text");
    }
  }

  static byte[] signed(byte[] frames) {
    ByteArrayOutputStream stream = new ByteArrayOutputStream();
    Mac mac = Crypto.hmac(KEY);
    ByteBuffer in = ByteBuffer.wrap(frames);
    for (long number = 0; in.remaining() >= 2; number++) {
      byte[] body = new byte[Math.min(Short.toUnsignedInt(in.getShort()), in.remaining())];
      in.get(body);
      byte[] frame = ByteBuffer.allocate(4 + body.length).putInt(body.length).put(body).array();
      mac.update(ByteBuffer.allocate(8).putLong(number).flip());
      stream.writeBytes(frame);
      stream.write(mac.doFinal(frame), 0, MAC_BYTES);
    }
    return stream.toByteArray();
  }

  private static void receive(byte[] stream, int pieceBytes, List<Message> messages)
      throws IOException {
    ScriptedChannel socket = new ScriptedChannel(stream, pieceBytes);
    FramedChannel channel = new FramedChannel(socket, KEY, KEY);
    try {
      channel.receive(messages::add);
    } catch (IOException e) {
      sentence(e);
    }
  }
}
