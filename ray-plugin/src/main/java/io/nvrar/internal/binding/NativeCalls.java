package io.nvrar.internal.binding;

import static java.util.Objects.requireNonNull;

import com.sun.jna.Pointer;
import io.nvrar.ReduceOp;
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

  /**
   * Makes a call; returns its status.
   *
   * @param member which has entered it
   */
  static int run(Call call, NativeMember member, int worldSize, long stream) {
    try {
      return call.kind().takesStructs()
          ? withStructs(call, member, stream)
          : ofTwoBuffers(call, member.comm(), worldSize, stream);
    } catch (Throwable e) {
      throw unexpected(e);
    }
  }

  private static int ofTwoBuffers(Call call, long comm, int worldSize, long stream)
      throws Throwable {
    if (call.kind() == Call.Kind.BARRIER) {
      return (int) BARRIER.invokeExact(comm, stream);
    }
    long send = call.send().address();
    long recv = NativeStructs.address(call.buffer(1));
    long count = call.count(worldSize);
    int type = call.dataType().code();
    ReduceOp reduceOp = call.op();
    int op = reduceOp == null ? 0 : reduceOp.code();
    int root = call.root();
    return switch (call.kind()) {
      case ALL_REDUCE -> {
        int algorithm = requireNonNull(call.algorithm()).code();
        yield (int) ALL_REDUCE.invokeExact(comm, send, recv, count, type, op, algorithm, stream);
      }
      case REDUCE -> (int) REDUCE.invokeExact(comm, send, recv, count, type, op, root, stream);
      case REDUCE_SCATTER ->
          (int) REDUCE_SCATTER.invokeExact(comm, send, recv, count, type, op, stream);
      case ALL_GATHER -> (int) ALL_GATHER.invokeExact(comm, send, recv, count, type, stream);
      case ALL_TO_ALL -> (int) ALL_TO_ALL.invokeExact(comm, send, recv, count, type, stream);
      case BROADCAST -> (int) BROADCAST.invokeExact(comm, send, recv, count, type, root, stream);
      default -> throw new IllegalStateException(call.kind() + " is not a call of two buffers");
    };
  }

  private static int withStructs(Call call, NativeMember member, long stream) throws Throwable {
    long comm = member.comm();
    ArgumentBlock arguments = member.arguments();
    return switch (call.kind()) {
      case FUSED_ALL_REDUCE -> {
        NativeStructs.putFusion(arguments.room(call, NativeStructs.FUSION_BYTES), call);
        yield (int) ALL_REDUCE_FUSED.invokeExact(comm, arguments.address(), stream);
      }
      case TOP_K -> {
        NativeStructs.putTopK(arguments.room(call, NativeStructs.TOP_K_BYTES), call);
        yield (int) TOP_K.invokeExact(comm, arguments.address(), stream);
      }
      default -> {
        int bytes = Math.multiplyExact(call.size(), NativeStructs.TRANSFER_BYTES);
        NativeStructs.putTransfers(arguments.room(call, bytes), call);
        yield (int) BATCH.invokeExact(comm, arguments.address(), call.size(), stream);
      }
    };
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
