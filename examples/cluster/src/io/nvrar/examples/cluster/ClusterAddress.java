package io.nvrar.examples.cluster;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.nvrar.CollectiveException;
import io.nvrar.tools.ErrorStream;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Locale;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * Where the Ray cluster is: at the address that the user gives, or where bin/nvrar starts a private
 * one. A private cluster starts only when a command asks for it, so that wrong options are refused
 * before.
 */
public final class ClusterAddress {

  /** The directory of the process that keeps a private cluster; set by bin/nvrar. */
  static final String KEEPER_PROPERTY = "nvrar.cli.keeper";

  /** The id of that process. */
  static final String KEEPER_PID_PROPERTY = "nvrar.cli.keeper.pid";

  private static final String RAY_PROPERTY = "ray.address";
  private static final Pattern HOST_PORT = Pattern.compile(".+:[0-9]{1,5}");
  private static final int CONNECT_MILLIS = 3000;
  private static final int POLL_MILLIS = 20;

  /** The keeper itself gives up after 90 s. */
  private static final Duration START_LIMIT = Duration.ofSeconds(100);

  private ClusterAddress() {}

  /**
   * Tells Ray where the cluster is, so that this process can become its driver.
   *
   * @param given host:port of the cluster's head; null for the property {@code ray.address}, or for
   *     a private cluster, which then starts
   * @return whether there is a cluster
   * @throws CollectiveException if the address is malformed, if nothing answers at the address
   *     within 3 s, or if the private cluster does not start
   */
  public static boolean use(@Nullable String given) {
    String address = given == null ? System.getProperty(RAY_PROPERTY, "") : given;
    String keeper = System.getProperty(KEEPER_PROPERTY);
    if (!address.isEmpty()) {
      requireAnswer(address);
    } else if (keeper != null) {
      address = start(Path.of(keeper));
      // Otherwise Ray looks for the node at an address that others can reach, where nothing
      // listens.
      System.setProperty("ray.node-ip", address.substring(0, address.lastIndexOf(':')));
    } else {
      // Without an address Ray would start a cluster, and at the end stop every cluster on this
      // host.
      return false;
    }
    System.setProperty(RAY_PROPERTY, address);
    return true;
  }

  private static void requireAnswer(String address) {
    if (!HOST_PORT.matcher(address).matches()) {
      throw new CollectiveException(
          String.format(
              Locale.ROOT, "'%s', where a Ray cluster was to be, is no HOST:PORT", address));
    }
    int colon = address.lastIndexOf(':');
    try (Socket socket = new Socket()) {
      int port = Integer.parseInt(address.substring(colon + 1));
      socket.connect(new InetSocketAddress(address.substring(0, colon), port), CONNECT_MILLIS);
    } catch (IOException | IllegalArgumentException e) {
      throw new CollectiveException(
          String.format(
              Locale.ROOT,
              "nothing answers at %s, where a Ray cluster was to be: %s",
              address,
              e.getMessage()),
          e);
    }
  }

  private static String start(Path keeper) {
    boolean terminal = ErrorStream.isTerminal();
    // On a terminal the line goes when the cluster is there.
    System.err.print(
        "nvrar: starting a Ray cluster ..." + (terminal ? "" : System.lineSeparator()));
    System.err.flush();
    try {
      // For reading, too: opening the pipe does not wait for a keeper that has ended.
      try (RandomAccessFile requests = new RandomAccessFile(keeper.resolve("in").toFile(), "rw")) {
        requests.write("start\n".getBytes(UTF_8));
      }
      return answer(keeper.resolve("answer"));
    } catch (IOException e) {
      throw new CollectiveException("the process that keeps the Ray cluster has ended: " + e, e);
    } finally {
      if (terminal) {
        System.err.print("\r\033[K");
        System.err.flush();
      }
    }
  }

  private static String answer(Path file) throws IOException {
    long begin = System.nanoTime();
    while (!Files.exists(file)) {
      if (System.nanoTime() - begin > START_LIMIT.toNanos()) {
        throw new CollectiveException(
            "the process that keeps the Ray cluster has not answered within "
                + START_LIMIT.toSeconds()
                + " s");
      }
      if (hasKeeperEnded() && !Files.exists(file)) { // it may have answered just before
        throw new CollectiveException("the process that keeps the Ray cluster has ended");
      }
      try {
        Thread.sleep(POLL_MILLIS);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw new CollectiveException("interrupted while the Ray cluster started", e);
      }
    }
    String[] answer = Files.readString(file).strip().split(" ", 2);
    if (!answer[0].equals("ready")) {
      throw new CollectiveException(answer[1]);
    }
    return answer[1];
  }

  private static boolean hasKeeperEnded() {
    Long pid = Long.getLong(KEEPER_PID_PROPERTY);
    return pid != null && ProcessHandle.of(pid).isEmpty();
  }
}
