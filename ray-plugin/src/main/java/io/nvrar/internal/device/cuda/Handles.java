package io.nvrar.internal.device.cuda;

import java.lang.reflect.Field;
import jcuda.NativePointerObject;
import jcuda.Pointer;
import jcuda.driver.CUdeviceptr;
import jcuda.driver.CUstream;

/** JCuda's objects and the numbers that they stand for. */
public final class Handles {
  private Handles() {}

  /** An address of a device or, where memory is addressed as one, of the host. */
  public static CUdeviceptr pointer(long address) {
    return new CUdeviceptr().withByteOffset(address);
  }

  /** The address that a pointer of JCuda stands for. */
  public static long address(CUdeviceptr pointer) {
    return new Address(pointer).value();
  }

  /** The handle of a stream of JCuda. */
  public static long handle(CUstream stream) {
    return new Handle(stream).value();
  }

  /**
   * A stream of JCuda for a handle. It has no public way to make one, so the field is set that its
   * native part reads, by the same name.
   */
  public static CUstream stream(long handle) {
    CUstream stream = new CUstream();
    try {
      Field field = NativePointerObject.class.getDeclaredField("nativePointer");
      field.setAccessible(true);
      field.setLong(stream, handle);
    } catch (ReflectiveOperationException | RuntimeException e) {
      throw new UnsupportedOperationException(
          "this JCuda cannot take the handle of a stream that it has not made", e);
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
