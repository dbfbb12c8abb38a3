package io.nvrar.examples.llama.engine.cuda.driver;

import com.sun.jna.Function;
import com.sun.jna.NativeLibrary;
import com.sun.jna.Structure;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.examples.llama.weights.ModelException;
import java.util.Locale;

/**
 * The functions of NCCL that sum over ranks, bound by JNA. Its types and numbers are those of
 * {@code nccl.h} since 2.10. A communicator is a long.
 */
public final class Nccl {
  public static final int ID_BYTES = 128;

  // ncclSum
  private static final int SUM = 0;

  private final String file;
  private final NativeLibrary library;

  /** {@code ncclUniqueId}. */
  @Structure.FieldOrder("internal")
  public static final class UniqueId extends Structure implements Structure.ByValue {
    public byte[] internal = new byte[ID_BYTES];
  }

  private Nccl(String file, NativeLibrary library) {
    this.file = file;
    this.library = library;
  }

  /**
   * Opens it. NVLink multicast is off in it, as in everything that is compared here.
   *
   * @param file a name that the loader finds, or a path
   */
  public static Nccl open(String file) {
    NativeLibrary.getProcess()
        .getFunction("setenv")
        .invokeInt(new Object[] {"NCCL_NVLS_ENABLE", "0", 1});
    try {
      return new Nccl(file, NativeLibrary.getInstance(file));
    } catch (UnsatisfiedLinkError e) {
      throw new ModelException("NCCL cannot be opened: " + e.getMessage());
    }
  }

  /** What the ranks of a communicator share; made by one of them. */
  public byte[] uniqueId() {
    byte[] id = new byte[ID_BYTES];
    check("ncclGetUniqueId", new Object[] {id});
    return id;
  }

  /** Joins the communicator of all ranks with an id, on the current context. Waits for them. */
  public long join(int ranks, byte[] id, int rank) {
    UniqueId shared = new UniqueId();
    shared.internal = id.clone();
    long[] communicator = new long[1];
    check("ncclCommInitRank", new Object[] {communicator, ranks, shared, rank});
    return communicator[0];
  }

  /** Sums over ranks in place. */
  public void allReduce(long communicator, DeviceBuffer buffer, DeviceStream stream) {
    long address = buffer.address();
    check(
        "ncclAllReduce",
        new Object[] {
          address,
          address,
          buffer.count(),
          typeOf(buffer.dataType()),
          SUM,
          communicator,
          stream.handle()
        });
  }

  /** Leaves a communicator, whatever it still does. */
  public void abort(long communicator) {
    check("ncclCommAbort", new Object[] {communicator});
  }

  private void check(String name, Object[] arguments) {
    int status = function(name).invokeInt(arguments);
    if (status != 0) {
      throw new IllegalStateException(
          String.format(
              Locale.ROOT,
              "%s failed with %d: %s",
              name,
              status,
              function("ncclGetErrorString").invokeString(new Object[] {status}, false)));
    }
  }

  private Function function(String name) {
    try {
      return library.getFunction(name);
    } catch (UnsatisfiedLinkError e) {
      throw new ModelException(
          String.format(
              Locale.ROOT, "%s is no NCCL that can be used here: it has no %s", file, name));
    }
  }

  // ncclDataType_t
  private static int typeOf(DataType type) {
    return switch (type) {
      case FLOAT16 -> 6;
      case FLOAT32 -> 7;
      case BFLOAT16 -> 9;
      default -> throw new IllegalArgumentException("no rows of a step are of " + type);
    };
  }
}
