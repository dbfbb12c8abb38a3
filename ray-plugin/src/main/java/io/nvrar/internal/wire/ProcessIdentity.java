package io.nvrar.internal.wire;

import io.nvrar.internal.Printable;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/**
 * Identifies a process and its machine.
 *
 * @param host the machine's host name
 * @param pid the process id there; 0 if unknown
 * @param bootId the kernel's boot id, which differs between machines (and between the hosts of
 *     containers) even if their host names are equal; "" if unknown
 */
public record ProcessIdentity(String host, long pid, String bootId) {

  /** The longest host name of the domain name system; a boot id has 36 characters. */
  public static final int MAX_CHARS = 255;

  public ProcessIdentity {
    if (host.length() > MAX_CHARS || bootId.length() > MAX_CHARS) {
      throw new IllegalArgumentException(
          "a host name of %d and a boot id of %d characters, the limit is %d"
              .formatted(host.length(), bootId.length(), MAX_CHARS));
    }
    host = Printable.of(host);
    bootId = Printable.of(bootId);
  }

  /** The identity of rank 0; before {@code members} are known, only its host is. */
  public static ProcessIdentity ofRankZero(Ticket ticket, Message.@Nullable Members members) {
    return members == null
        ? new ProcessIdentity(ticket.host(), 0, "")
        : members.inRankOrder()[0].process();
  }

  /**
   * The identity of this process. Reads it from the kernel, because a resolver may take seconds.
   */
  public static ProcessIdentity current() {
    return new ProcessIdentity(
        read("/proc/sys/kernel/hostname", "localhost"),
        ProcessHandle.current().pid(),
        read("/proc/sys/kernel/random/boot_id", ""));
  }

  private static String read(String path, String otherwise) {
    try {
      return Files.readString(Path.of(path)).strip();
    } catch (IOException e) {
      return otherwise;
    }
  }

  /** Whether both run on one machine with one host name. */
  public boolean sameHost(ProcessIdentity that) {
    return host.equals(that.host) && bootId.equals(that.bootId);
  }

  /** The text used in messages. */
  @Override
  public String toString() {
    return (pid == 0 ? "on host " : "pid " + pid + " on host ") + host;
  }
}
