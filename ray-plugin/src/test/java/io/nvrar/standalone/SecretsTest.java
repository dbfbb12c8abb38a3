package io.nvrar.standalone;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.internal.wire.Crypto;
import io.nvrar.internal.wire.GroupKeys;
import io.nvrar.internal.wire.OpenTicket;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A ticket's secret shows nowhere but in the ticket. */
class SecretsTest {
  private static final List<String> GROUPS = List.of("lives", "split", "fails", "refuses");

  @TempDir Path scratch;

  @Test
  void noSecretIsInLogsTextsArgumentsEnvironmentOrFlightRecord() throws Exception {
    Path tickets = Files.createDirectory(scratch.resolve("tickets"));
    Path flight = scratch.resolve("flight");
    Path output = scratch.resolve("output");
    Process process = start(tickets, flight, output);
    Map<String, byte[]> places = new LinkedHashMap<>();
    try {
      awaitDone(process, output);
      for (String file : List.of("cmdline", "environ", "comm", "maps")) {
        Path path = Path.of("/proc", Long.toString(process.pid()), file);
        places.put(path.toString(), Files.readAllBytes(path));
      }
      places.putAll(contents(Path.of("/proc", Long.toString(process.pid()), "task"), "comm"));
    } finally {
      process.destroyForcibly().onExit().get(10, TimeUnit.SECONDS);
    }
    places.put("output", Files.readAllBytes(output));
    Map<String, byte[]> records = contents(flight, "");
    assertThat(records).as("the flight record of the group that failed").isNotEmpty();
    places.putAll(records);
    // What is searched holds what it should: the log of every level, texts and exceptions.
    assertThat(Files.readString(output))
        .contains(
            "DEBUG",
            "does not know the ticket's secret",
            "GroupMismatchException",
            "GroupTicket[",
            "GroupKeys[");

    for (String group : GROUPS) { // "split" has a secret that was derived
      byte[] ticket = Files.readAllBytes(tickets.resolve(group));
      SecretTraces traces = new SecretTraces(OpenTicket.of(ticket).secret());
      places.forEach(
          (place, bytes) -> assertThat(traces.in(bytes)).as("group %s, %s", group, place).isNull());
    }
  }

  @Test
  void everyFormOfASecretWouldBeFound() {
    byte[] secret = Crypto.random(GroupKeys.SECRET_BYTES);
    SecretTraces traces = new SecretTraces(secret);
    for (Map.Entry<String, byte[]> form : traces.forms()) {
      byte[] text = new byte[form.getValue().length + 7];
      System.arraycopy(form.getValue(), 0, text, 5, form.getValue().length);
      assertThat(traces.in(text)).as(form.getKey()).isNotNull();
    }
    assertThat(traces.in(Crypto.random(100_000))).isNull();
    // In a ticket as Base64, as somebody could print it.
    for (int before = 0; before < 3; before++) {
      byte[] ticket = new byte[before + secret.length + 5];
      System.arraycopy(secret, 0, ticket, before, secret.length);
      String text = java.util.Base64.getEncoder().encodeToString(ticket);
      assertThat(traces.in(text.getBytes(java.nio.charset.StandardCharsets.US_ASCII))).isNotNull();
    }
  }

  private static Process start(Path tickets, Path flight, Path output) throws IOException {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.addAll(List.of("-XX:TieredStopAtLevel=1", "-Xmx64m", "-Dkryo.unsafe=false"));
    command.add("--enable-native-access=ALL-UNNAMED");
    command.add("-Dorg.slf4j.simpleLogger.defaultLogLevel=trace");
    command.add("-Dnvrar.debug.leaks=true");
    command.add("-Dnvrar.flight.dir=" + flight);
    command.addAll(List.of("-cp", System.getProperty("java.class.path")));
    command.addAll(List.of(SecretsMain.class.getName(), tickets.toString()));
    return new ProcessBuilder(command)
        .redirectErrorStream(true)
        .redirectOutput(output.toFile())
        .start();
  }

  private static void awaitDone(Process process, Path output) throws Exception {
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(90);
    while (!Files.readString(output).contains("DONE")) {
      assertThat(process.isAlive() && System.nanoTime() < deadline).as(() -> read(output)).isTrue();
      Thread.sleep(50);
    }
  }

  private static String read(Path file) {
    try {
      return Files.readString(file);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** The files below a directory whose names end so. */
  private static Map<String, byte[]> contents(Path directory, String ending) throws IOException {
    Map<String, byte[]> contents = new LinkedHashMap<>();
    try (Stream<Path> files = Files.walk(directory, 2)) {
      for (Path file : files.filter(path -> path.toString().endsWith(ending)).toList()) {
        if (!Files.isDirectory(file)) {
          contents.put(file.toString(), Files.readAllBytes(file));
        }
      }
    }
    return contents;
  }
}
