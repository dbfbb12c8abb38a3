package io.nvrar.internal.channel;

import static java.nio.charset.StandardCharsets.US_ASCII;

import io.nvrar.CollectiveException;
import io.nvrar.internal.binding.CloseOnExec;
import java.io.IOException;
import java.io.InputStream;
import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.NetworkInterface;
import java.net.SocketException;
import java.net.StandardProtocolFamily;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Makes the sockets of the control channel, and says of addresses what a message needs. */
public final class Sockets {
  private static final Logger LOG = LoggerFactory.getLogger(Sockets.class);

  private static final String IPV4_ONLY = "java.net.preferIPv4Stack";
  private static final Path PORT_RANGE = Path.of("/proc/sys/net/ipv4/ip_local_port_range");
  private static final int PORT_RANGE_BYTES = 64;

  /** This process cannot use an address of IPv6. */
  static final class NoIpv6Exception extends IOException {
    private static final long serialVersionUID = 1L;

    private NoIpv6Exception(String message, Throwable cause) {
      super(message, cause);
    }
  }

  private Sockets() {}

  /**
   * A socket that can connect to an address.
   *
   * @throws NoIpv6Exception if no socket of this process can
   */
  static SocketChannel open(InetAddress address) throws IOException {
    try {
      return address instanceof Inet6Address
          ? SocketChannel.open(StandardProtocolFamily.INET6)
          : SocketChannel.open();
    } catch (UnsupportedOperationException e) {
      throw noIpv6(address, e);
    }
  }

  /**
   * A socket that can listen at an address.
   *
   * @throws NoIpv6Exception if no socket of this process can
   */
  static ServerSocketChannel openServer(InetAddress address) throws IOException {
    try {
      return address instanceof Inet6Address
          ? ServerSocketChannel.open(StandardProtocolFamily.INET6)
          : ServerSocketChannel.open();
    } catch (UnsupportedOperationException e) {
      throw noIpv6(address, e);
    }
  }

  /**
   * Keeps a connection from programs that native code of this process starts, by {@code system()}
   * for example: with the socket a program would inherit the appearance that this process lives.
   * (The JDK's own way to start a program closes all descriptors.) Has no effect in a process that
   * has not loaded the native library.
   */
  public static void keepFromPrograms(SocketChannel channel) {
    keepFromPrograms(channel.socket().getLocalPort(), channel.socket().getPort());
  }

  /** The same for a socket that listens, whose port would stay in use. */
  static void keepFromPrograms(ServerSocketChannel channel) {
    keepFromPrograms(channel.socket().getLocalPort(), 0);
  }

  private static void keepFromPrograms(int localPort, int remotePort) {
    try {
      if (!CloseOnExec.set(localPort, remotePort)) {
        LOG.debug("no socket from port {} to {} needs close-on-exec", localPort, remotePort);
      }
    } catch (CollectiveException e) {
      LOG.warn("Programs that this process starts may inherit a connection: {}", e.getMessage());
    }
  }

  private static NoIpv6Exception noIpv6(InetAddress address, UnsupportedOperationException e) {
    return new NoIpv6Exception(
        String.format(
            Locale.ROOT,
            "%s is an IPv6 address, and %s",
            address.getHostAddress(),
            allowsIpv6() ? "this host has no IPv6" : "this JVM runs with -D" + IPV4_ONLY + "=true"),
        e);
  }

  /** What this JVM resolves names to, as the end of a sentence; "" if there is no restriction. */
  static String restriction() {
    return allowsIpv6()
        ? ""
        : " to an IPv4 address, and this JVM runs with -D" + IPV4_ONLY + "=true";
  }

  private static boolean allowsIpv6() {
    return !Boolean.getBoolean(IPV4_ONLY);
  }

  /**
   * Whether an address leads only to the host that uses it, as a clause: {@code 127.0.1.1 is a
   * loopback address}, {@code 172.17.0.1 is an address of this host (docker0)}; null if it leads to
   * another.
   */
  static @Nullable String ownership(InetAddress address) {
    if (address.isLoopbackAddress()) {
      return address.getHostAddress() + " is a loopback address";
    }
    try {
      NetworkInterface nic = NetworkInterface.getByInetAddress(address);
      return nic == null
          ? null
          : String.format(
              Locale.ROOT,
              "%s is an address of this host (%s)",
              address.getHostAddress(),
              nic.getName());
    } catch (SocketException e) {
      return null; // only a hint
    }
  }

  /**
   * The ports that the kernel gives to sockets that ask for any, for a message: {@code 32768 to
   * 60999 (net.ipv4.ip_local_port_range)}.
   */
  static String freePorts() {
    try (InputStream file = Files.newInputStream(PORT_RANGE)) {
      // In one read, because the kernel gives nothing to a second one.
      String range = new String(file.readNBytes(PORT_RANGE_BYTES), US_ASCII);
      return range.strip().replaceAll("\\s+", " to ") + " (net.ipv4.ip_local_port_range)";
    } catch (IOException e) {
      return "those of net.ipv4.ip_local_port_range";
    }
  }
}
