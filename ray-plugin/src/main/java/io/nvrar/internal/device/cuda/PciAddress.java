package io.nvrar.internal.device.cuda;

import java.nio.file.Path;
import java.util.Locale;
import jcuda.driver.CUdevice;
import jcuda.driver.CUdevice_attribute;
import jcuda.driver.JCudaDriver;

/** Where a GPU is on the PCI bus, by which Linux knows it. */
public record PciAddress(int domain, int bus, int device) {

  /**
   * Asks the driver, which needs no context for it.
   *
   * @param name the GPU's, for the message of a failure
   */
  public static PciAddress of(CUdevice device, String name) {
    return new PciAddress(
        attribute(device, name, CUdevice_attribute.CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID),
        attribute(device, name, CUdevice_attribute.CU_DEVICE_ATTRIBUTE_PCI_BUS_ID),
        attribute(device, name, CUdevice_attribute.CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID));
  }

  private static int attribute(CUdevice device, String name, int which) {
    int[] value = new int[1];
    DriverCall.check(
        "cuDeviceGetAttribute", name, () -> JCudaDriver.cuDeviceGetAttribute(value, which, device));
    return value[0];
  }

  /**
   * The directory in which Linux describes the device; it may not exist.
   *
   * @param sysfs {@code /sys}
   */
  public Path directory(Path sysfs) {
    return sysfs.resolve("bus/pci/devices").resolve(toString());
  }

  /** As Linux writes it, such as {@code 0000:1a:00.0}. */
  @Override
  public String toString() {
    return String.format(Locale.ROOT, "%04x:%02x:%02x.0", domain, bus, device);
  }
}
