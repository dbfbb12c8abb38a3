package io.nvrar.internal.binding;

import com.sun.jna.Function;
import com.sun.jna.NativeLibrary;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * Reads and sets the calling thread's rounding and denormal modes (MXCSR), which {@code fesetround}
 * and libraries linked with {@code -ffast-math} change. The JVM expects {@link #DEFAULT} and
 * computes differently with another word, so a caller that sets one must restore it soon. Used by
 * the soak and the tests, which make calls under other words. Linux on x86-64 only.
 */
public final class FloatControl {
  /** Round to nearest, keep denormals, mask all floating-point exceptions. */
  public static final int DEFAULT = 0x1F80;

  /** Added to {@link #DEFAULT}: denormal results and inputs become 0. */
  public static final int NO_DENORMALS = 0x8040;

  /** Added to {@link #DEFAULT}: round down. */
  public static final int DOWN = 0x2000;

  /** Added to {@link #DEFAULT}: round up. */
  public static final int UP = 0x4000;

  // glibc's fenv_t: 28 bytes of the x87's, then MXCSR, whose lowest six bits are the exception
  // flags.
  private static final int ENVIRONMENT_BYTES = 32;
  private static final int WORD_AT = 28;
  private static final int FLAGS = 0x3F;

  private static final NativeLibrary MATH = NativeLibrary.getInstance("libm.so.6");
  private static final Function GET = MATH.getFunction("fegetenv");
  private static final Function SET = MATH.getFunction("fesetenv");

  private FloatControl() {}

  /** The calling thread's word, without the exception flags. */
  public static int get() {
    return words(environment()).getInt(WORD_AT) & ~FLAGS;
  }

  /** Sets the calling thread's word. */
  public static void set(int word) {
    byte[] environment = environment();
    words(environment).putInt(WORD_AT, word);
    call(SET, environment);
  }

  private static byte[] environment() {
    byte[] environment = new byte[ENVIRONMENT_BYTES];
    call(GET, environment);
    return environment;
  }

  private static ByteBuffer words(byte[] environment) {
    return ByteBuffer.wrap(environment).order(ByteOrder.nativeOrder());
  }

  private static void call(Function function, byte[] environment) {
    int result = function.invokeInt(new Object[] {environment});
    if (result != 0) {
      throw new IllegalStateException(function.getName() + " returned " + result);
    }
  }
}
