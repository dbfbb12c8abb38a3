package io.nvrar.examples.llama.engine.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.ByteBuffer;
import org.junit.jupiter.api.Test;

/** Parameters and launches are laid out as the driver reads them. */
final class ArgumentsTest {
  private final Arguments arguments = new Arguments();

  @Test
  void fieldsBeginAtMultiplesOfTheirSizes() {
    // struct { int a; uint64_t b; float c; int d; uint64_t e; int f; }
    arguments.clear().parameter().int32(1).int64(2).float32(3f).int32(4).int64(5).int32(6);
    ByteBuffer bytes = arguments.bytesOf(0);
    assertThat(arguments.size(0)).isEqualTo(40);
    assertThat(bytes.getInt(0)).isEqualTo(1);
    assertThat(bytes.getLong(8)).isEqualTo(2);
    assertThat(bytes.getFloat(16)).isEqualTo(3f);
    assertThat(bytes.getInt(20)).isEqualTo(4);
    assertThat(bytes.getLong(24)).isEqualTo(5);
    assertThat(bytes.getInt(32)).isEqualTo(6);
  }

  @Test
  void aParameterOfSmallFieldsIsNoLargerThanThey() {
    arguments.clear().parameter().int32(1).int32(2).int32(3);
    assertThat(arguments.size(0)).isEqualTo(12);
  }

  @Test
  void severalParametersDoNotOverlap() {
    arguments.clear().parameter().int32(1).parameter().int64(2).parameter().int32(3).int64(4);
    assertThat(arguments.count()).isEqualTo(3);
    assertThat(arguments.size(0)).isEqualTo(4);
    assertThat(arguments.size(1)).isEqualTo(8);
    assertThat(arguments.size(2)).isEqualTo(16);
    assertThat(arguments.bytesOf(0).getInt(0)).isEqualTo(1);
    assertThat(arguments.bytesOf(1).getLong(0)).isEqualTo(2);
    assertThat(arguments.bytesOf(2).getInt(0)).isEqualTo(3);
    assertThat(arguments.bytesOf(2).getLong(8)).isEqualTo(4);
  }

  @Test
  void theyCanBeRefilled() {
    arguments.clear().parameter().int64(1).int64(2).parameter().int64(3);
    arguments.clear().parameter().int32(4);
    assertThat(arguments.count()).isEqualTo(1);
    assertThat(arguments.size(0)).isEqualTo(4);
    assertThat(arguments.bytesOf(0).getInt(0)).isEqualTo(4);
  }

  @Test
  void aFieldNeedsAParameter() {
    assertThatThrownBy(() -> arguments.clear().int32(1)).isInstanceOf(IllegalStateException.class);
  }

  @Test
  void aLaunchHasTheDriversLayout() {
    LaunchConfig config = new LaunchConfig();
    long address =
        config.of(
            LaunchShape.of(7, 8, 96).shared(1024).cluster(4).programmatic(true),
            0x1122334455667788L);
    ByteBuffer memory = config.memory();
    assertThat(new int[] {memory.getInt(0), memory.getInt(4), memory.getInt(8)})
        .containsExactly(7, 8, 1);
    assertThat(new int[] {memory.getInt(12), memory.getInt(16), memory.getInt(20)})
        .containsExactly(96, 1, 1);
    assertThat(memory.getInt(24)).isEqualTo(1024);
    assertThat(memory.getLong(32)).isEqualTo(0x1122334455667788L);
    assertThat(memory.getLong(40)).isEqualTo(address + 56);
    assertThat(memory.getInt(48)).isEqualTo(2);
    assertThat(memory.getInt(56)).isEqualTo(LaunchConfig.CLUSTER_DIMENSION);
    assertThat(new int[] {memory.getInt(64), memory.getInt(68), memory.getInt(72)})
        .containsExactly(4, 1, 1);
    assertThat(memory.getInt(128)).isEqualTo(LaunchConfig.PROGRAMMATIC_STREAM_SERIALIZATION);
    assertThat(memory.getInt(136)).isEqualTo(1);
  }

  @Test
  void aPlainLaunchHasNoAttributes() {
    LaunchConfig config = new LaunchConfig();
    config.of(LaunchShape.of(1, 32).cluster(2).programmatic(true), 1);
    config.of(LaunchShape.of(1, 32), 1);
    assertThat(config.memory().getInt(48)).isZero();
  }
}
