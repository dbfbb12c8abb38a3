package io.nvrar.internal.binding;

import com.sun.jna.Function;
import com.sun.jna.NativeLibrary;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * How the calling thread's processor rounds, and what it makes of denormals: the word that {@code
 * fesetround} and libraries linked with {@code -ffast-math} change. The JVM expects {@link
 * #DEFAULT} and computes otherwise while a thread has another word, so whoever sets one sets it
 * back soon. For the soak and the tests, which make calls under foreign words; Linux on x86-64
 * only.
 */
public final class FloatControl {
  /** To the nearest, denormals kept, no exception a signal. */
  public static final int DEFAULT = 0x1F80;

  /** To be added to {@link #DEFAULT}: results and inputs that are denormal become 0. */
  public static final int NO_DENORMALS = 0x8040;

  /** To be added to {@link #DEFAULT}: rounds down. */
  public static final int DOWN = 0x2000;

  /** To be added to {@link #DEFAULT}: rounds up. */
  public static final int UP = 0x4000;

  // glibc's fenv_t: 28 bytes of the x87's, then MXCSR, whose lowest six bits say what happened.
  private static final int ENVIRONMENT_BYTES = 32;
  private static final int WORD_AT = 28;
  private static final int FLAGS = 0x3F;

  private static final NativeLibrary MATH = NativeLibrary.getInstance("libm.so.6");
  private static final Function GET = MATH.getFunction("fegetenv");
  private static final Function SET = MATH.getFunction("fesetenv");

  private FloatControl() {}

  /** The calling thread's word, without the flags that computations leave in it. */
  public static int get() {
    return words(environment()).getInt(WORD_AT) & ~FLAGS;
  }

  /** Gives the calling thread another word. */
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
