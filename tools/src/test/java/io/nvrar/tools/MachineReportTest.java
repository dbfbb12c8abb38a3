package io.nvrar.tools;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.internal.device.cuda.PciAddress;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What is said of machines whose /sys is a folder. */
class MachineReportTest {
  private static final CudaReport.Gpu FIRST =
      new CudaReport.Gpu("GPU 0", "NVIDIA H100 80GB HBM3", "79.2 GiB", new PciAddress(0, 0x1a, 0));
  private static final CudaReport.Gpu SECOND =
      new CudaReport.Gpu("GPU 1", "NVIDIA H100 80GB HBM3", "79.2 GiB", new PciAddress(1, 0xdb, 2));

  @TempDir private Path sysfs;

  @Test
  void aMachineOfTwoNodesIsDrawnWithWhatIsOnEach() throws IOException {
    node(0, "0-15,32-47", 131_858_000);
    node(1, "16-31,48-63", 132_120_576);
    gpu("0000:1a:00.0", 0);
    gpu("0001:db:02.0", 1);
    nic("ens10", 1, "400000", "up");
    nic("ens9", 0, "25500", "down");
    bridge("docker0");
    assertThat(report(CudaReport.Link.NVLINK, FIRST, SECOND))
        .isEqualTo(
            """
            this machine by NUMA node:
            node 0   cores            32, 0-15,32-47
            node 0   memory           125.7 GiB
            node 0   GPU 0            NVIDIA H100 80GB HBM3, 0000:1a:00.0
            node 0   ens9             25.5 Gb/s, down
            node 1   cores            32, 16-31,48-63
            node 1   memory           126.0 GiB
            node 1   GPU 1            NVIDIA H100 80GB HBM3, 0001:db:02.0
            node 1   ens10            400 Gb/s, up
            from GPU to GPU:
                     GPU 0               GPU 1
            GPU 0    -                   NVLink, other node
            GPU 1    NVLink, other node  -
            """);
  }

  @Test
  void gpusOfOneNodeAreSaidToBeSo() throws IOException {
    node(0, "0-3", 1 << 20);
    node(1, "4-7", 1 << 20);
    gpu("0000:1a:00.0", 1);
    gpu("0001:db:02.0", 1);
    assertThat(report(CudaReport.Link.NO_NVLINK, FIRST, SECOND))
        .endsWith(
            """
            from GPU to GPU:
                     GPU 0            GPU 1
            GPU 0    -                PCIe, same node
            GPU 1    PCIe, same node  -
            """);
  }

  @Test
  void everyPairHasItsOwnLink() throws IOException {
    CudaReport.Gpu third = new CudaReport.Gpu("GPU 2", "T4", "16 GiB", new PciAddress(0, 3, 0));
    String text =
        MachineReport.of(
            sysfs,
            List.of(FIRST, SECOND, third),
            (a, b) -> a + b == 1 ? CudaReport.Link.NVLINK : CudaReport.Link.NO_ACCESS);
    assertThat(text)
        .endsWith(
            """
            from GPU to GPU:
                     GPU 0      GPU 1      GPU 2
            GPU 0    -          NVLink     no access
            GPU 1    NVLink     -          no access
            GPU 2    no access  no access  -
            """);
  }

  @Test
  void whatIsOnNoNodeComesLastUnlessThereIsOneNodeOnly() throws IOException {
    node(0, "0-3", 1 << 20);
    nic("eth0", -1, "10000", "up");
    gpu("0000:1a:00.0", -1);
    String gpu = "GPU 0            NVIDIA H100 80GB HBM3, 0000:1a:00.0\n";
    String cores =
        """
        this machine by NUMA node:
        node 0   cores            4, 0-3
        node 0   memory           1.0 GiB
        """;
    assertThat(report(CudaReport.Link.NVLINK, FIRST))
        .isEqualTo(cores + "node 0   " + gpu + "node 0   eth0             10 Gb/s, up\n");
    node(1, "", 2 << 20);
    assertThat(report(CudaReport.Link.NVLINK, FIRST))
        .isEqualTo(
            cores
                + "node 1   memory           2.0 GiB\n"
                + ("no node  " + gpu)
                + "no node  eth0             10 Gb/s, up\n");
  }

  @Test
  void anInterfaceOfAVirtualMachineHasTheNodeOfItsBus() throws IOException {
    node(0, "0", 1 << 20);
    node(1, "1", 1 << 20);
    Path bus = Files.createDirectories(sysfs.resolve("devices/pci0000:00/0000:00:03.0"));
    write(bus.resolve("numa_node"), "1\n");
    Path virtual = Files.createDirectory(bus.resolve("virtio2"));
    Path nic = Files.createDirectories(sysfs.resolve("class/net/eth0"));
    Files.createSymbolicLink(nic.resolve("device"), virtual);
    write(nic.resolve("speed"), "-1\n");
    write(nic.resolve("operstate"), "up\n");
    assertThat(report(CudaReport.Link.NVLINK)).endsWith("\nnode 1   eth0             up\n");
  }

  @Test
  void aMachineThatSaysNothingIsNoReport() throws IOException {
    assertThat(report(CudaReport.Link.NVLINK)).isEmpty();
    write(sysfs.resolve("devices/system/cpu/online"), "0-1\n");
    assertThat(report(CudaReport.Link.NVLINK))
        .isEqualTo("this machine by NUMA node:\nno node  cores            2, 0-1\n");
  }

  @Test
  void whatIsNoListOfCoresIsSaid() throws IOException {
    node(0, "some", 1 << 20);
    assertThat(report(CudaReport.Link.NVLINK))
        .contains(
            "node 0   cores            "
                + sysfs.resolve("devices/system/node/node0/cpulist")
                + " cannot be read: a list of cores is 'some', must be")
        .contains("node 0   memory           1.0 GiB\n");
  }

  private String report(CudaReport.Link link, CudaReport.Gpu... gpus) {
    return MachineReport.of(sysfs, List.of(gpus), (a, b) -> link);
  }

  private void node(int number, String cores, long memoryKib) throws IOException {
    Path node = sysfs.resolve("devices/system/node/node" + number);
    write(node.resolve("cpulist"), cores + "\n");
    write(
        node.resolve("meminfo"),
        String.format(
            Locale.ROOT,
            "\nNode %d MemTotal:       %d kB\nNode %d MemFree:        1 kB\n",
            number,
            memoryKib,
            number));
  }

  private void gpu(String address, int node) throws IOException {
    write(sysfs.resolve("bus/pci/devices").resolve(address).resolve("numa_node"), node + "\n");
  }

  private void nic(String name, int node, String speed, String state) throws IOException {
    Path nic = sysfs.resolve("class/net").resolve(name);
    write(nic.resolve("speed"), speed + "\n");
    write(nic.resolve("operstate"), state + "\n");
    write(nic.resolve("device/numa_node"), node + "\n");
  }

  private void bridge(String name) throws IOException {
    write(sysfs.resolve("class/net").resolve(name).resolve("operstate"), "up\n");
  }

  private static void write(Path file, String text) throws IOException {
    Files.createDirectories(file.getParent());
    Files.writeString(file, text);
  }
}
