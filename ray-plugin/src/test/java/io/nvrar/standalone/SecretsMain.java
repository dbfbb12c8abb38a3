package io.nvrar.standalone;

import io.nvrar.CollectiveException;
import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.ReduceOp;
import io.nvrar.internal.channel.Dialer;
import io.nvrar.internal.channel.FramedChannel;
import io.nvrar.internal.channel.Handshake;
import io.nvrar.internal.wire.GroupKeys;
import io.nvrar.internal.wire.GroupSpec;
import io.nvrar.internal.wire.Message;
import io.nvrar.internal.wire.OpenTicket;
import io.nvrar.internal.wire.ProcessIdentity;
import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Everything that could say too much: groups that live, split, fail and refuse, and the text of
 * whatever they are made of. The arguments are where to write the tickets; it waits for a byte
 * before it ends.
 */
final class SecretsMain {
  private SecretsMain() {}

  public static void main(String[] args) throws Exception {
    Path tickets = Path.of(args[0]);
    ExecutorService threads = Executors.newCachedThreadPool();
    lives(threads, kept(tickets, "lives"), tickets.resolve("split"));
    fails(threads, kept(tickets, "fails"));
    refuses(kept(tickets, "refuses"));
    threads.shutdownNow();
    System.out.println("DONE");
    System.out.flush();
    System.in.read();
  }

  private static GroupTicket kept(Path tickets, String name) throws IOException {
    GroupTicket ticket =
        Groups.createTicket(
            name, 2, Members.config().timeout(Duration.ofMillis(300)).build(), Members.HOST);
    Files.write(tickets.resolve(name), ticket.toBytes());
    return ticket;
  }

  private static void lives(ExecutorService threads, GroupTicket given, Path split)
      throws Exception {
    OpenTicket ticket = OpenTicket.of(given);
    say(
        given,
        ticket.spec(),
        ticket.keys(),
        new Handshake(ticket.keys()),
        new Dialer(ticket.spec(), new Handshake(ticket.keys()), Handshake.Role.MEMBER, 1));
    try (GroupObserver observer = Groups.observe(given)) {
      Members.getAll(
          threads, List.of(() -> member(given, 0, split), () -> member(given, 1, split)));
      say(observer);
    }
  }

  private static Void member(GroupTicket given, int rank, Path split) throws Exception {
    try (CollectiveGroup group = Groups.join(given, rank);
        DeviceBuffer buffer = group.device().allocate(DataType.FLOAT32, 8)) {
      group.allReduce(buffer);
      CollectiveGroup half = group.split(0, rank).orElseThrow();
      half.barrier();
      if (rank == 0) {
        Object splitting = field(field(half, "member"), "splitting");
        GroupKeys keys = (GroupKeys) field(splitting, "keys");
        GroupSpec spec = (GroupSpec) field(half, "spec");
        Files.write(split, OpenTicket.of(spec, keys).toBytes());
      }
      say(group, half, buffer, group.device(), group.config(), group.health(), half.health());
      half.close();
    }
    return null;
  }

  private static Object field(Object of, String name) throws ReflectiveOperationException {
    Field field = of.getClass().getDeclaredField(name);
    field.setAccessible(true);
    return Objects.requireNonNull(field.get(of));
  }

  private static void fails(ExecutorService threads, GroupTicket given) {
    List<Callable<Void>> members = new ArrayList<>();
    for (int r = 0; r < 2; r++) {
      int rank = r;
      members.add(
          () -> {
            try (CollectiveGroup group = Groups.join(given, rank);
                DeviceBuffer buffer = group.device().allocate(DataType.FLOAT32, 8 + rank)) {
              attempt(() -> group.allReduce(buffer, ReduceOp.SUM));
              attempt(group::barrier);
              say(group, group.health());
            }
            return null;
          });
    }
    Members.getAll(threads, members);
  }

  private static void refuses(GroupTicket given) throws Exception {
    OpenTicket ticket = OpenTicket.of(given);
    byte[] other = ticket.secret().clone();
    other[31] ^= 1;
    OpenTicket wrong = ticket.withSecret(other);
    attempt(() -> Groups.join(wrong.toGroupTicket(), 1));
    attempt(() -> Groups.join(given, 7));
    byte[] damaged = given.toBytes();
    damaged[damaged.length - 1] ^= 1;
    attempt(() -> Groups.join(GroupTicket.of(damaged), 1));
    try (FramedChannel channel =
        new Dialer(ticket.spec(), new Handshake(ticket.keys()), Handshake.Role.MEMBER, 1)
            .dial(Duration.ofSeconds(5))) {
      say(channel, channel.channel());
      ProcessIdentity process = ProcessIdentity.current();
      channel.send(new Message.Hello(process, "1", "another build", 3, "CPU"));
      say(RawClient.firstMessage(channel));
    }
    attempt(() -> Groups.join(given, 0));
  }

  private static void attempt(Runnable call) {
    try {
      call.run();
      throw new AssertionError("it did not fail");
    } catch (CollectiveException | IllegalArgumentException e) {
      e.printStackTrace();
      System.out.println(e);
    }
  }

  private static void say(Object... things) {
    for (Object thing : things) {
      System.out.println(thing);
    }
  }
}
