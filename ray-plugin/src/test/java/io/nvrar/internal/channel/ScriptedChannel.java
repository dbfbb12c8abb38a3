package io.nvrar.internal.channel;

import java.io.ByteArrayOutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketAddress;
import java.net.SocketOption;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.channels.spi.SelectorProvider;
import java.util.Objects;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * A connection without a network: what the other end has sent is given, and comes in pieces of a
 * given size; what is sent to it is counted.
 */
public final class ScriptedChannel extends SocketChannel {
  private static final int END = -1;

  private final ByteBuffer incoming;
  private final int pieceBytes;
  public long bytesRead;
  public long bytesWritten;
  private @Nullable ByteArrayOutputStream written;

  /**
   * @param incoming what comes, then the end of the stream
   * @param pieceBytes the most that one read gets, 1 or more
   */
  public ScriptedChannel(byte[] incoming, int pieceBytes) {
    super(SelectorProvider.provider());
    this.incoming = ByteBuffer.wrap(incoming);
    this.pieceBytes = pieceBytes;
  }

  /** Has what is written from here on kept, for {@link #written}. */
  public ScriptedChannel keepWritten() {
    written = new ByteArrayOutputStream();
    return this;
  }

  public byte[] written() {
    return Objects.requireNonNull(written).toByteArray();
  }

  @Override
  public int read(ByteBuffer to) {
    if (!incoming.hasRemaining()) {
      return END;
    }
    int count = Math.min(Math.min(pieceBytes, incoming.remaining()), to.remaining());
    ByteBuffer piece = incoming.duplicate().limit(incoming.position() + count);
    to.put(piece);
    incoming.position(incoming.position() + count);
    bytesRead += count;
    return count;
  }

  @Override
  public int write(ByteBuffer from) {
    int count = from.remaining();
    byte[] bytes = new byte[count];
    from.get(bytes);
    bytesWritten += count;
    if (written != null) {
      written.writeBytes(bytes);
    }
    return count;
  }

  @Override
  public SocketAddress getLocalAddress() {
    return new InetSocketAddress(InetAddress.getLoopbackAddress(), 1);
  }

  @Override
  protected void implCloseSelectableChannel() {}

  @Override
  protected void implConfigureBlocking(boolean block) {}

  @Override
  public long read(ByteBuffer[] to, int offset, int length) {
    throw new UnsupportedOperationException();
  }

  @Override
  public long write(ByteBuffer[] from, int offset, int length) {
    throw new UnsupportedOperationException();
  }

  @Override
  public SocketChannel bind(SocketAddress local) {
    throw new UnsupportedOperationException();
  }

  @Override
  public <T> SocketChannel setOption(SocketOption<T> name, T value) {
    throw new UnsupportedOperationException();
  }

  @Override
  public <T> T getOption(SocketOption<T> name) {
    throw new UnsupportedOperationException();
  }

  @Override
  public Set<SocketOption<?>> supportedOptions() {
    return Set.of();
  }

  @Override
  public SocketChannel shutdownInput() {
    throw new UnsupportedOperationException();
  }

  @Override
  public SocketChannel shutdownOutput() {
    return this;
  }

  @Override
  public Socket socket() {
    throw new UnsupportedOperationException();
  }

  @Override
  public boolean isConnected() {
    return true;
  }

  @Override
  public boolean isConnectionPending() {
    return false;
  }

  @Override
  public boolean connect(SocketAddress remote) {
    throw new UnsupportedOperationException();
  }

  @Override
  public boolean finishConnect() {
    return true;
  }

  @Override
  public SocketAddress getRemoteAddress() {
    return getLocalAddress();
  }
}
