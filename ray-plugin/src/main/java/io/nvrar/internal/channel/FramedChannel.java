package io.nvrar.internal.channel;

import io.nvrar.internal.wire.Crypto;
import io.nvrar.internal.wire.Message;
import io.nvrar.internal.wire.Wire;
import java.io.Closeable;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.Pipe;
import java.nio.channels.SocketChannel;
import java.security.MessageDigest;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.function.Consumer;
import javax.crypto.Mac;
import org.jspecify.annotations.Nullable;

/**
 * Messages over an authenticated socket that never blocks: {@code length(4) body(length) mac(16)},
 * the MAC covers the frame's number, its length and its body. Not thread-safe.
 */
public final class FramedChannel implements Closeable {
  private static final String BROKEN_PIPE = brokenPipe();

  private static final int FRAME_MAC_BYTES = 16;
  private static final int FRAME_OVERHEAD = 4 + FRAME_MAC_BYTES;

  /** A peer that leaves this much data unread counts as gone. */
  private static final int MAX_UNSENT_BYTES = Wire.MAX_BYTES + (1 << 20);

  /** The buffer for what arrives; it grows for a message that does not fit, and only for that. */
  private static final int FIRST_BYTES = 64 * 1024;

  /**
   * How many bytes are read per turn, unless the first message is longer. The smallest message has
   * about 22 bytes.
   */
  static final int TURN_BYTES = 8 * 1024;

  private final SocketChannel channel;
  private final String localHost;
  private final String remoteHost;
  private final Wire wire = new Wire();
  private final Mac sendMac;
  private final Mac receiveMac;
  private ByteBuffer in = ByteBuffer.allocate(FIRST_BYTES);
  private final ArrayDeque<ByteBuffer> unsent = new ArrayDeque<>();
  private int unsentBytes;
  private long sent;
  private long received;

  /** The frame of {@link #prepareLast}, complete but for its MAC; null if there is none. */
  private @Nullable ByteBuffer last;

  /** The number for which the last frame has its MAC. */
  private long lastNumber = -1;

  /** Takes over {@code channel} and makes it non-blocking. */
  public FramedChannel(SocketChannel channel, byte[] sendKey, byte[] receiveKey)
      throws IOException {
    this.channel = channel;
    sendMac = Crypto.hmac(sendKey);
    receiveMac = Crypto.hmac(receiveKey);
    channel.configureBlocking(false);
    localHost = ((InetSocketAddress) channel.getLocalAddress()).getAddress().getHostAddress();
    remoteHost =
        channel.getRemoteAddress() instanceof InetSocketAddress remote
            ? remote.getAddress().getHostAddress()
            : "";
  }

  public SocketChannel channel() {
    return channel;
  }

  /** The local address of the connection, at which other members can reach this machine, too. */
  public String localHost() {
    return localHost;
  }

  /** The remote address of the connection. */
  String remoteHost() {
    return remoteHost;
  }

  /**
   * Queues a message and writes as much as the socket takes.
   *
   * @throws IOException if the connection is broken, or this message cannot be sent
   */
  public void send(Message message) throws IOException {
    byte[] body;
    try {
      body = wire.write(message);
    } catch (IllegalArgumentException e) {
      throw new IOException("what it was to be told does not fit: " + e.getMessage(), e);
    }
    ByteBuffer frame = frame(body);
    authenticate(frame, sent);
    if (unsentBytes + frame.remaining() > MAX_UNSENT_BYTES) {
      throw new IOException("it reads nothing");
    }
    // The number is used up only now: if there is no memory for the frame, the next one has it.
    unsent.add(frame);
    unsentBytes += frame.remaining();
    sent++;
    ByteBuffer prepared = last;
    if (prepared != null) {
      authenticate(prepared, sent);
      lastNumber = sent;
    }
    flush();
  }

  /** Prepares a message that {@link #sendLast} sends without allocating memory. */
  public void prepareLast(Message message) {
    ByteBuffer frame = frame(wire.write(message));
    authenticate(frame, sent);
    last = frame;
    lastNumber = sent;
  }

  /**
   * Sends the message of {@link #prepareLast} as the last one, as far as the socket takes it; does
   * nothing if that has been done. Allocates nothing, unless an error has interrupted {@link
   * #send}.
   */
  public void sendLast() throws IOException {
    ByteBuffer frame = last;
    if (frame == null) {
      return;
    }
    if (lastNumber != sent) {
      authenticate(frame, sent);
      lastNumber = sent;
    }
    if (flush()) {
      channel.write(frame);
      last = null;
    }
  }

  /** A frame without its MAC. */
  private static ByteBuffer frame(byte[] body) {
    return ByteBuffer.allocate(body.length + FRAME_OVERHEAD).putInt(body.length).put(body).clear();
  }

