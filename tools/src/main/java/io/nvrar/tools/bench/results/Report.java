package io.nvrar.tools.bench.results;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.google.gson.JsonObject;
import io.nvrar.CollectiveException;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.Writer;
import java.lang.ProcessBuilder.Redirect;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/**
 * The program {@code native/bench/report}, which prints results, writes them into files, draws them
 * and compares them with earlier ones.
 */
public final class Report {
  private static final int WRONG = 3;
  private static final int SLOWER = 4;
  private static final String STANDARD_INPUT = "-";

  private final Path program;
  private final PrintWriter out;
  private final PrintWriter err;

  /**
   * Starts nothing yet.
   *
   * @param home the checkout
   * @param out gets the tables
   * @param err gets sentences about them, each with the name of the command
   */
  public Report(Path home, PrintWriter out, PrintWriter err) {
    this.program = home.resolve(Path.of("native", "bench", "report"));
    this.out = out;
    this.err = err;
  }

  /**
   * Looks whether files can be written and a baseline is of the same, before a measurement.
   *
   * @param options of the program
   * @param planned the line about the run, and one for each kind of result, with any times
   * @throws IOException if not, with the reason as one sentence
   */
  public void check(List<String> options, List<JsonObject> planned)
      throws IOException, InterruptedException {
    List<String> words = new ArrayList<>(options);
    words.add("--check");
    ofLines(words, planned);
  }

  /**
   * Reports lines of results.
   *
   * @return the exit code: 0, or 4 if ours are slower than a baseline
   * @throws IOException if it could not report them, as one sentence
   * @throws CollectiveException if it has, and something is wrong or was not measured, as one
   *     sentence
   */
  public int ofLines(List<String> options, List<JsonObject> lines)
      throws IOException, InterruptedException {
    return run(options, STANDARD_INPUT, lines);
  }

  /** Reports the results in a file, as {@link #ofLines} does. */
  public int ofFile(List<String> options, Path file) throws IOException, InterruptedException {
    return run(options, file.toString(), List.of());
  }

  private int run(List<String> options, String input, List<JsonObject> lines)
      throws IOException, InterruptedException {
    List<String> command = new ArrayList<>();
    // -E: what the user has set for Python, such as PYTHONHOME, is for other programs.
    command.addAll(
        List.of(System.getProperty("nvrar.python", "python3"), "-E", "-B", "-X", "utf8"));
    command.add(program.toString());
    command.addAll(options);
    command.addAll(List.of("--", input));
    Path said = Files.createTempFile("nvrar-report", ".err");
    try {
      ProcessBuilder builder =
          new ProcessBuilder(command).redirectError(Redirect.to(said.toFile()));
      Process process = start(builder);
      try {
        give(process, lines);
        out.print(new String(process.getInputStream().readAllBytes(), UTF_8));
        out.flush();
        return ended(process.waitFor(), Files.readString(said, UTF_8));
      } finally {
        process.destroyForcibly();
      }
    } finally {
      Files.delete(said);
    }
  }

  private static Process start(ProcessBuilder builder) throws IOException {
    try {
      return builder.start();
    } catch (IOException e) {
      throw new IOException(
          String.format(
              Locale.ROOT, "reports need %s, which is not here", builder.command().get(0)),
          e);
    }
  }

  // The program reads all of them before it writes anything.
  private static void give(Process process, List<JsonObject> lines) {
    try (Writer input = process.outputWriter(UTF_8)) {
      for (JsonObject line : lines) {
        input.write(line + "\n");
      }
    } catch (IOException e) {
      // It has ended, and has said why.
    }
  }

  private int ended(int code, String said) throws IOException {
    List<String> sentences = said.lines().toList();
    if (code == WRONG) {
      // What matplotlib logs comes before it.
      throw new CollectiveException(sentences.get(sentences.size() - 1));
    }
    if (code != 0 && code != SLOWER) {
      // The last line of a Python traceback says the most.
      throw new IOException(
          sentences.isEmpty() ? "no results" : sentences.get(sentences.size() - 1));
    }
    sentences.forEach(line -> err.println("nvrar: " + line));
    return code;
  }
}
