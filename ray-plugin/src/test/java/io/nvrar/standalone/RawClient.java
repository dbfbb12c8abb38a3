package io.nvrar.standalone;

import io.nvrar.device.Devices;
import io.nvrar.internal.LibraryVersion;
import io.nvrar.internal.binding.NativeCommunicator;
import io.nvrar.internal.channel.Dialer;
import io.nvrar.internal.channel.FramedChannel;
import io.nvrar.internal.channel.Handshake;
import io.nvrar.internal.wire.Message;
import io.nvrar.internal.wire.OpenTicket;
import io.nvrar.internal.wire.ProcessIdentity;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketException;
import java.net.SocketTimeoutException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/** A connection to a rendezvous that does what a test wants, not what a member would. */
public final class RawClient implements AutoCloseable {
  final Socket socket;

  public RawClient(OpenTicket ticket) throws IOException {
    socket = new Socket();
    socket.connect(new InetSocketAddress(ticket.host(), ticket.port()), 5000);
    socket.setSoTimeout(10_000);
  }

  public void write(byte[] bytes) throws IOException {
    socket.getOutputStream().write(bytes);
  }

  public byte[] read(int bytes) throws IOException {
    return socket.getInputStream().readNBytes(bytes);
  }

  /** What an honest member of this process would say. */
  public static Message.Hello hello(OpenTicket ticket) {
    return new Message.Hello(
        ProcessIdentity.ofMember(),
        LibraryVersion.get(),
        NativeCommunicator.buildId(),
        ticket.worldSize(),
        Devices.resolve(ticket.config().backend()).name());
  }

  /** Whether the other end closes without another byte. */
  public boolean isHungUpOn() throws IOException {
    InputStream in = socket.getInputStream();
    try {
      return in.read() < 0;
    } catch (SocketException e) {
      return true;
    }
  }

  /** Whether the other end has closed, whatever it said before; looks for a moment. */
  public boolean hasEnded() throws IOException {
    socket.setSoTimeout(20);
    try {
      socket.getInputStream().readAllBytes();
      return true;
    } catch (SocketTimeoutException e) {
      return false;
    } catch (SocketException e) {
      return true;
    }
  }

  /** Proves that it knows the secret, and returns what to sign its frames with. */
  public Handshake.Keys prove(OpenTicket ticket, Handshake.Role role, int rank) throws IOException {
    Handshake handshake = new Handshake(ticket.keys());
    byte[] hello = handshake.clientHello(role, rank);
    write(hello);
    byte[] answer = read(Handshake.SERVER_HELLO_BYTES);
    write(handshake.clientProof(hello, answer));
    if (!handshake.isAdmission(hello, answer, read(Handshake.ADMISSION_BYTES))) {
      throw new IOException("not admitted");
    }
    return handshake.keys(hello, answer);
  }

  /** An authenticated channel that greets as somebody else. */
  public static FramedChannel admitted(OpenTicket ticket, int rank, Message.Hello hello)
      throws IOException {
    FramedChannel channel =
        new Dialer(ticket.spec(), new Handshake(ticket.keys()), Handshake.Role.MEMBER, rank)
            .dial(Duration.ofSeconds(5));
    channel.send(hello);
    return channel;
  }

  /** The first message but heartbeats. */
  public static Message firstMessage(FramedChannel channel) throws Exception {
    List<Message> messages = new ArrayList<>();
    long deadline = System.nanoTime() + 10_000_000_000L;
    while (System.nanoTime() < deadline) {
      boolean open = channel.receive(messages::add);
      for (Message message : messages) {
        if (!(message instanceof Message.Heartbeat)) {
          return message;
        }
      }
      if (!open) {
        break;
      }
      Thread.sleep(5);
    }
    throw new AssertionError("the rendezvous said nothing");
  }

  @Override
  public void close() {
    try {
      socket.close();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
