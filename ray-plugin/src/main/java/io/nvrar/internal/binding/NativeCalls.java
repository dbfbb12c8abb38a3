package io.nvrar.internal.binding;

import com.sun.jna.Pointer;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.reflect.Method;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * The functions of {@code nvrar.h} that a decode loop calls, by the cheapest way that this JVM has:
 * {@code java.lang.foreign} if it has that and permits it ({@link ForeignLinker}), else JNA. The
 * parameters are those of {@link NvrarBinding}. May be used once the library is loaded.
 */
final class NativeCalls {
  private static final @Nullable ForeignLinker FOREIGN = ForeignLinker.find();

  // Constants, so that the JIT compiler inlines them.
  private static final MethodHandle ALL_REDUCE = handle("nvrar_all_reduce");
  private static final MethodHandle ALL_REDUCE_FUSED = handle("nvrar_all_reduce_fused");
  private static final MethodHandle TOP_K = handle("nvrar_top_k");
  private static final MethodHandle REDUCE = handle("nvrar_reduce");
  private static final MethodHandle REDUCE_SCATTER = handle("nvrar_reduce_scatter");
  private static final MethodHandle ALL_GATHER = handle("nvrar_all_gather");
  private static final MethodHandle ALL_TO_ALL = handle("nvrar_all_to_all");
  private static final MethodHandle BROADCAST = handle("nvrar_broadcast");
  private static final MethodHandle BARRIER = handle("nvrar_barrier");
  private static final MethodHandle BATCH = handle("nvrar_batch");

  private NativeCalls() {}

  /** Whether the calls go by {@code java.lang.foreign}. */
  static boolean areForeign() {
    return FOREIGN != null;
  }

  private static MethodHandle handle(String name) {
    try {
      Method declared =
          Arrays.stream(NvrarBinding.class.getDeclaredMethods())
              .filter(method -> method.getName().equals(name))
              .findFirst()
              .orElseThrow();
      MethodHandle byJna = MethodHandles.lookup().unreflect(declared);
      if (FOREIGN == null) {
        return byJna;
      }
      long address = Pointer.nativeValue(NativeLibraries.function(name));
      return FOREIGN.handle(address, byJna.type());
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException("there is no handle of " + name + ": " + e, e);
    }
  }

  static int allReduce(
      long comm, long send, long recv, long count, int type, int op, int algorithm, long stream) {
    try {
      return (int) ALL_REDUCE.invokeExact(comm, send, recv, count, type, op, algorithm, stream);
    } catch (Throwable e) {
      throw unexpected(e);
    }
  }

  static int allReduceFused(long comm, long call, long stream) {
    try {
      return (int) ALL_REDUCE_FUSED.invokeExact(comm, call, stream);
    } catch (Throwable e) {
      throw unexpected(e);
    }
  }

  static int topK(long comm, long selection, long stream) {
    try {
      return (int) TOP_K.invokeExact(comm, selection, stream);
    } catch (Throwable e) {
      throw unexpected(e);
    }
  }

  static int reduce(
      long comm, long send, long recv, long count, int type, int op, int root, long stream) {
    try {
      return (int) REDUCE.invokeExact(comm, send, recv, count, type, op, root, stream);
    } catch (Throwable e) {
      throw unexpected(e);
    }
  }

  static int reduceScatter(
      long comm, long send, long recv, long count, int type, int op, long stream) {
    try {
      return (int) REDUCE_SCATTER.invokeExact(comm, send, recv, count, type, op, stream);
    } catch (Throwable e) {
      throw unexpected(e);
    }
  }

  static int allGather(long comm, long send, long recv, long count, int type, long stream) {
    try {
      return (int) ALL_GATHER.invokeExact(comm, send, recv, count, type, stream);
    } catch (Throwable e) {
      throw unexpected(e);
    }
  }

  static int allToAll(long comm, long send, long recv, long count, int type, long stream) {
    try {
      return (int) ALL_TO_ALL.invokeExact(comm, send, recv, count, type, stream);
    } catch (Throwable e) {
      throw unexpected(e);
    }
  }

  static int broadcast(
      long comm, long send, long recv, long count, int type, int root, long stream) {
    try {
      return (int) BROADCAST.invokeExact(comm, send, recv, count, type, root, stream);
    } catch (Throwable e) {
      throw unexpected(e);
    }
  }

  static int barrier(long comm, long stream) {
    try {
      return (int) BARRIER.invokeExact(comm, stream);
    } catch (Throwable e) {
      throw unexpected(e);
    }
  }

  static int batch(long comm, long transfers, int transferCount, long stream) {
    try {
      return (int) BATCH.invokeExact(comm, transfers, transferCount, stream);
    } catch (Throwable e) {
      throw unexpected(e);
    }
  }

  /**
   * The handles declare any exception; a C function throws none, but the JVM may be out of stack.
   */
  private static RuntimeException unexpected(Throwable e) {
    if (e instanceof Error error) {
      throw error;
    }
    return e instanceof RuntimeException known ? known : new IllegalStateException(e);
  }
}
