package io.nvrar.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.ByteBuffer;
import org.junit.jupiter.api.Test;

/** Launches are laid out as the driver reads them. */
class LaunchConfigTest {
  private final LaunchMemory launch = new LaunchMemory();

  @Test
  void aLaunchHasTheDriversLayout() {
    long address =
        launch.write(
            LaunchConfig.of(12, 96)
                .grid(12, 8, 1)
                .dynamicSharedBytes(1024)
                .cluster(4)
                .programmatic(true),
            0x1122334455667788L);
    ByteBuffer memory = launch.memory();
    assertThat(new int[] {memory.getInt(0), memory.getInt(4), memory.getInt(8)})
        .containsExactly(12, 8, 1);
    assertThat(new int[] {memory.getInt(12), memory.getInt(16), memory.getInt(20)})
        .containsExactly(96, 1, 1);
    assertThat(memory.getInt(24)).isEqualTo(1024);
    assertThat(memory.getLong(32)).isEqualTo(0x1122334455667788L);
    assertThat(memory.getLong(40)).isEqualTo(address + 56);
    assertThat(memory.getInt(48)).isEqualTo(2);
    assertThat(memory.getInt(56)).isEqualTo(LaunchMemory.CLUSTER_DIMENSION);
    assertThat(new int[] {memory.getInt(64), memory.getInt(68), memory.getInt(72)})
        .containsExactly(4, 1, 1);
    assertThat(memory.getInt(128)).isEqualTo(LaunchMemory.PROGRAMMATIC_STREAM_SERIALIZATION);
    assertThat(memory.getInt(136)).isEqualTo(1);
  }

  @Test
  void aPlainLaunchHasNoAttributes() {
    launch.write(LaunchConfig.of(2, 32).cluster(2).programmatic(true), 1);
    launch.write(LaunchConfig.of(1, 32).grid(2, 3, 4).block(5, 6, 7), 1);
    ByteBuffer memory = launch.memory();
    assertThat(memory.getInt(48)).isZero();
    assertThat(memory.getInt(8)).isEqualTo(4);
    assertThat(memory.getInt(12)).isEqualTo(5);
    assertThat(memory.getInt(20)).isEqualTo(7);
  }

  @Test
  void aLaunchSaysWhatItIs() {
    assertThat(LaunchConfig.of(7, 96)).hasToString("7 x 1 x 1 blocks of 96 x 1 x 1 threads");
    assertThat(LaunchConfig.of(7, 96).dynamicSharedBytes(1024).cluster(4).programmatic(true))
        .hasToString(
            "7 x 1 x 1 blocks of 96 x 1 x 1 threads with 1024 bytes of shared memory in clusters of 4, programmatic");
  }

  @Test
  void whatIsOutOfRangeNamesTheRange() {
    assertThatThrownBy(() -> LaunchConfig.of(0, 32))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("gridX is 0, must be at least 1");
    assertThatThrownBy(() -> LaunchConfig.of(1, 32).dynamicSharedBytes(-1))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("dynamicSharedBytes is -1, must be at least 0");
    assertThatThrownBy(() -> LaunchConfig.of(1, 32).block(32, 32, 2))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("a block has 32 x 32 x 2 threads, must be 1024 at most");
    assertThatThrownBy(() -> launch.write(LaunchConfig.of(7, 32).cluster(4), 1))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("a grid of 7 blocks in x cannot be divided into clusters of 4");
  }
}
