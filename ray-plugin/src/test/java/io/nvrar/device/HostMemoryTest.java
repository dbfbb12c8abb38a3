package io.nvrar.device;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.sun.jna.Memory;
import com.sun.jna.Pointer;
import io.nvrar.Backend;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.standalone.Members;
import io.nvrar.support.ChildJvm;
import java.io.File;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class HostMemoryTest {
  private static final String NOWHERE = ", where no process has memory";

  @Test
  void aBufferIsTheMemoryItselfAndDoesNotFreeIt() {
    Memory memory = new Memory(12);
    memory.write(0, new int[] {1, 2, 3}, 0, 3);
    long address = address(memory);
    DeviceBuffer buffer = HostMemory.wrap(address, DataType.INT32, 3);
    assertThat(buffer.device()).isSameAs(Devices.open(Backend.CPU, 0));
    assertThat(buffer.address()).isEqualTo(address);
    int[] back = new int[2];
    buffer.slice(1, 2).copyTo(back);
    assertThat(back).containsExactly(2, 3);
    buffer.slice(2, 1).copyFrom(new int[] {9});
    buffer.close();
    buffer.close();
    assertThat(memory.getIntArray(0, 3)).containsExactly(1, 2, 9);
    assertThatThrownBy(() -> buffer.copyTo(back)).isInstanceOf(IllegalStateException.class);
  }

  /** Buffers of our own begin at a multiple of 256. */
  @ParameterizedTest
  @EnumSource(DataType.class)
  void aGroupSumsMemoryThatIsAlignedToItsElementsOnly(DataType type) {
    int count = 1000;
    try (Members members =
        Members.join("foreign", 2, Members.config().backend(Backend.CPU).build())) {
      members.onAll(
          group -> {
            Memory memory = new Memory(256 + (count + 1L) * type.sizeBytes()).align(256);
            memory.clear();
            DeviceBuffer ones = group.device().allocate(type, count);
            try (ones;
                DeviceBuffer buffer =
                    HostMemory.wrap(address(memory) + type.sizeBytes(), type, count)) {
              fill(ones, group.rank() + 1);
              group.stream().copy(ones, buffer);
              group.allReduce(buffer);
              fill(ones, 3);
              byte[] sums = memory.getByteArray(type.sizeBytes(), count * type.sizeBytes());
              byte[] expected = new byte[sums.length];
              ones.copyTo(ByteBuffer.wrap(expected));
              assertThat(sums).isEqualTo(expected);
            }
          });
    }
  }

  private static void fill(DeviceBuffer buffer, int value) {
    int count = (int) buffer.count();
    switch (buffer.dataType()) {
      case INT8, UINT8 -> {
        byte[] values = new byte[count];
        Arrays.fill(values, (byte) value);
        buffer.copyFrom(values);
      }
      case INT32 -> {
        int[] values = new int[count];
        Arrays.fill(values, value);
        buffer.copyFrom(values);
      }
      case INT64 -> {
        long[] values = new long[count];
        Arrays.fill(values, value);
        buffer.copyFrom(values);
      }
      case FLOAT64 -> {
        double[] values = new double[count];
        Arrays.fill(values, value);
        buffer.copyFrom(values);
      }
      default -> {
        float[] values = new float[count];
        Arrays.fill(values, value);
        buffer.copyFrom(values);
      }
    }
  }

  @Test
  void whatCannotBeMemoryOfSuchElementsIsRefusedByName() {
    refused(0, 1, "the buffer float32[1] has the address 0");
    refused(4098, 2, "the buffer float32[2] at 0x1002 is not aligned to its elements of 4 bytes");
    assertThatThrownBy(() -> HostMemory.wrap(4096, DataType.FLOAT32, -1))
        .isInstanceOf(IllegalArgumentException.class);
    refused(
        -4,
        1,
        "the buffer float32[1] at 0xfffffffffffffffc ends beyond the address 2^48" + NOWHERE);
    refused(
        4096,
        Long.MAX_VALUE / 4,
        "the buffer float32[2305843009213693951] at 0x1000 ends beyond the address 2^48" + NOWHERE);
    HostMemory.wrap(0, DataType.FLOAT32, 0).close();
  }

  /** JNA starts once, so it must not start in a directory that nobody has named. */
  @Test
  void aProcessThatWrapsFirstStartsJnaWhereTheLibraryWould(@TempDir Path scratch) throws Exception {
    Path user = Files.createDirectory(scratch.resolve("user"));
    Path cache = scratch.resolve("cache");
    assertThat(firstWrap(user, "-Dnvrar.native.cache=" + cache)).isEqualTo("wrapped\n");
    assertThat(user).isEmptyDirectory();
    Path file = Files.createFile(scratch.resolve("file"));
    assertThat(firstWrap(user, "-Djna.tmpdir=" + file))
        .startsWith(
            "no memory outside the Java heap can be used: JNA cannot unpack and load its own library in this directory: "
                + file);
  }

  @Test
  void aRuntimeImageWithoutTheModuleThatJnaNeedsIsToldWhichToAdd(@TempDir Path scratch)
      throws Exception {
    assertThat(firstWrap(scratch, "--limit-modules=java.base"))
        .startsWith(
            "no memory outside the Java heap can be used: JNA lacks the class"
                + " java.util.logging.Logger")
        .contains("the module java.logging");
  }

  @Test
  void aUserWithoutAHomeGetsNoDirectoryWhereTheProcessRuns(@TempDir Path scratch) throws Exception {
    Path file = Files.createFile(scratch.resolve("file"));
    Path directory = Files.createDirectory(scratch.resolve("runs-here"));
    assertThat(
            firstWrap(
                List.of("env", "-C", directory.toString(), "--unset=XDG_CACHE_HOME"),
                scratch,
                "-Duser.home=?",
                "-Djava.io.tmpdir=" + file))
        .startsWith("no memory outside the Java heap can be used: JNA cannot unpack");
    assertThat(directory).isEmptyDirectory();
  }

  private static String firstWrap(Path userCache, String option) throws Exception {
    return firstWrap(List.of(), userCache, option);
  }

  private static String firstWrap(List<String> prefix, Path userCache, String... options)
      throws Exception {
    try (ChildJvm jvm =
        ChildJvm.of(FirstWrap.class.getName())
            .under(prefix)
            .options("-Xmx64m", "-XX:+UseSerialGC", "--enable-native-access=ALL-UNNAMED")
            .options(options)
            .classPath(
                Arrays.stream(System.getProperty("java.class.path").split(File.pathSeparator))
                    .map(entry -> Path.of(entry).toAbsolutePath().toString())
                    .collect(Collectors.joining(File.pathSeparator)))
            .environment("XDG_CACHE_HOME", userCache.toString())
            .start()) {
      return jvm.end(0);
    }
  }

  private static void refused(long address, long count, String message) {
    assertThatThrownBy(() -> HostMemory.wrap(address, DataType.FLOAT32, count))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage(message);
  }

  private static long address(Memory memory) {
    return Pointer.nativeValue(memory);
  }
}
