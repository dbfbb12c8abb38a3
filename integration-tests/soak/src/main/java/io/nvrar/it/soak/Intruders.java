package io.nvrar.it.soak;

import io.nvrar.it.soak.call.Dice;
import io.nvrar.it.soak.worker.TcpTable;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** Connects to every port that a process listens on, without a ticket. */
final class Intruders {
  private static final int CONNECT_MILLIS = 2000;
  private static final int STORM = 200;
  private static final long STAY_NANOS = TimeUnit.MILLISECONDS.toNanos(700);

  private Intruders() {}

  /** Sends garbage, holds silent connections open, or opens a storm of connections. */
  static void visit(long pid, int variant, Dice dice) throws IOException {
    List<Socket> open = new ArrayList<>();
    try {
      for (int port : listeningPorts(pid)) {
        switch (variant % 4) {
          case 0 -> write(connect(port, open), garbage(dice, 1 << 16));
          case 1 -> write(connect(port, open), garbage(dice, dice.between(1, 64)));
          case 2 -> connect(port, open);
          default -> {
            for (int i = 0; i < STORM; i++) {
              write(connect(port, open), garbage(dice, 8));
            }
          }
        }
      }
      LockSupport.parkNanos(STAY_NANOS);
    } finally {
      for (Socket socket : open) {
        socket.close();
      }
    }
  }

  private static byte[] garbage(Dice dice, int bytes) {
    byte[] garbage = new byte[bytes];
    for (int i = 0; i < bytes; i++) {
      garbage[i] = (byte) dice.next();
    }
    return garbage;
  }

  private static Socket connect(int port, List<Socket> open) throws IOException {
    Socket socket = new Socket();
    open.add(socket);
    try {
      socket.connect(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), CONNECT_MILLIS);
    } catch (IOException e) {
      socket.close(); // the group may have ended meanwhile
    }
    return socket;
  }

  private static void write(Socket socket, byte[] bytes) {
    try {
      if (!socket.isClosed()) {
        socket.getOutputStream().write(bytes);
      }
    } catch (IOException e) {
      // The hub has closed the connection, as it should.
    }
  }

  private static List<Integer> listeningPorts(long pid) throws IOException {
    return TcpTable.of(Path.of("/proc", Long.toString(pid))).stream()
        .filter(TcpTable.Entry::isListening)
        .map(TcpTable.Entry::localPort)
        .toList();
  }
}
