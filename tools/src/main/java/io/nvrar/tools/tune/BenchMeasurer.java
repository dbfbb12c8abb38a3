package io.nvrar.tools.tune;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.google.gson.Gson;
import com.google.gson.JsonSyntaxException;
import io.nvrar.TuningTable.Rule;
import io.nvrar.tools.bench.measure.NoMulticast;
import io.nvrar.tools.bench.setup.OptionNames;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.nio.channels.Channels;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/** Measures by {@code nvrar_bench --tune 1}, whose group is created once for all points. */
final class BenchMeasurer implements Measurer {
  /** Longer than the program's own limits for a call and for a meeting of its ranks. */
  private static final int LIMIT_SECONDS = 150;

  private static final int GRACE_SECONDS = 5;
  private static final Gson GSON = new Gson();
  private static final String END = "";

  /** The program's first line. */
  private record Head(int architecture, @Nullable String device, @Nullable String library) {}

  /** Any other line. */
  private record Answer(double median, double least, double most, long wrong) {}

  private final Process process;
  private final FileChannel errors;
  private final Thread end;
  private final BlockingQueue<String> lines = new ArrayBlockingQueue<>(16);
  private final Head head;

  private BenchMeasurer(Process process, FileChannel errors)
      throws IOException, InterruptedException {
    this.process = process;
    this.errors = errors;
    end = new Thread(process::destroy, "tune-end");
    Runtime.getRuntime().addShutdownHook(end);
    Thread reader = new Thread(this::read, "tune-answers");
    reader.setDaemon(true);
    reader.start();
    try {
      head = GSON.fromJson(next(), Head.class);
    } catch (IOException | InterruptedException | RuntimeException e) {
      close();
      throw e;
    }
  }

  /**
   * Starts the program and waits until its group is there.
   *
   * @throws IOException with what the program says, if it ends
   */
  static BenchMeasurer start(Path program, TuneSettings settings)
      throws IOException, InterruptedException {
    Path file = Files.createTempFile("nvrar-tune", ".err");
    try {
      FileChannel errors = FileChannel.open(file);
      ProcessBuilder builder =
          new ProcessBuilder(command(program, settings)).redirectError(file.toFile());
      builder.environment().putAll(NoMulticast.ENVIRONMENT);
      return new BenchMeasurer(builder.start(), errors);
    } finally {
      Files.delete(file); // both have it open; so nothing is left of a run that is killed
    }
  }

  static List<String> command(Path program, TuneSettings settings) {
    List<String> command =
        new ArrayList<>(
            List.of(
                program.toString(),
                "--tune",
                "1",
                "--backend",
                OptionNames.of(settings.backend()),
                "--collective",
                OptionNames.of(settings.collective()),
                "--type",
                OptionNames.of(settings.type()),
                "--processes",
                Integer.toString(settings.ranks())));
    if (settings.inNodes()) {
      command.addAll(List.of("--ranks-per-node", Integer.toString(settings.ranksPerNode())));
    }
    if (settings.gpus() != 0) {
      command.addAll(List.of("--gpus", Integer.toString(settings.gpus())));
    }
    return command;
  }

  /** Of the machine that is measured, as rules name it. */
  String architecture() {
    return Rule.architectureOf(head.architecture());
  }

  /** The GPU's name, or CPU. */
  String device() {
    return head.device() == null ? "unknown" : head.device();
  }

  /** The build of the library that is measured. */
  String library() {
    return head.library() == null ? "unknown" : head.library();
  }

  @Override
  public Timing measure(Point point) throws IOException {
    Candidate candidate = point.candidate();
    String line =
        String.format(
            Locale.ROOT,
            "%d %s %d %d %d\n",
            point.bytes(),
            OptionNames.of(candidate.algorithm()),
            candidate.blocks(),
            candidate.tiles(),
            point.repeats());
    try {
      Writer in = process.outputWriter(UTF_8);
      in.write(line);
      in.flush();
    } catch (IOException e) {
      throw said("it has ended", e);
    }
    try {
      Answer answer = GSON.fromJson(next(), Answer.class);
      return new Timing(answer.median(), answer.least(), answer.most(), answer.wrong());
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IOException("interrupted while nvrar_bench measures " + candidate, e);
    } catch (JsonSyntaxException e) {
      throw said("its answer is not JSON", e);
    }
  }

  private String next() throws IOException, InterruptedException {
    String line = lines.poll(LIMIT_SECONDS, TimeUnit.SECONDS);
    if (line == null) {
      throw said(String.format(Locale.ROOT, "it has not answered for %d s", LIMIT_SECONDS), null);
    }
    if (line.equals(END)) {
      process.waitFor(GRACE_SECONDS, TimeUnit.SECONDS);
      throw said("it has ended", null);
    }
    return line;
  }

  private void read() {
    try (BufferedReader out = process.inputReader(UTF_8)) {
      for (String line = out.readLine(); line != null; line = out.readLine()) {
        lines.put(line);
      }
    } catch (IOException | UncheckedIOException e) {
      // The process was ended; whoever waits hears that.
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    if (!lines.offer(END)) {
      lines.clear();
      lines.add(END);
    }
  }

  private IOException said(String why, @Nullable Exception cause) throws IOException {
    String text =
        new String(Channels.newInputStream(errors.position(0)).readAllBytes(), UTF_8)
            .lines()
            .filter(line -> line.startsWith("nvrar_bench: "))
            .findFirst()
            .map(line -> line.substring("nvrar_bench: ".length()))
            .orElse(why);
    return new IOException("nvrar_bench cannot measure: " + text, cause);
  }

  @Override
  public void close() throws IOException {
    List<ProcessHandle> ranks = process.descendants().toList();
    try {
      // The end of its input ends it.
      process.outputWriter(UTF_8).close();
    } catch (IOException e) {
      // It has ended before.
    }
    try {
      if (!process.waitFor(GRACE_SECONDS, TimeUnit.SECONDS)) {
        process.destroyForcibly();
      }
    } catch (InterruptedException e) {
      process.destroyForcibly();
      Thread.currentThread().interrupt();
    }
    ranks.forEach(ProcessHandle::destroyForcibly);
    try {
      Runtime.getRuntime().removeShutdownHook(end);
    } catch (IllegalStateException e) {
      // This JVM is ending, and runs the hook.
    }
    errors.close();
  }
}
