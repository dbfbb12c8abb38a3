package io.nvrar.internal.channel;

import static io.nvrar.fuzz.FuzzProperties.holds;
import static io.nvrar.fuzz.FuzzProperties.sentence;
import static io.nvrar.fuzz.FuzzProperties.withinMemory;

import io.nvrar.internal.wire.GroupKeys;
import java.io.IOException;
import java.util.Arrays;

/**
 * The first bytes of a stranger, who may know a ticket's id but not its secret: nobody is admitted,
 * and it costs a fixed number of bytes.
 */
public final class HandshakeFuzzer {
  private static final int PROOF_BYTES =
      Handshake.CLIENT_HELLO_BYTES + Handshake.CLIENT_PROOF_BYTES;
  private static final int ID_AT = 8;
  private static final int ID_BYTES = 16;
  private static final long MAX_BYTES = 64 * 1024;

  private static final Handshake HANDSHAKE = new Handshake(GroupKeys.random());

  private HandshakeFuzzer() {}

  /** The first byte says how much a read gets, and whether the hello has the right id. */
  public static void fuzzerTestOneInput(byte[] data) {
    if (data.length == 0) {
      return;
    }
    byte[] stream = Arrays.copyOfRange(data, 1, data.length);
    if (data[0] < 0 && stream.length >= Handshake.CLIENT_HELLO_BYTES) {
      byte[] hello = HANDSHAKE.clientHello(Handshake.Role.MEMBER, 0);
      System.arraycopy(hello, 0, stream, 0, 5);
      System.arraycopy(hello, ID_AT, stream, ID_AT, ID_BYTES);
    }
    withinMemory(MAX_BYTES + 2L * stream.length, () -> advance(stream, 1 + (data[0] & 0x7f)));
  }

  private static void advance(byte[] stream, int pieceBytes) {
    ScriptedChannel socket = new ScriptedChannel(stream, pieceBytes);
    PendingPeer stranger = new PendingPeer(socket, HANDSHAKE, 0);
    try {
      // One call for each event of the socket, and more than there can be.
      for (int event = 0; event <= stream.length + 2; event++) {
        holds(stranger.advance() == null, "a stranger was admitted");
      }
      throw new AssertionError("a stranger who has left is still waited for");
    } catch (IOException e) {
      sentence(e);
    }
    holds(socket.bytesRead <= PROOF_BYTES, "more was read than a handshake has");
    holds(socket.bytesWritten <= Handshake.SERVER_HELLO_BYTES, "a stranger got more than a hello");
  }
}
