package io.nvrar.internal.device.cuda;

import java.lang.reflect.Field;
import jcuda.NativePointerObject;
import jcuda.Pointer;
import jcuda.driver.CUdeviceptr;
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

  /** The handle of a stream of JCuda. */
  public static long handle(CUstream stream) {
    return new Handle(stream).value();
  }

  /**
   * A stream of JCuda for a handle. JCuda has no public way to create one, so the field that its
   * native part reads is set by reflection.
   */
  public static CUstream stream(long handle) {
    CUstream stream = new CUstream();
    try {
      Field field = NativePointerObject.class.getDeclaredField("nativePointer");
      field.setAccessible(true);
      field.setLong(stream, handle);
    } catch (ReflectiveOperationException | RuntimeException e) {
      throw new UnsupportedOperationException(
          "this version of JCuda cannot wrap the handle of a stream that it did not create", e);
    }
    return stream;
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
