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
 * The way by which a JVM that a command has started answers: a pipe of its own. Standard output
 * does not do, because the JVM itself writes there when an option such as {@code -Xlog:gc} asks it
 * to, also one of {@code JAVA_TOOL_OPTIONS}; nor does standard error.
 */
public final class AnswerPipe {
  private static final String DESCRIPTOR = "/proc/self/fd/3";

  /** Says that descriptor 3 is the pipe: else a JVM has a file of the JDK's there, or anything. */
  private static final String PROPERTY = "nvrar.answers";

  private AnswerPipe() {}

  /**
   * How to start a JVM that answers. The process's input stream here is what it {@linkplain #open
   * answers}; what it writes to standard output and standard error goes to this process's standard
   * error.
   *
   * @param command the JVM's program and its arguments
   */
  public static ProcessBuilder starting(List<String> command) {
    // ProcessBuilder hands three descriptors over; the shell makes the fourth and is gone then.
    List<String> words =
        new ArrayList<>(List.of("/bin/sh", "-c", "exec \"$@\" 3>&1 >&2", "nvrar-answers"));
    words.add(command.get(0));
    words.add("-D" + PROPERTY + "=3");
    words.addAll(command.subList(1, command.size()));
    return new ProcessBuilder(words).redirectError(Redirect.INHERIT);
  }

  /**
   * Where a JVM that was started so writes its answers; a line is sent as soon as it is whole.
   *
   * @throws IOException if this process was not started so
   */
  public static PrintWriter open() throws IOException {
    if (System.getProperty(PROPERTY) == null
        || !Files.readSymbolicLink(Path.of(DESCRIPTOR)).toString().startsWith("pipe:")) {
      throw new IOException("there is no pipe for this process's answers");
    }
    return new PrintWriter(new FileOutputStream(DESCRIPTOR, true), true, UTF_8);
  }

  /**
   * {@link #open()} for a command that its user may have told to be a member.
   *
   * @throws ParameterException if this process was not started so
   */
  public static PrintWriter open(CommandLine command) {
    try {
      return open();
    } catch (IOException e) {
      throw new ParameterException(
          command,
          "the command itself starts its members: there is no pipe for this one's answers",
          e);
    }
  }
}
