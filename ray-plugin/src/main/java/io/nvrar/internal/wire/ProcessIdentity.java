package io.nvrar.internal.wire;

import io.nvrar.internal.Printable;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/**
 * Which process on which machine.
 *
 * @param host the machine's host name
 * @param pid the process id there; 0 where unknown
 * @param bootId differs between machines, and between containers' hosts, even where host names are
 *     equal; "" where unknown
 */
public record ProcessIdentity(String host, long pid, String bootId) {

  /** The longest name that the domain name system knows; a boot id has 36. */
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

  /** Rank 0's, whose host alone is known before {@code members} are. */
  public static ProcessIdentity ofRankZero(Ticket ticket, Message.@Nullable Members members) {
    return members == null
        ? new ProcessIdentity(ticket.host(), 0, "")
        : members.inRankOrder()[0].process();
  }

  /** This process. Asks the kernel, not a resolver that may take seconds. */
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

  /** For messages. */
  @Override
  public String toString() {
    return (pid == 0 ? "on host " : "pid " + pid + " on host ") + host;
  }
}
