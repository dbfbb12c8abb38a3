package io.nvrar.internal.device.cuda;

import java.lang.reflect.Field;
import java.util.Locale;
import jcuda.NativePointerObject;
import jcuda.Pointer;
import jcuda.driver.CUdeviceptr;
import jcuda.driver.CUevent;
import jcuda.driver.CUstream;

/** Converts between JCuda's objects and raw addresses and handles. */
public final class Handles {
  private Handles() {}

  /** A pointer to an address of a device or, with unified addressing, of the host. */
  public static CUdeviceptr pointer(long address) {
    return new CUdeviceptr().withByteOffset(address);
  }

  /** The address of a JCuda pointer. */
  public static long address(CUdeviceptr pointer) {
    return new Address(pointer).value();
  }

  /** The handle of a stream or an event of JCuda. */
  public static long handle(NativePointerObject object) {
    return new Handle(object).value();
  }

  /** A stream of JCuda for a handle. */
  public static CUstream stream(long handle) {
    return with(handle, new CUstream(), "a stream");
  }

  /** An event of JCuda for a handle. */
  public static CUevent event(long handle) {
    return with(handle, new CUevent(), "an event");
  }

  // JCuda has no public way to create one for a handle, so the field that its native part reads is
  // set by reflection.
  private static <T extends NativePointerObject> T with(long handle, T object, String what) {
    try {
      Field field = NativePointerObject.class.getDeclaredField("nativePointer");
      field.setAccessible(true);
      field.setLong(object, handle);
    } catch (ReflectiveOperationException | RuntimeException e) {
      throw new UnsupportedOperationException(
          String.format(
              Locale.ROOT,
              "this version of JCuda cannot wrap the handle of %s that it did not create",
              what),
          e);
    }
    return object;
  }

  /** A pointer to host memory that the driver sets. */
  static final class HostPointer extends Pointer {
    long address() {
      return getNativePointer() + getByteOffset();
    }
  }

  private static final class Handle extends NativePointerObject {
    Handle(NativePointerObject other) {
      super(other);
    }

    long value() {
      return getNativePointer();
    }
  }

  private static final class Address extends CUdeviceptr {
    Address(CUdeviceptr other) {
      super(other);
    }

    long value() {
      return getNativePointer() + getByteOffset();
    }
  }
}
