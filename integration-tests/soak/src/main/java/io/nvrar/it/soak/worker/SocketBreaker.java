package io.nvrar.it.soak.worker;

import com.sun.jna.Function;
import com.sun.jna.LastErrorException;
import com.sun.jna.NativeLibrary;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Breaks a connection of this process that other code uses, such as the native library's links.
 * Linux only.
 */
final class SocketBreaker {
  /** How a connection breaks. */
  public enum Way {
    /** Both directions end as if both sides had closed. */
    END,

    /** Only what this side sends ends. */
    END_SENDING,

    /** The other side gets a reset, and here the socket is not connected any more. */
    RESET
  }

  private static final int SHUT_WR = 1;
  private static final int SHUT_RDWR = 2;

  /** A {@code sockaddr} of the family {@code AF_UNSPEC}. Connecting to it disconnects. */
  private static final byte[] NOWHERE = new byte[16];

  private static final NativeLibrary C = NativeLibrary.getInstance("libc.so.6");
  private static final Function DUP = function("dup");
  private static final Function SHUTDOWN = function("shutdown");
  private static final Function CONNECT = function("connect");
  private static final Function CLOSE = function("close");

  private SocketBreaker() {}

  private static Function function(String name) {
    return C.getFunction(name, Function.THROW_LAST_ERROR);
  }

  /**
   * Breaks the connection.
   *
   * @param descriptor its socket
   * @param target what the descriptor must refer to, such as {@code socket:[4711]}; its owner may
   *     close it at any time, and the number may then be another file's
   * @return false if the descriptor does not refer to it or the connection is broken already
   */
  public static boolean breakOff(int descriptor, String target, Way way) throws IOException {
    int own;
    try {
      own = DUP.invokeInt(new Object[] {descriptor});
    } catch (LastErrorException e) {
      return false;
    }
    try {
      Path link = Path.of("/proc/self/fd", Integer.toString(own));
      if (!Files.readSymbolicLink(link).toString().equals(target)) {
        return false;
      }
      switch (way) {
        case END -> SHUTDOWN.invokeInt(new Object[] {own, SHUT_RDWR});
        case END_SENDING -> SHUTDOWN.invokeInt(new Object[] {own, SHUT_WR});
        case RESET -> CONNECT.invokeInt(new Object[] {own, NOWHERE, NOWHERE.length});
      }
      return true;
    } catch (LastErrorException e) {
      return false;
    } finally {
      CLOSE.invokeInt(new Object[] {own});
    }
  }
}
