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
 * Redirects messages for the user. Ray's native code and its logger always write to descriptor 2,
 * so the launcher filters that descriptor and names another file for our messages.
 */
public final class ErrorStream {
  /** The property with the file, such as {@code /dev/pts/0}; set by {@code bin/nvrar}. */
  static final String PROPERTY = "nvrar.cli.stderr";

  private static final String DESCRIPTOR = "/proc/self/fd/2";

  private ErrorStream() {}

  /** Redirects {@code System.err} to the file that the launcher names, if it names one. */
  static void install() {
    String path = System.getProperty(PROPERTY);
    if (path == null) {
      return;
    }
    // A logger keeps the stream that it finds when it is created.
    Logger log = LoggerFactory.getLogger(ErrorStream.class);
    try {
      System.setErr(new PrintStream(new FileOutputStream(path, true), true, UTF_8));
    } catch (FileNotFoundException e) {
      // For example another user's terminal. Then both use descriptor 2.
      System.clearProperty(PROPERTY);
      log.debug("{} cannot be opened", path, e);
    }
  }

  /** Whether {@code System.err} is a terminal, on which a line can be overwritten. */
  public static boolean isTerminal() {
    return isTerminal(System.getProperty(PROPERTY, DESCRIPTOR));
  }

  // System.console() asks for standard input and output, which may be redirected on their own.
  static boolean isTerminal(String path) {
    try {
      String target = Path.of(path).toRealPath().toString();
      return target.startsWith("/dev/pts/") || target.startsWith("/dev/tty");
    } catch (IOException e) {
      // A pipe or a socket: the link of the descriptor is not a path.
      return false;
    }
  }
}
