package io.nvrar.tools;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.FileNotFoundException;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Path;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Where messages for the user go. Ray's native code and its logger write to descriptor 2 whatever
 * they are told, so the launcher filters that one and names another place for ours.
 */
public final class ErrorStream {
  /** The place, such as {@code /dev/pts/0}; set by {@code bin/nvrar}. */
  static final String PROPERTY = "nvrar.cli.stderr";

  private static final String DESCRIPTOR = "/proc/self/fd/2";

  private ErrorStream() {}

  /** Moves {@code System.err} to the place that the launcher names, if it does. */
  static void install() {
    String path = System.getProperty(PROPERTY);
    if (path == null) {
      return;
    }
    // A logger that is made first keeps the stream that it finds.
    Logger log = LoggerFactory.getLogger(ErrorStream.class);
    try {
      System.setErr(new PrintStream(new FileOutputStream(path, true), true, UTF_8));
    } catch (FileNotFoundException e) {
      // Another user's terminal, say. Then both share descriptor 2.
      System.clearProperty(PROPERTY);
      log.debug("{} cannot be opened", path, e);
    }
  }

  /** Whether {@code System.err} is a terminal, where a line can be written over. */
  public static boolean isTerminal() {
    return isTerminal(System.getProperty(PROPERTY, DESCRIPTOR));
  }

  // System.console() asks for standard input and output, which may be redirected on their own.
  static boolean isTerminal(String path) {
    try {
      String target = Path.of(path).toRealPath().toString();
      return target.startsWith("/dev/pts/") || target.startsWith("/dev/tty");
    } catch (IOException e) {
      // A pipe or a socket: what the link of a descriptor says is no path.
      return false;
    }
  }
}
