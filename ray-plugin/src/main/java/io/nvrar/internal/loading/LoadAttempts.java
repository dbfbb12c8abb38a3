package io.nvrar.internal.loading;

import io.nvrar.BackendUnavailableException;
import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermission;
import java.util.ArrayList;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** Collects every attempt to load a library, and why it failed, for one complete error message. */
public final class LoadAttempts {
  private final List<String> lines = new ArrayList<>();
  private String lastReason = "nothing was tried";
  private @Nullable Throwable firstCause;
  private boolean mayPass;

  /** Adds a path that cannot be used. */
  public void failed(String path, String reason) {
    lastReason = reason + ": " + path;
    lines.add("tried " + path + ": " + reason);
  }

  /** Adds a path that failed with an exception, with all causes and suppressed exceptions. */
  public void failed(String path, String reason, Throwable cause) {
    failed(path, reason);
    if (firstCause == null) {
      firstCause = cause;
    }
    mayPass |= cause instanceof IOException && !isLasting(cause);
    Set<String> texts = new LinkedHashSet<>();
    collect(cause, "", texts, Collections.newSetFromMap(new IdentityHashMap<>()));
    for (String text : texts) {
      lines.add("    " + text);
    }
  }

  /** Adds a file that could not be written, as on a full disk. */
  public void notExtracted(String path, Exception cause) {
    String why =
        cause instanceof FileSystemException failed ? failed.getReason() : cause.getMessage();
    failed(path, "it cannot be extracted there" + (why == null ? "" : " (" + why + ")"), cause);
  }

  /**
   * Adds a file of the class path that could not be read.
   *
   * @param missing the reason if it is not there
   */
  public void unreadable(String path, String missing, IOException cause) {
    String reason =
        cause instanceof NoSuchFileException
            ? missing
            : "it cannot be read (" + cause.getMessage() + ")";
    failed(path, reason, cause);
  }

  /** Adds advice on the latest failure. */
  void advise(String advice) {
    lastReason += "; " + advice;
  }

  /**
   * Whether another attempt may succeed by itself, as after something was deleted from a full disk.
   */
  public boolean mayPass() {
    return mayPass;
  }

  private static boolean isLasting(Throwable cause) {
    return cause instanceof NoSuchFileException || cause instanceof AccessDeniedException;
  }

  /** Why the latest attempt failed, and on which path. */
  public String lastReason() {
    return lastReason;
  }

  /** The exception: one sentence, then one line per path and cause. */
  public BackendUnavailableException toException(String what) {
    StringBuilder message = new StringBuilder(what).append(": ").append(lastReason);
    for (String line : lines) {
      message.append(System.lineSeparator()).append("  ").append(line);
    }
    return new BackendUnavailableException(message.toString(), firstCause);
  }

  // JNA puts the real reason into a suppressed exception, and repeats it in the outer message.
  private static void collect(
      Throwable error, String role, Set<String> texts, Set<Throwable> visited) {
    if (!visited.add(error)) {
      return;
    }
    String message = Objects.requireNonNullElse(error.getMessage(), "(no message)");
    String prefix = role + error.getClass().getSimpleName() + ": ";
    for (String line : message.lines().toList()) {
      if (!line.isBlank()) {
        // JNA tries the class path last, and its message contains the whole path.
        String text = line.strip().replaceFirst("in resource path \\(.*\\)$", "in the class path");
        texts.add(prefix + text);
        prefix = "  ";
      }
    }
    Throwable cause = error.getCause();
    if (cause != null) {
      collect(cause, "caused by ", texts, visited);
    }
    for (Throwable suppressed : error.getSuppressed()) {
      collect(suppressed, "also ", texts, visited);
    }
  }

  /**
   * The reason why the dynamic linker refused a library. Its own text is in the language of the
   * process, so the file is asked: on a volume that is mounted noexec a file whose permissions
   * allow its execution cannot be executed.
   */
  public static String reason(Path file) {
    return hasPermission(file) && !Files.isExecutable(file)
        ? "it may not be executed there (is the volume mounted \"noexec\"? -D"
            + LoaderSettings.CACHE_DIR_PROPERTY
            + " names another directory)"
        : "it cannot be linked";
  }

  private static boolean hasPermission(Path file) {
    try {
      Set<PosixFilePermission> permissions = Files.getPosixFilePermissions(file);
      return permissions.contains(PosixFilePermission.OWNER_EXECUTE)
          && permissions.contains(PosixFilePermission.OWNER_READ)
          && Files.isReadable(file);
    } catch (IOException e) {
      return false;
    }
  }
}
