package io.nvrar.internal.channel;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/** A connection that is not authenticated yet: the hub's half of the {@link Handshake}. */
final class PendingPeer {
  private static final int BYTES = Handshake.CLIENT_HELLO_BYTES + Handshake.CLIENT_PROOF_BYTES;

  private final SocketChannel channel;
  private final Handshake handshake;
  private final long sinceNanos;
  private final ByteBuffer in = ByteBuffer.allocate(BYTES);
  private Handshake.@Nullable Claim claim;
  private byte[] clientHello = {};
  private byte[] serverHello = {};

  PendingPeer(SocketChannel channel, Handshake handshake, long nowNanos) {
    this.channel = channel;
    this.handshake = handshake;
    sinceNanos = nowNanos;
    in.limit(Handshake.CLIENT_HELLO_BYTES);
  }

  SocketChannel channel() {
    return channel;
  }

  long sinceNanos() {
    return sinceNanos;
  }

  /** The keys of the connection, once {@link #advance} has returned a claim. */
  Handshake.Keys keys() {
    return handshake.keys(clientHello, serverHello);
  }

  /**
   * Reads the bytes that have arrived.
   *
   * @return the verified claim; null while bytes are missing
   * @throws IOException if the peer does not belong to this group
   */
  Handshake.@Nullable Claim advance() throws IOException {
    if (!fill()) {
      return null;
    }
    if (claim == null) {
      clientHello = Arrays.copyOf(in.array(), Handshake.CLIENT_HELLO_BYTES);
      if (!handshake.isClientHello(clientHello)) {
        throw new IOException("speaks another protocol");
      }
      claim = handshake.claimOf(clientHello);
      serverHello = handshake.serverHello(clientHello);
      write(serverHello);
      if (claim == null) {
        // Its ticket belongs to another group, which may have had this port before. The answer
        // shows that.
        throw new IOException("not a member of this group");
      }
      in.limit(BYTES);
      if (!fill()) {
        return null;
      }
    }
    byte[] proof = Arrays.copyOfRange(in.array(), Handshake.CLIENT_HELLO_BYTES, BYTES);
    if (!handshake.isClient(clientHello, serverHello, proof)) {
      throw new IOException("does not know the secret");
    }
    write(handshake.admission(clientHello, serverHello));
    return claim;
  }

  // The socket is new and its send buffer empty, so a short write means that the peer set a hostile
  // window.
  private void write(byte[] answer) throws IOException {
    if (channel.write(ByteBuffer.wrap(answer)) != answer.length) {
      throw new IOException("reads nothing");
    }
  }

  private boolean fill() throws IOException {
    if (in.hasRemaining() && channel.read(in) < 0) {
      throw new IOException("left before it proved anything");
    }
    return !in.hasRemaining();
  }
}
