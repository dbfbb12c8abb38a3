package io.nvrar.standalone;

import io.nvrar.support.ChildJvm;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.function.Consumer;

/** A {@link MemberMain} in a JVM of its own, and what it says. */
public final class ForkedMember implements AutoCloseable {
  private static final Duration LIMIT = Duration.ofSeconds(40);

  private final ChildJvm jvm;

  private ForkedMember(Consumer<ChildJvm.Builder> how, String... arguments) throws IOException {
    List<String> properties = new ArrayList<>(TestBackend.PROPERTIES);
    properties.addAll(List.of("nvrar.native.dir", "nvrar.flight.dir"));
    ChildJvm.Builder builder =
        ChildJvm.of(MemberMain.class.getName(), arguments)
            .options("-XX:TieredStopAtLevel=1", "-Xmx64m", "-Dkryo.unsafe=false")
            .options("--enable-native-access=ALL-UNNAMED");
    for (String property : properties) {
      String value = System.getProperty(property);
      if (value != null) {
        builder.options("-D" + property + "=" + value);
      }
    }
    how.accept(builder);
    jvm = builder.start();
  }

  /** Rank 0, with the rendezvous. */
  public static ForkedMember create(String name, int worldSize, long heartbeatMillis, String mode)
      throws IOException {
    return new ForkedMember(
        how -> {},
        "create",
        name,
        Integer.toString(worldSize),
        Long.toString(heartbeatMillis),
        "0",
        mode);
  }

  public static ForkedMember join(GroupTicket ticket, int rank, String mode, String... jvmOptions)
      throws IOException {
    return join(ticket, rank, mode, how -> how.options(jvmOptions));
  }

  /** One whose JVM is started in another way. */
  static ForkedMember join(
      GroupTicket ticket, int rank, String mode, Consumer<ChildJvm.Builder> how)
      throws IOException {
    ForkedMember member = new ForkedMember(how, "ticket", Integer.toString(rank), mode);
    // Not as an argument, which every user of the host can read.
    member.jvm.say(Base64.getEncoder().encodeToString(ticket.toBytes()));
    return member;
  }

  public static ForkedMember observe(GroupTicket ticket) throws IOException {
    return join(ticket, 0, "observe");
  }

  public long pid() {
    return jvm.pid();
  }

  public GroupTicket ticket() throws InterruptedException {
    return GroupTicket.of(
        Base64.getDecoder().decode(expect("TICKET").substring("TICKET ".length())));
  }

  /** The next line that begins with {@code word}. */
  public String expect(String word) throws InterruptedException {
    return word + jvm.awaitLine(word, LIMIT);
  }

  /** Has a member that waits to be told go on. */
  void tell() throws IOException {
    jvm.say("");
  }

  /** SIGKILL. */
  public void kill() {
    jvm.kill();
  }

  /** Such as {@code STOP} or {@code CONT}. */
  public void signal(String name) throws IOException, InterruptedException {
    jvm.signal(name);
  }

  @Override
  public void close() {
    jvm.close();
  }
}
