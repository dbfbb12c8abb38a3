package io.nvrar.internal.loading;

import com.sun.jna.Function;
import com.sun.jna.Memory;
import com.sun.jna.NativeLibrary;
import com.sun.jna.Pointer;
import org.jspecify.annotations.Nullable;

/**
 * Opens libraries with dlopen before others load them: a library that cannot be bound is an
 * exception here, whereas a later call of a missing function would end the process. Opened
 * libraries are never closed.
 */
final class DynamicLinker {
  /** RTLD_NOW without RTLD_GLOBAL: every function is bound at once. */
  private static final int OPEN_FLAGS = 2;

  private DynamicLinker() {}

  /**
   * Opens a library and binds all of its symbols.
   *
   * @param name a path, or a name that the linker searches for, including in {@code
   *     LD_LIBRARY_PATH}
   * @return its handle
   * @throws UnsatisfiedLinkError with the linker's message
   */
  static Pointer open(String name) {
    NativeLibrary process = NativeLibrary.getProcess();
    Function dlerror = process.getFunction("dlerror");
    linkWhatReadsTheError();
    Pointer handle = process.getFunction("dlopen").invokePointer(new Object[] {name, OPEN_FLAGS});
    if (handle == null) {
      throw new UnsatisfiedLinkError(text(dlerror.invokePointer(new Object[0])));
    }
    return handle;
  }

  /** A function of an open library; null if it has none of that name. */
  static @Nullable Function find(Pointer library, String function) {
    Pointer address =
        NativeLibrary.getProcess()
            .getFunction("dlsym")
            .invokePointer(new Object[] {library, function});
    return address == null ? null : Function.getFunction(address);
  }

  // Calls JNA's methods for reading the error once in advance: at its first call the JVM looks each
  // native method up in the linker, which would overwrite the error.
  private static void linkWhatReadsTheError() {
    Memory empty = new Memory(1);
    empty.setByte(0, (byte) 0);
    empty.getString(0);
  }

  private static String text(@Nullable Pointer message) {
    return message == null ? "the dynamic linker gives no reason" : message.getString(0);
  }
}
