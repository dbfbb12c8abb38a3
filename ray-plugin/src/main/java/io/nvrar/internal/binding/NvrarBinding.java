package io.nvrar.internal.binding;

/**
 * {@code nvrar.h}, function by function, mapped directly: only primitives and byte arrays are
 * passed, because direct mapping with {@code long}s costs a tenth of JNA's interface mapping.
 * {@link NativeLibraries} registers this class; before that every method throws an
 * UnsatisfiedLinkError.
 */
@SuppressWarnings("MemberName") // JNA finds a function by its method's name.
public final class NvrarBinding {
  /** {@code NVRAR_ABI_VERSION} of the header that this class was written from. */
  public static final int ABI_VERSION = 4;

  static final int UNIQUE_ID_BYTES = 256;
  static final int DESCRIPTOR_BYTES = 512;

  /** {@code NVRAR_FLIGHT_RECORDS}. */
  static final int FLIGHT_RECORDS = 1024;

  private NvrarBinding() {}

  /** Address of a NUL-terminated string. */
  static native long nvrar_build_id();

  /** Address of a NUL-terminated string, valid until this thread's next call. */
  static native long nvrar_last_error();

  static native int nvrar_probe(int backend);

  /** The place and the text are UTF-8 and end with a NUL. */
  static native int nvrar_find_nvshmem(byte[] place, byte[] text, int textBytes);

  /** The text is UTF-8 and ends with a NUL. */
  static native int nvrar_find_libcrypto(byte[] text, int textBytes);

  /** The text is ASCII and ends with a NUL. */
  static native int nvrar_host(byte[] text, int textBytes);

  static native int nvrar_close_on_exec(int localPort, int remotePort);

  static native int nvrar_unique_id(int backend, byte[] out);

  static native int nvrar_prepare(
      byte[] config, byte[] rules, int ruleCount, byte[] uniqueId, byte[] descriptor, byte[] out);

  static native int nvrar_connect(long comm, byte[] descriptors);

  static native int nvrar_all_reduce(
      long comm,
      long send,
      long recv,
      long count,
      int dataType,
      int op,
      int algorithm,
      long stream);

  static native int nvrar_all_reduce_fused(long comm, long call, long stream);

  static native int nvrar_top_k(long comm, long selection, long stream);

  static native int nvrar_reduce(
      long comm, long send, long recv, long count, int dataType, int op, int root, long stream);

  static native int nvrar_reduce_scatter(
      long comm, long send, long recv, long count, int dataType, int op, long stream);

  static native int nvrar_all_to_all(
      long comm, long send, long recv, long count, int dataType, long stream);

  static native int nvrar_all_gather(
      long comm, long send, long recv, long count, int dataType, long stream);

  static native int nvrar_broadcast(
      long comm, long send, long recv, long count, int dataType, int root, long stream);

  static native int nvrar_barrier(long comm, long stream);

  static native int nvrar_batch(long comm, long transfers, int transferCount, long stream);

  static native int nvrar_abort(long comm);

  static native int nvrar_async_error(long comm);

  static native int nvrar_failure_of(long comm, byte[] out);

  static native int nvrar_refresh(long comm, int wait);

  static native int nvrar_call_of(long comm, int rank, byte[] out);

  static native int nvrar_link_of(long comm, int rank, byte[] out);

  static native int nvrar_statistics_of(long comm, int collective, byte[] out);

  static native int nvrar_wait_of(long comm, int rank, byte[] out);

  /** Address of an {@code int32_t}; live until {@link #nvrar_destroy}. */
  static native long nvrar_last_algorithm(long comm);

  static native int nvrar_flight_record(
      long comm, int rank, byte[] out, int capacity, byte[] count);

  static native int nvrar_destroy(long comm);
}
