package io.nvrar.internal.binding;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodType;
import java.lang.reflect.Array;
import java.lang.reflect.Method;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Links C functions by {@code java.lang.foreign}, which JDK 22 and newer have. By reflection,
 * because this library is compiled for Java 17; only the links are made that way, not the calls.
 */
final class ForeignLinker {
  private static final Logger LOG = LoggerFactory.getLogger(ForeignLinker.class);

  private static final int FIRST_JAVA = 22;

  private final Object linker;
  private final Class<?> layoutClass;
  private final Object layoutOfLong;
  private final Object layoutOfInt;
  private final Method segmentOfAddress;
  private final Method descriptorOf;
  private final Method downcallHandle;
  private final Object noOptions;

  private ForeignLinker() throws ReflectiveOperationException {
    Class<?> linkerClass = Class.forName("java.lang.foreign.Linker");
    Class<?> optionClass = Class.forName("java.lang.foreign.Linker$Option");
    Class<?> descriptorClass = Class.forName("java.lang.foreign.FunctionDescriptor");
    Class<?> segmentClass = Class.forName("java.lang.foreign.MemorySegment");
    Class<?> valueClass = Class.forName("java.lang.foreign.ValueLayout");
    layoutClass = Class.forName("java.lang.foreign.MemoryLayout");
    linker = linkerClass.getMethod("nativeLinker").invoke(null);
    layoutOfLong = valueClass.getField("JAVA_LONG").get(null);
    layoutOfInt = valueClass.getField("JAVA_INT").get(null);
    segmentOfAddress = segmentClass.getMethod("ofAddress", long.class);
    descriptorOf = descriptorClass.getMethod("of", layoutClass, layoutClass.arrayType());
    noOptions = Array.newInstance(optionClass, 0);
    downcallHandle =
        linkerClass.getMethod(
            "downcallHandle", segmentClass, descriptorClass, optionClass.arrayType());
  }

  /**
   * Null if this JVM has no {@code java.lang.foreign}, or would print a warning if this library
   * used it. JDK 24 and newer print that when JNA is loaded, older ones never for JNA, so {@code
   * --enable-native-access} decides there.
   */
  static @Nullable ForeignLinker find() {
    if (Runtime.version().feature() < FIRST_JAVA) {
      return null;
    }
    try {
      Module module = ForeignLinker.class.getModule();
      Object isEnabled = Module.class.getMethod("isNativeAccessEnabled").invoke(module);
      return isEnabled.equals(true) ? new ForeignLinker() : null;
    } catch (ReflectiveOperationException e) {
      LOG.warn("Collective calls go by JNA, because java.lang.foreign is not what it was", e);
      return null;
    }
  }

  /**
   * A handle that calls the function at an address.
   *
   * @param type of {@code long} and {@code int} only
   */
  MethodHandle handle(long address, MethodType type) throws ReflectiveOperationException {
    Object parameters = Array.newInstance(layoutClass, type.parameterCount());
    for (int i = 0; i < type.parameterCount(); i++) {
      Array.set(parameters, i, layout(type.parameterType(i)));
    }
    Object descriptor = descriptorOf.invoke(null, layout(type.returnType()), parameters);
    Object function = segmentOfAddress.invoke(null, address);
    return (MethodHandle) downcallHandle.invoke(linker, function, descriptor, noOptions);
  }

  private Object layout(Class<?> type) {
    if (type == long.class) {
      return layoutOfLong;
    }
    if (type == int.class) {
      return layoutOfInt;
    }
    throw new IllegalArgumentException("no layout of " + type);
  }
}
