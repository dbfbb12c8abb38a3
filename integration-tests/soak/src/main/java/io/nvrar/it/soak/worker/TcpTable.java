package io.nvrar.it.soak.worker;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** The TCP sockets of a process, as the kernel lists them. */
public final class TcpTable {
  private static final String LISTENING = "0A";

  /**
   * One socket.
   *
   * @param target what its descriptor refers to, such as {@code socket:[4711]}
   */
  public record Entry(int localPort, int remotePort, boolean isListening, String target) {}

  private TcpTable() {}

  /**
   * The sockets of a process.
   *
   * @param process its directory in {@code /proc}
   */
  public static List<Entry> of(Path process) throws IOException {
    List<String> descriptors = Descriptors.of(process);
    List<Entry> entries = new ArrayList<>();
    for (String table : List.of("net/tcp", "net/tcp6")) {
      if (!Files.exists(process.resolve(table))) {
        continue;
      }
      for (String line : Files.readAllLines(process.resolve(table))) {
        // sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode
        String[] fields = line.strip().split(" +", -1);
        String target = fields.length > 9 ? "socket:[" + fields[9] + "]" : "";
        if (descriptors.contains(target)) {
          entries.add(
              new Entry(port(fields[1]), port(fields[2]), fields[3].equals(LISTENING), target));
        }
      }
    }
    return entries;
  }

  private static int port(String address) {
    return Integer.parseInt(address.substring(address.indexOf(':') + 1), 16);
  }
}
