package io.nvrar.internal.binding;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;
import java.util.Locale;

/**
 * Looks at a member of another process on this host, whose memory it only reads. The member does
 * not notice it, and need not run.
 */
public final class Onlooker {
  private static boolean registered;

  private Onlooker() {}

  /**
   * What a member has done.
   *
   * @param begun the calls that it has begun so far; sends and recvs count one each
   * @param failed whether its group has failed
   * @param newest its newest calls, oldest first
   */
  public record Sight(long begun, boolean failed, List<CallRecord> newest) {
    /** With copies of its lists. */
    public Sight {
      newest = List.copyOf(newest);
    }
  }

  /**
   * Looks at a member.
   *
   * @param descriptor what {@link NativeCommunicator#descriptor} is there
   * @param most how many calls to read, at most {@link NativeCommunicator#FLIGHT_RECORDS}
   * @throws IllegalArgumentException if this is no descriptor
   * @throws io.nvrar.CollectiveException if the member has ended, belongs to another user or has
   *     another build of the library
   * @throws io.nvrar.BackendUnavailableException if the library cannot be used
   */
  public static Sight lookAt(byte[] descriptor, int most) {
    if (descriptor.length != NvrarBinding.DESCRIPTOR_BYTES) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "a descriptor has %d bytes, not %d",
              NvrarBinding.DESCRIPTOR_BYTES,
              descriptor.length));
    }
    register();
    int capacity = Math.min(most, NvrarBinding.FLIGHT_RECORDS);
    byte[] calls = NativeStructs.emptyCalls(capacity);
    byte[] count = new byte[Integer.BYTES];
    byte[] begun = new byte[Long.BYTES];
    byte[] failure = new byte[Integer.BYTES];
    NativeStatus.check(
        OnlookerBinding.nvrar_look_at(descriptor, calls, capacity, count, begun, failure));
    return new Sight(
        ByteBuffer.wrap(begun).order(ByteOrder.nativeOrder()).getLong(),
        NativeStructs.count(failure) != NativeStatus.OK,
        NativeStructs.calls(calls, NativeStructs.count(count)));
  }

  private static synchronized void register() {
    if (!registered) {
      NativeLibraries.register(OnlookerBinding.class);
      registered = true;
    }
  }
}
