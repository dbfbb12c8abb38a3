package io.nvrar.tools;

import io.nvrar.internal.device.cuda.DriverCall;
import io.nvrar.internal.device.cuda.PciAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import jcuda.driver.CUdevice;
import jcuda.driver.CUdevice_P2PAttribute;
import jcuda.driver.CUdevice_attribute;
import jcuda.driver.JCudaDriver;

/**
 * Describes the GPUs that this process sees, for {@code doctor}, without opening them. May be used
 * only if {@link io.nvrar.internal.device.cuda.CudaDevices#unavailabilityCause} is null.
 */
public final class CudaReport {
  private static final int NAME_BYTES = 256;
  private static final double GIB = 1L << 30;

  private CudaReport() {}

  /**
   * One GPU.
   *
   * @param name such as {@code GPU 0}
   * @param model as the driver names it
   * @param capacity its memory and compute capability
   */
  record Gpu(String name, String model, String capacity, PciAddress address) {}

  /** All of them, by ordinal. */
  static List<Gpu> gpus() {
    List<Gpu> gpus = new ArrayList<>();
    for (int ordinal = 0; ordinal < count(); ordinal++) {
      gpus.add(
          new Gpu(
              name(ordinal),
              model(ordinal),
              capacity(ordinal),
              PciAddress.of(device(ordinal), name(ordinal))));
    }
    return gpus;
  }

  /** How two GPUs reach each other's memory. */
  enum Link {
    /** One of them cannot access the other's memory: they cannot be in one group. */
    NO_ACCESS,
    /**
     * They can access each other's memory, but not over NVLink: a packet may not arrive whole, so
     * they cannot be in one group either.
     */
    NO_NVLINK,
    /** They can be in one group. */
    NVLINK
  }

  /** The pairs of GPUs that have that link between them, such as {@code GPU 0 and GPU 2}. */
  static List<String> pairs(Link link) {
    List<String> pairs = new ArrayList<>();
    int count = count();
    for (int a = 0; a < count; a++) {
      for (int b = a + 1; b < count; b++) {
        if (link(a, b) == link) {
          pairs.add(name(a) + " and " + name(b));
        }
      }
    }
    return pairs;
  }

  /** Between two of them, by ordinal. */
  static Link link(int a, int b) {
    if (!canAccess(a, b) || !canAccess(b, a)) {
      return Link.NO_ACCESS;
    }
    return hasNativeAtomics(a, b) && hasNativeAtomics(b, a) ? Link.NVLINK : Link.NO_NVLINK;
  }

  private static int count() {
    int[] count = new int[1];
    DriverCall.check("cuDeviceGetCount", "this machine", () -> JCudaDriver.cuDeviceGetCount(count));
    return count[0];
  }

  /** A GPU's model as the driver names it. */
  public static String model(int ordinal) {
    CUdevice device = device(ordinal);
    byte[] model = new byte[NAME_BYTES];
    DriverCall.check(
        "cuDeviceGetName",
        name(ordinal),
        () -> JCudaDriver.cuDeviceGetName(model, NAME_BYTES, device));
    return text(model);
  }

  private static String capacity(int ordinal) {
    CUdevice device = device(ordinal);
    long[] bytes = new long[1];
    DriverCall.check(
        "cuDeviceTotalMem", name(ordinal), () -> JCudaDriver.cuDeviceTotalMem(bytes, device));
    int major = attribute(ordinal, CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    int minor = attribute(ordinal, CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    return String.format(
        Locale.ROOT, "%.1f GiB, compute capability %d.%d", bytes[0] / GIB, major, minor);
  }

  private static boolean canAccess(int ordinal, int peer) {
    int[] can = new int[1];
    DriverCall.check(
        "cuDeviceCanAccessPeer",
        name(ordinal),
        () -> JCudaDriver.cuDeviceCanAccessPeer(can, device(ordinal), device(peer)));
    return can[0] != 0;
  }

  // The same query as require_links in the native library's device_memory.h.
  private static boolean hasNativeAtomics(int ordinal, int peer) {
    int[] supported = new int[1];
    DriverCall.check(
        "cuDeviceGetP2PAttribute",
        name(ordinal),
        () ->
            JCudaDriver.cuDeviceGetP2PAttribute(
                supported,
                CUdevice_P2PAttribute.CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED,
                device(ordinal),
                device(peer)));
    return supported[0] != 0;
  }

  private static int attribute(int ordinal, int which) {
    int[] value = new int[1];
    DriverCall.check(
        "cuDeviceGetAttribute",
        name(ordinal),
        () -> JCudaDriver.cuDeviceGetAttribute(value, which, device(ordinal)));
    return value[0];
  }

  private static CUdevice device(int ordinal) {
    CUdevice device = new CUdevice();
    DriverCall.check("cuDeviceGet", name(ordinal), () -> JCudaDriver.cuDeviceGet(device, ordinal));
    return device;
  }

  private static String text(byte[] zeroEnded) {
    int end = 0;
    while (end < zeroEnded.length && zeroEnded[end] != 0) {
      end++;
    }
    return new String(zeroEnded, 0, end, StandardCharsets.UTF_8);
  }

  private static String name(int ordinal) {
    return "GPU " + ordinal;
  }
}
