package io.nvrar.internal.flight;

import static java.nio.charset.StandardCharsets.ISO_8859_1;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** What Linux says of a process of any user. */
final class LinuxProcess {
  /** In /proc/PID/stat, counted from the state, which is the first after the name. */
  private static final int START_FIELD = 19;

  private static final int UNKNOWN = 0;

  private LinuxProcess() {}

  /** Whether a process lives that started at that time. */
  static boolean lives(long pid, long started) {
    return started != UNKNOWN && started(pid) == started;
  }

  /** When it started, in ticks since the system did; 0 if there is no such process. */
  static long started(long pid) {
    String[] fields = fields(pid);
    return fields.length > START_FIELD && !isDead(fields)
        ? Long.parseLong(fields[START_FIELD])
        : UNKNOWN;
  }

  /** Whether a signal or a debugger has stopped it. */
  static boolean isStopped(long pid) {
    String[] fields = fields(pid);
    return fields.length > 0 && (fields[0].equals("T") || fields[0].equals("t"));
  }

  /** It has ended, and its parent does not know yet. */
  private static boolean isDead(String[] fields) {
    return fields[0].equals("Z") || fields[0].equals("X");
  }

  private static String[] fields(long pid) {
    try {
      // The name may have blanks and parentheses, and any bytes: it is cut off within a character.
      String stat = Files.readString(Path.of("/proc/" + pid + "/stat"), ISO_8859_1);
      return stat.substring(stat.lastIndexOf(')') + 2).strip().split(" ");
    } catch (IOException | IndexOutOfBoundsException e) {
      return new String[0];
    }
  }
}
