package io.nvrar.standalone;

import static org.assertj.core.api.Assertions.assertThat;

import com.sun.jna.NativeLibrary;
import io.nvrar.CollectiveGroup;
import io.nvrar.GroupConfig;
import io.nvrar.PeerLostException;
import io.nvrar.support.ChildJvm;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Base64;
import java.util.Locale;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A program that native code of a member starts, and that outlives the member. */
@Tag("host")
class InheritedSocketsTest {
  /** Longer than a test waits: the loss is to be seen by the socket. */
  private static final Duration LONG = Duration.ofMinutes(5);

  private static final Pattern SOCKET = Pattern.compile("socket:\\[(\\d+)\\]");

  @TempDir private Path scratch;
  private final ExecutorService threads = Executors.newCachedThreadPool();

  @AfterEach
  void end() {
    threads.shutdownNow();
  }

  @Test
  void aProgramThatAMemberStartsHasNoneOfItsSocketsAndHidesNoLoss() throws Exception {
    int port;
    try (ServerSocket free = new ServerSocket(0)) {
      port = free.getLocalPort();
    }
    Path descriptors = scratch.resolve("descriptors");
    Path pid = scratch.resolve("pid");
    long program;
    try (ChildJvm zero =
        ChildJvm.of(Starter.class.getName(), "" + port, descriptors.toString(), pid.toString())
            .options("-XX:TieredStopAtLevel=1", "-Xmx64m", "-Dkryo.unsafe=false")
            .options("-Dnvrar.flight.dir=" + System.getProperty("nvrar.flight.dir"))
            .start()) {
      GroupTicket ticket = GroupTicket.of(Base64.getDecoder().decode(zero.awaitLine("TICKET ")));
      try (CollectiveGroup one = Members.join(ticket, 1)) {
        zero.awaitLine("STARTED");
        program = Long.parseLong(Files.readString(pid).strip());
        try {
          zero.kill();
          Future<?> call = threads.submit(() -> Members.barrier(one));
          assertThat(Members.failureOf(call))
              .isInstanceOfSatisfying(
                  PeerLostException.class, lost -> assertThat(lost.lostRank()).isZero())
              .hasMessageContaining("connection closed");
          assertThat(ProcessHandle.of(program)).as("the program lives").isPresent();
          // The JDK has a pair of Unix sockets besides.
          assertThat(Files.readString(descriptors)).contains(" 0 -> ");
          String connections =
              Files.readString(Path.of("/proc/net/tcp"))
                  + Files.readString(Path.of("/proc/net/tcp6"));
          assertThat(
                  SOCKET
                      .matcher(Files.readString(descriptors))
                      .results()
                      .filter(socket -> connections.contains(" " + socket.group(1) + " ")))
              .isEmpty();
          GroupConfig config = Members.config().rendezvousPort(port).build();
          Groups.discardTicket(Groups.createTicket("again", 1, config, Members.HOST));
        } finally {
          ProcessHandle.of(program).ifPresent(ProcessHandle::destroyForcibly);
        }
      }
    }
  }

  /** Rank 0; once the group is made it starts a program by system(). */
  static final class Starter {
    private Starter() {}

    public static void main(String[] args) throws Exception {
      GroupConfig config =
          Members.config()
              .rendezvousPort(Integer.parseInt(args[0]))
              .heartbeatLimit(LONG)
              .timeout(LONG)
              .build();
      GroupTicket ticket = Groups.createTicket("parent", 2, config, Members.HOST);
      System.out.println("TICKET " + Base64.getEncoder().encodeToString(ticket.toBytes()));
      try (CollectiveGroup group = Members.join(ticket, 0);
          GroupObserver observer = Groups.observe(ticket)) {
        NativeLibrary.getInstance("c")
            .getFunction("system")
            .invokeInt(
                new Object[] {
                  String.format(
                      Locale.ROOT,
                      "ls -l /proc/self/fd > '%s'; sleep 300 > /dev/null 2>&1 & echo $! > '%s'",
                      args[1],
                      args[2])
                });
        System.out.println("STARTED with " + group + " and " + observer);
        System.in.read();
      }
    }
  }
}
