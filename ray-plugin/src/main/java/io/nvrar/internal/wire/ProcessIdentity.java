package io.nvrar.internal.wire;

import io.nvrar.internal.Printable;
import io.nvrar.internal.binding.HostKey;
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
 * @param machine of a member, {@link HostKey}: it differs between machines, and between containers
 *     that do not share their processes and users, even if their host names are equal; "" of other
 *     processes
 */
public record ProcessIdentity(String host, long pid, String machine) {

  /** The longest host name of the domain name system; a machine has about 70 characters. */
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
  public static ProcessIdentity ofRankZero(GroupSpec spec, Message.@Nullable Members members) {
    return members == null
        ? new ProcessIdentity(spec.host(), 0, "")
        : members.inRankOrder()[0].process();
  }

  /**
   * The identity of this process, without its machine. Reads it from the kernel, because a resolver
   * may take seconds.
   */
  public static ProcessIdentity current() {
    return new ProcessIdentity(
        read("/proc/sys/kernel/hostname", "localhost"), ProcessHandle.current().pid(), "");
  }

  /**
   * The same with its machine.
   *
   * @throws io.nvrar.BackendUnavailableException if the native library cannot be used
   */
  public static ProcessIdentity ofMember() {
    ProcessIdentity self = current();
    return new ProcessIdentity(self.host, self.pid, HostKey.ofThisProcess());
  }

  private static String read(String path, String otherwise) {
    try {
      return Files.readString(Path.of(path)).strip();
    } catch (IOException e) {
      return otherwise;
    }
  }

  /** Whether the members are on one host: a host's name says nothing of that. */
  public boolean sameHost(ProcessIdentity that) {
    return machine.equals(that.machine);
  }

  /** The text used in messages. */
  @Override
  public String toString() {
    return (pid == 0 ? "on host " : "pid " + pid + " on host ") + host;
  }
}
