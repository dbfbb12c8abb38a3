package io.nvrar.internal.channel;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.internal.wire.OpenTicket;
import io.nvrar.standalone.ForkedMember;
import io.nvrar.standalone.GroupTicket;
import io.nvrar.standalone.Groups;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Strangers who connect to a running group faster than anyone could serve them. */
class ConnectionStormTest {
  private static final int STRANGERS = 16;
  private static final Duration HEARTBEAT_LIMIT = Duration.ofSeconds(2);
  private static final long STORM_NANOS = TimeUnit.SECONDS.toNanos(6);

  private final AtomicLong connections = new AtomicLong();
  private volatile boolean calm;

  @Test
  void aRunningGroupOutlivesAStormAndItsHubHoldsFewSockets() throws Exception {
    try (ForkedMember hub = ForkedMember.create("stormed", 2, HEARTBEAT_LIMIT.toMillis(), "loop")) {
      GroupTicket given = hub.ticket();
      OpenTicket ticket = OpenTicket.of(given);
      List<Thread> strangers = new ArrayList<>();
      try (CollectiveGroup group = Groups.join(given, 1);
          DeviceBuffer buffer = group.device().allocate(DataType.FLOAT32, 1024)) {
        group.allReduce(buffer);
        long before = openFiles(hub.pid());
        for (int i = 0; i < STRANGERS; i++) {
          Thread stranger = new Thread(() -> storm(ticket), "stranger-" + i);
          stranger.start();
          strangers.add(stranger);
        }
        long start = System.nanoTime();
        long most = 0;
        for (int calls = 1; System.nanoTime() - start < STORM_NANOS; calls++) {
          group.allReduce(buffer);
          if (calls % 64 == 0) {
            most = Math.max(most, openFiles(hub.pid()));
          }
        }
        assertThat(connections.get()).isGreaterThan(10L * Admission.MAX_PENDING);
        assertThat(most - before)
            .isLessThanOrEqualTo(Admission.MAX_PENDING + Admission.MAX_ACCEPTS + 2);
      } finally {
        calm = true;
        for (Thread stranger : strangers) {
          stranger.join(10_000);
        }
      }
    }
  }

  private void storm(OpenTicket ticket) {
    InetSocketAddress address = new InetSocketAddress(ticket.host(), ticket.port());
    while (!calm) {
      try (Socket socket = new Socket()) {
        socket.setSoLinger(true, 0); // leaves no port behind that would end the storm
        socket.connect(address, 200);
        connections.incrementAndGet();
      } catch (IOException e) {
        Thread.onSpinWait(); // the backlog is full: that is a storm, too
      }
    }
  }

  private static long openFiles(long pid) throws IOException {
    try (Stream<Path> open = Files.list(Path.of("/proc", Long.toString(pid), "fd"))) {
      return open.count();
    }
  }
}
