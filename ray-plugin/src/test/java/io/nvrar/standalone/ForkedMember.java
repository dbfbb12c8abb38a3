package io.nvrar.standalone;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** A {@link MemberMain} in a JVM of its own, and what it says. */
public final class ForkedMember implements AutoCloseable {
  private final Process process;
  private final BlockingQueue<String> lines = new LinkedBlockingQueue<>();

  private ForkedMember(List<String> jvmOptions, String... arguments) throws IOException {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.addAll(List.of("-XX:TieredStopAtLevel=1", "-Xmx64m", "-Dkryo.unsafe=false"));
    command.add("--enable-native-access=ALL-UNNAMED");
    List<String> properties = new ArrayList<>(TestBackend.PROPERTIES);
    properties.addAll(List.of("nvrar.native.dir", "nvrar.flight.dir"));
    for (String property : properties) {
      String value = System.getProperty(property);
      if (value != null) {
        command.add("-D" + property + "=" + value);
      }
    }
    command.addAll(jvmOptions);
    command.addAll(List.of("-cp", System.getProperty("java.class.path")));
    command.add(MemberMain.class.getName());
    command.addAll(List.of(arguments));
    process = new ProcessBuilder(command).redirectErrorStream(true).start();
    Thread reader = new Thread(this::read, "output of pid " + process.pid());
    reader.setDaemon(true);
    reader.start();
  }

  /** Rank 0, with the rendezvous. */
  public static ForkedMember create(String name, int worldSize, long heartbeatMillis, String mode)
      throws IOException {
    return new ForkedMember(
        List.of(),
        "create",
        name,
        Integer.toString(worldSize),
        Long.toString(heartbeatMillis),
        "0",
        mode);
  }

  public static ForkedMember join(byte[] ticket, int rank, String mode, String... jvmOptions)
      throws IOException {
    ForkedMember member =
        new ForkedMember(List.of(jvmOptions), "ticket", Integer.toString(rank), mode);
    member.give(Base64.getEncoder().encodeToString(ticket));
    return member;
  }

  /** Not as an argument, which every user of the host can read. Its input stays open. */
  private void give(String ticket) throws IOException {
    Writer input = process.outputWriter(StandardCharsets.UTF_8);
    input.write(ticket + "\n");
    input.flush();
  }

  public static ForkedMember observe(byte[] ticket) throws IOException {
    return join(ticket, 0, "observe");
  }

  private void read() {
    try (BufferedReader reader =
        new BufferedReader(
            new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
      for (String line = reader.readLine(); line != null; line = reader.readLine()) {
        lines.add(line);
      }
    } catch (IOException e) {
      lines.add("output ended: " + e);
    }
    lines.add("EXIT");
  }

  public long pid() {
    return process.pid();
  }

  public byte[] ticket() throws InterruptedException {
    return Base64.getDecoder().decode(expect("TICKET").substring("TICKET ".length()));
  }

  /** The next line that begins with {@code word}. */
  public String expect(String word) throws InterruptedException {
    List<String> others = new ArrayList<>();
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(40);
    while (true) {
      String line = lines.poll(deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
      if (line == null || line.equals("EXIT")) {
        throw new AssertionError("pid " + pid() + " did not say " + word + " but " + others);
      }
      if (line.startsWith(word)) {
        return line;
      }
      others.add(line);
    }
  }

  /** SIGKILL. */
  public void kill() {
    process.destroyForcibly();
  }

  /** SIGSTOP, SIGCONT. */
  public void signal(String name) throws IOException, InterruptedException {
    Process kill = new ProcessBuilder("kill", "-" + name, Long.toString(pid())).start();
    if (kill.waitFor() != 0) {
      throw new IOException("kill -" + name + " failed");
    }
  }

  @Override
  public void close() {
    process.destroyForcibly().onExit().orTimeout(10, TimeUnit.SECONDS).join();
  }
}
