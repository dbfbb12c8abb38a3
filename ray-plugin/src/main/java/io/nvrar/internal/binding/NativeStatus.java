package io.nvrar.internal.binding;

import com.sun.jna.Pointer;
import io.nvrar.BackendUnavailableException;
import io.nvrar.CollectiveException;
import io.nvrar.CollectiveTimeoutException;
import io.nvrar.GroupMismatchException;

/** The codes of {@code nvrar_status}. Only this class turns a status into an exception. */
final class NativeStatus {
  static final int OK = 0;
  static final int INVALID_USAGE = 2;
  static final int INTERNAL = 8;

  private static final int INVALID_ARGUMENT = 1;
  private static final int SYSTEM = 3;
  private static final int UNAVAILABLE = 4;
  private static final int MISMATCH = 5;
  private static final int TIMEOUT = 6;
  private static final int ABORTED = 7;
  private static final int PEER_LOST = 9;

  private static final long NO_COMMUNICATOR = 0;

  private NativeStatus() {}

  /** Throws unless {@code status} is OK. For functions that take no communicator. */
  static void check(int status) {
    if (status != OK) {
      throw exception(status, NO_COMMUNICATOR);
    }
  }

  /**
   * The exception for the status of this thread's last call. No other function of the library may
   * be called in between.
   *
   * @param comm asked for the missing ranks after a time-out, or for the lost one; 0 if there is
   *     none
   */
  static RuntimeException exception(int status, long comm) {
    String sentence = text(NvrarBinding.nvrar_last_error());
    return switch (status) {
      case INVALID_ARGUMENT -> new IllegalArgumentException(sentence);
      case INVALID_USAGE -> new IllegalStateException(sentence);
      case UNAVAILABLE -> new BackendUnavailableException(sentence);
      case MISMATCH -> new GroupMismatchException(sentence);
      case TIMEOUT -> new CollectiveTimeoutException(sentence, missingRanks(comm));
      case PEER_LOST -> lost(sentence, comm);
      case SYSTEM, ABORTED, INTERNAL -> new CollectiveException(sentence);
      default -> new CollectiveException("status " + status + ": " + sentence);
    };
  }

  private static BrokenLinkException lost(String sentence, long comm) {
    byte[] failure = failure(comm);
    int[] missing = NativeStructs.missingRanks(failure);
    return missing.length == 0
        ? new BrokenLinkException(sentence, -1, -1)
        : new BrokenLinkException(sentence, missing[0], NativeStructs.origin(failure));
  }

  /** The UTF-8 string at an address. */
  static String text(long address) {
    return new Pointer(address).getString(0, "UTF-8");
  }

  private static int[] missingRanks(long comm) {
    return NativeStructs.missingRanks(failure(comm));
  }

  /** Why a communicator is poisoned; without any rank if that cannot be asked. */
  private static byte[] failure(long comm) {
    byte[] failure = NativeStructs.empty(NativeStructs.FAILURE_BYTES);
    return comm != NO_COMMUNICATOR && NvrarBinding.nvrar_failure_of(comm, failure) == OK
        ? failure
        : NativeStructs.empty(NativeStructs.FAILURE_BYTES);
  }
}
