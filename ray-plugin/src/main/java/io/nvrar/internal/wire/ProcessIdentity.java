package io.nvrar.internal.wire;

import io.nvrar.internal.Printable;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/**
 * Identifies a process and its machine.
 *
 * @param host the machine's host name
 * @param pid the process id there; 0 if unknown
 * @param machine the kernel's boot id and the process's namespaces of pids and users, within which
 *     processes can map each other's memory ({@code HostKey} of the native library). It differs
 *     between machines, and between containers that do not share their processes and users, even if
 *     their host names are equal; "" if unknown
 */
public record ProcessIdentity(String host, long pid, String machine) {

  /** The longest host name of the domain name system; a machine has about 60 characters. */
  public static final int MAX_CHARS = 255;

  public ProcessIdentity {
    if (host.length() > MAX_CHARS || machine.length() > MAX_CHARS) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "a host name of %d and a machine of %d characters, the limit is %d",
              host.length(),
              machine.length(),
              MAX_CHARS));
    }
    host = Printable.of(host);
    machine = Printable.of(machine);
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
        machineOfThisProcess());
  }

  private static String machineOfThisProcess() {
    try {
      return read("/proc/sys/kernel/random/boot_id", "")
          + " "
          + Files.readSymbolicLink(Path.of("/proc/self/ns/pid"))
          + " "
          + Files.readSymbolicLink(Path.of("/proc/self/ns/user"));
    } catch (IOException e) {
      return "";
    }
  }

  private static String read(String path, String otherwise) {
    try {
      return Files.readString(Path.of(path)).strip();
    } catch (IOException e) {
      return otherwise;
    }
  }

  /** Whether both are on one machine; if it is unknown, whether their host names are equal. */
  public boolean sameHost(ProcessIdentity that) {
    return (machine.isEmpty() || that.machine.isEmpty())
        ? host.equals(that.host)
        : machine.equals(that.machine);
  }

  /** The text used in messages. */
  @Override
  public String toString() {
    return (pid == 0 ? "on host " : "pid " + pid + " on host ") + host;
  }
}