  @SuppressWarnings("ByteBufferBackingArray") // made by frame(), so its array begins with it
  private void authenticate(ByteBuffer frame, long number) {
    int bytes = frame.capacity() - FRAME_MAC_BYTES;
    frame.put(bytes, mac(sendMac, number, frame.array(), bytes), 0, FRAME_MAC_BYTES);
  }

  /**
   * Writes as much as the socket takes.
   *
   * @return whether everything has been written
   */
  public boolean flush() throws IOException {
    for (ByteBuffer frame = unsent.peek(); frame != null; frame = unsent.peek()) {
      unsentBytes -= channel.write(frame);
      if (frame.hasRemaining()) {
        return false;
      }
      unsent.remove();
    }
    return true;
  }

  /** Whether data is waiting for the socket to become writable. */
  boolean hasUnsent() {
    return !unsent.isEmpty();
  }

  /**
   * Passes on every message that has arrived, for as long as more arrive.
   *
   * @return false at the end of the stream
   * @throws IOException if the connection broke or the data is not authentic
   */
  public boolean receive(Consumer<Message> handler) throws IOException {
    return receive(handler, Long.MAX_VALUE);
  }

  /**
   * Passes on messages that have arrived, at least one and at most some hundreds, so that a peer
   * that sends continuously gets no more of the caller's time than others. The remaining data stays
   * in the socket, never in this object, so the socket stays readable.
   *
   * @return false at the end of the stream
   * @throws IOException if the connection broke or the data is not authentic
   */
  boolean receiveTurn(Consumer<Message> handler) throws IOException {
    return receive(handler, TURN_BYTES);
  }

  private boolean receive(Consumer<Message> handler, long enoughBytes) throws IOException {
    boolean heard = false;
    for (long bytes = 0; !heard || bytes < enoughBytes; ) {
      in.limit(Math.min(in.capacity(), in.position() + TURN_BYTES));
      int count = channel.read(in);
      bytes += count;
      in.flip();
      for (Message message = next(); message != null; message = next()) {
        heard = true;
        handler.accept(message);
        if (!channel.isOpen()) {
          return true;
        }
      }
      makeRoom();
      if (count <= 0) {
        return count == 0;
      }
    }
    return true;
  }

  /**
   * Keeps the rest of the data, the begin of a message. The buffer grows with what has come and not
   * with the length that the message claims, which nothing has proven yet.
   */
  private void makeRoom() {
    int frameBytes = in.remaining() < 4 ? 0 : in.getInt(in.position()) + FRAME_OVERHEAD;
    if (in.remaining() == in.capacity()) {
      in = ByteBuffer.allocate(Math.min(frameBytes, 2 * in.capacity())).put(in);
    } else if (frameBytes <= FIRST_BYTES && in.capacity() > FIRST_BYTES) {
      in = ByteBuffer.allocate(FIRST_BYTES).put(in);
    } else {
      in.compact();
    }
  }

  private @Nullable Message next() throws IOException {
    if (in.remaining() < 4) {
      return null;
    }
    int start = in.position();
    int length = in.getInt(start);
    if (length < 1 || length > Wire.MAX_BYTES) {
      throw new IOException("it sent a frame of " + Integer.toUnsignedString(length) + " bytes");
    }
    if (in.remaining() < length + FRAME_OVERHEAD) {
      return null;
    }
    byte[] frame = new byte[length + FRAME_OVERHEAD];
    in.get(frame);
    byte[] mac = mac(receiveMac, received++, frame, 4 + length);
    if (!MessageDigest.isEqual(
        Arrays.copyOf(mac, FRAME_MAC_BYTES), Arrays.copyOfRange(frame, 4 + length, frame.length))) {
      throw new IOException("it sent a frame with a wrong MAC");
    }
    try {
      return wire.read(frame, 4, length, Message.class);
    } catch (IllegalArgumentException e) {
      throw new IOException("it sent what this version cannot read: " + e.getMessage(), e);
    }
  }

  private static byte[] mac(Mac mac, long number, byte[] frame, int length) {
    mac.reset(); // an error may have left the beginning of another frame in it
    for (int shift = 56; shift >= 0; shift -= 8) {
      mac.update((byte) (number >> shift));
    }
    mac.update(frame, 0, length);
    return mac.doFinal();
  }

  @Override
  public void close() throws IOException {
    channel.close();
  }

  /** The reason for a connection's end, as a clause for a message. */
  static String reason(IOException e) {
    String message = e.getMessage();
    return message == null
            || message.contains("Connection reset") // Java's own text
            || message.equals(BROKEN_PIPE)
        ? "connection closed"
        : message;
  }

  /** What Java says of EPIPE, which it reports by no type, in the language of the process. */
  private static String brokenPipe() {
    try {
      Pipe pipe = Pipe.open();
      try (Pipe.SinkChannel sink = pipe.sink()) {
        pipe.source().close();
        sink.write(ByteBuffer.allocate(1));
      }
    } catch (IOException e) {
      return String.valueOf(e.getMessage());
    }
    throw new IllegalStateException("a pipe without a reader took a byte");
  }
}
