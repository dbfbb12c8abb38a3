package io.nvrar.internal.loading;

import com.sun.jna.Function;
import com.sun.jna.Memory;
import com.sun.jna.NativeLibrary;
import com.sun.jna.Pointer;
import org.jspecify.annotations.Nullable;

/**
 * The dynamic linker, asked before others are: a library that it cannot bind is an exception here,
 * where a call of a function that is not there ends the process. What is opened stays open.
 */
final class DynamicLinker {
  /** RTLD_NOW without RTLD_GLOBAL: every function is bound at once. */
  private static final int OPEN_FLAGS = 2;

  private DynamicLinker() {}

  /**
   * Opens a library and binds all that it needs.
   *
   * @param name a path, or a name that is looked for as in any program, {@code LD_LIBRARY_PATH}
   *     included
   * @return its handle
   * @throws UnsatisfiedLinkError with the linker's own words
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

  /** A function of a library that is open; null if it has none of that name. */
  static @Nullable Function find(Pointer library, String function) {
    Pointer address =
        NativeLibrary.getProcess()
            .getFunction("dlsym")
            .invokePointer(new Object[] {library, function});
    return address == null ? null : Function.getFunction(address);
  }

  // The JVM asks the linker for each native method of JNA when it is first called, which
  // overwrites the error before it is read.
  private static void linkWhatReadsTheError() {
    Memory empty = new Memory(1);
    empty.setByte(0, (byte) 0);
    empty.getString(0);
  }

  private static String text(@Nullable Pointer message) {
    return message == null ? "the dynamic linker gives no reason" : message.getString(0);
  }
}
