package io.nvrar.internal.channel;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.internal.wire.OpenTicket;
import io.nvrar.standalone.ForkedMember;
import io.nvrar.standalone.GroupObserver;
import io.nvrar.standalone.GroupTicket;
import io.nvrar.standalone.Groups;
import io.nvrar.standalone.RawClient;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** A hub whose process has no file descriptor left while others connect. */
class ExhaustedHubTest {
  /** Below what any JVM has open. */
  private static final int NONE_LEFT = 10;

  private static final int ENOUGH = 1024;
  private static final int TICKS_A_SECOND = 100;
  private static final int SECONDS = 3;

  @Test
  void itWaitsForOneWithoutSpinningAndTheGroupGoesOn() throws Exception {
    List<RawClient> strangers = new ArrayList<>();
    try (ForkedMember hub = ForkedMember.create("fds", 2, 2000, "loop")) {
      GroupTicket ticket = hub.ticket();
      try (CollectiveGroup group = Groups.join(ticket, 1);
          DeviceBuffer buffer = group.device().allocate(DataType.FLOAT32, 1024)) {
        group.allReduce(buffer);
        limitFiles(hub, NONE_LEFT);
        for (int i = 0; i < 10; i++) {
          strangers.add(new RawClient(OpenTicket.of(ticket)));
        }
        long before = hubTicks(hub);
        long start = System.nanoTime();
        while (System.nanoTime() - start < TimeUnit.SECONDS.toNanos(SECONDS)) {
          group.allReduce(buffer);
        }
        assertThat(hubTicks(hub) - before)
            .as("ticks of the hub's thread in %d s", SECONDS)
            .isLessThan(SECONDS * TICKS_A_SECOND / 10);
        limitFiles(hub, ENOUGH);
        try (GroupObserver observer = Groups.observe(ticket)) {
          group.allReduce(buffer);
          assertThat(observer.failure()).isNull();
        }
      }
    } finally {
      strangers.forEach(RawClient::close);
    }
  }

  private static void limitFiles(ForkedMember process, int files) throws Exception {
    Process prlimit =
        new ProcessBuilder(
                "prlimit", "--pid", Long.toString(process.pid()), "--nofile=" + files + ":")
            .inheritIO()
            .start();
    assertThat(prlimit.waitFor()).isZero();
  }

  /** How long the hub's thread has run. */
  private static long hubTicks(ForkedMember process) throws IOException {
    try (Stream<Path> tasks = Files.list(Path.of("/proc", Long.toString(process.pid()), "task"))) {
      for (Path task : tasks.toList()) {
        if (Files.readString(task.resolve("comm")).strip().equals("nvrar-fds-hub")) {
          String stat = Files.readString(task.resolve("stat"));
          String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ", -1);
          return Long.parseLong(fields[11]) + Long.parseLong(fields[12]);
        }
      }
    }
    throw new AssertionError("the hub has no thread");
  }
}
