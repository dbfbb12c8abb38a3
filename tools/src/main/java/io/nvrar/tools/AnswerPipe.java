package io.nvrar.tools;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintWriter;
import java.lang.ProcessBuilder.Redirect;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import picocli.CommandLine;
import picocli.CommandLine.ParameterException;

/**
 * A pipe on which a JVM that a command has started sends its answers. Standard output and standard
 * error cannot be used, because the JVM itself writes there if an option such as {@code -Xlog:gc}
 * asks for it, possibly by {@code JAVA_TOOL_OPTIONS}.
 */
public final class AnswerPipe {
  private static final String DESCRIPTOR = "/proc/self/fd/3";

  /**
   * The property that marks descriptor 3 as the pipe; otherwise it may be a file of the JDK, or
   * anything else.
   */
  private static final String PROPERTY = "nvrar.answers";

  private AnswerPipe() {}

  /**
   * Prepares the start of a JVM with such a pipe. The process's input stream here is what it
   * {@linkplain #open answers}; what it writes to standard output and standard error goes to this
   * process's standard error.
   *
   * @param command the JVM's program and its arguments
   */
  public static ProcessBuilder starting(List<String> command) {
    // ProcessBuilder passes three descriptors; the shell opens the fourth and replaces itself by
    // the JVM.
    List<String> words =
        new ArrayList<>(List.of("/bin/sh", "-c", "exec \"$@\" 3>&1 >&2", "nvrar-answers"));
    words.add(command.get(0));
    words.add("-D" + PROPERTY + "=3");
    words.addAll(command.subList(1, command.size()));
    return new ProcessBuilder(words).redirectError(Redirect.INHERIT);
  }

  /**
   * Opens the pipe in a JVM that was started this way; a line is sent as soon as it is complete.
   *
   * @throws IOException if this process was not started this way
   */
  public static PrintWriter open() throws IOException {
    if (System.getProperty(PROPERTY) == null
        || !Files.readSymbolicLink(Path.of(DESCRIPTOR)).toString().startsWith("pipe:")) {
      throw new IOException("there is no pipe for this process's answers");
    }
    return new PrintWriter(new FileOutputStream(DESCRIPTOR, true), true, UTF_8);
  }

  /**
   * {@link #open()} for a command that a user may have started with an internal option.
   *
   * @throws ParameterException if this process was not started this way
   */
  public static PrintWriter open(CommandLine command) {
    try {
      return open();
    } catch (IOException e) {
      throw new ParameterException(
          command,
          "this option is for processes that the command starts by itself: there is no pipe for the answers",
          e);
    }
  }
}
