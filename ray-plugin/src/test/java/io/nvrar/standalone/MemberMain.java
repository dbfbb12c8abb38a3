package io.nvrar.standalone;

import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.PeerLostException;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Base64;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * A member, or an observer, as a process of its own. Says on standard output what happens, one line
 * each: TICKET, JOINED, SUM, FAILED, CLOSED.
 *
 * <p>Arguments: {@code create <name> <worldSize> <heartbeatMillis>}, or {@code ticket} for one in
 * Base64 on the first line of standard input; then {@code <rank> once|loop|observe}, or what the
 * member does after {@link #CALLS} calls: {@code differ}, {@code absent}, {@code abort} or {@code
 * abort-when-told}; {@code starve} to use up the heap until the group has failed; {@code idle} to
 * make none; {@code split} to loop in a group of two.
 */
final class MemberMain {
  /** How many calls a member makes before it does something else. */
  static final int CALLS = 3;

  private static final long STARVE_NANOS = TimeUnit.SECONDS.toNanos(4);

  private MemberMain() {}

  public static void main(String[] args) throws IOException {
    GroupTicket ticket;
    int next;
    if (args[0].equals("create")) {
      ticket =
          Groups.createTicket(
              args[1],
              Integer.parseInt(args[2]),
              Members.config()
                  .heartbeatLimit(Duration.ofMillis(Long.parseLong(args[3])))
                  .joinTimeout(Duration.ofSeconds(30))
                  .build(),
              Members.HOST);
      say("TICKET " + Base64.getEncoder().encodeToString(ticket.toBytes()));
      next = 4;
    } else {
      // Of what follows only the end is of interest, so it may be buffered.
      BufferedReader input =
          new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
      ticket = GroupTicket.of(Base64.getDecoder().decode(input.readLine()));
      next = 1;
    }
    int rank = Integer.parseInt(args[next]);
    if (args[next + 1].equals("observe")) {
      observe(ticket);
    } else {
      join(ticket, rank, args[next + 1]);
    }
  }

  private static void observe(GroupTicket ticket) {
    try (GroupObserver observer = Groups.observe(ticket)) {
      say("JOINED " + observer.name());
      System.in.read();
    } catch (IOException e) {
      say("FAILED " + e);
    }
  }

  private static void join(GroupTicket ticket, int rank, String mode) {
    try (CollectiveGroup group = Members.join(ticket, rank)) {
      say("JOINED " + ProcessHandle.current().pid());
      if (mode.equals("split")) {
        try (CollectiveGroup half = group.split(rank / 2, 0).orElseThrow()) {
          say("SPLIT " + half.name());
          work(half, "loop");
        }
      } else if (mode.equals("idle")) {
        leaveTheOrder(group, "absent");
      } else {
        work(group, mode);
      }
    } catch (RuntimeException e) {
      int lost = e instanceof PeerLostException peer ? peer.lostRank() : -1;
      say("FAILED " + e.getClass().getSimpleName() + " " + lost + " " + e.getMessage());
    }
    say("CLOSED");
  }

  private static void work(CollectiveGroup group, String mode) {
    try (DeviceBuffer buffer = group.device().allocate(DataType.FLOAT32, 1024)) {
      float[] values = new float[1024];
      for (int call = 1; ; call++) {
        Arrays.fill(values, group.rank() + 1);
        buffer.copyFrom(values);
        group.allReduce(buffer);
        buffer.copyTo(values);
        if (mode.equals("once")) {
          say("SUM " + values[0]);
          return;
        }
        if (call == CALLS && !mode.equals("loop")) {
          leaveTheOrder(group, mode);
        }
      }
    }
  }

  private static void leaveTheOrder(CollectiveGroup group, String mode) {
    switch (mode) {
      case "differ" -> {
        try (DeviceBuffer half = group.device().allocate(DataType.FLOAT32, 512)) {
          group.allReduce(half);
          Members.complete(group);
        }
      }
      case "absent" -> awaitInput(); // its end is that of the test
      case "abort" -> group.abort("the model is gone");
      case "starve" -> starve(group);
      case "abort-when-told" -> {
        awaitInput();
        group.abort("the model is gone");
      }
      default -> throw new IllegalArgumentException("no mode " + mode);
    }
  }

  /** Nothing can be allocated for a while; then everything is free again. */
  private static void starve(CollectiveGroup group) {
    LockSupport.parkNanos(1); // loads its class
    say("MAPPED " + TestBackend.mappedSegments().size());
    long end = System.nanoTime() + STARVE_NANOS;
    Object[] kept = null;
    while (System.nanoTime() < end) {
      try {
        while (true) {
          kept = new Object[] {kept, new byte[200]};
        }
      } catch (OutOfMemoryError large) {
        try {
          while (true) {
            kept = new Object[] {kept};
          }
        } catch (OutOfMemoryError small) {
          LockSupport.parkNanos(100_000_000); // for the other threads, between collections
        }
      }
    }
    kept = null;
    System.gc();
    // If only the hub was hit, this member is told as the others are.
    for (int i = 0; i < 500 && group.failure() == null; i++) {
      LockSupport.parkNanos(20_000_000);
    }
    say("FAILURE " + group.failure());
    long begin = System.nanoTime();
    group.close();
    long millis = (System.nanoTime() - begin) / 1_000_000;
    say("LEFT " + millis + " " + TestBackend.mappedSegments().size());
  }

  private static void awaitInput() {
    try {
      System.in.read();
    } catch (IOException e) {
      say("FAILED " + e);
    }
  }

  private static void say(String line) {
    System.out.println(line);
    System.out.flush();
  }
}
