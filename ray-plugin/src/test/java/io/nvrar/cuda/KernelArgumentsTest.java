package io.nvrar.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.internal.binding.NativeMemory;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.junit.jupiter.api.Test;

/** Parameters are laid out as the driver reads them. */
class KernelArgumentsTest {
  private final KernelArguments arguments = new KernelArguments();

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
  void aStructIsAParameterOrAFieldOfOne() {
    ByteBuffer struct = ByteBuffer.allocate(14).order(ByteOrder.nativeOrder());
    struct.putInt(0, 7).putLong(4, 8).position(0).limit(12);
    arguments.parameter().int32(1).struct(struct, 8).parameter().struct(struct, 64);
    assertThat(arguments.size(0)).isEqualTo(24);
    assertThat(arguments.bytesOf(0).getInt(8)).isEqualTo(7);
    assertThat(arguments.bytesOf(0).getLong(12)).isEqualTo(8);
    assertThat(arguments.size(1)).isEqualTo(64);
    assertThat(arguments.bytesOf(1).getInt(0)).isEqualTo(7);
    assertThat(struct.remaining()).isEqualTo(12);
  }

  @Test
  void everyParameterBeginsWhereAnyStructMay() {
    arguments.parameter().int32(1).parameter().int32(2);
    long starts = arguments.pointers();
    ByteBuffer pointers = NativeMemory.view(starts, 2 * Long.BYTES).order(ByteOrder.nativeOrder());
    assertThat(pointers.getLong(0) % 64).isZero();
    assertThat(pointers.getLong(8) % 64).isZero();
    assertThat(pointers.getLong(8)).isGreaterThan(pointers.getLong(0));
  }

  @Test
  void aParameterMayHaveFloatsAndANullPointer() {
    arguments.parameter().float32(1.5f).float64(2.5).pointer(null);
    ByteBuffer bytes = arguments.bytesOf(0);
    assertThat(bytes.getFloat(0)).isEqualTo(1.5f);
    assertThat(bytes.getDouble(8)).isEqualTo(2.5);
    assertThat(bytes.getLong(16)).isZero();
  }

  @Test
  void whatNoLaunchTakesIsRefused() {
    ByteBuffer struct = ByteBuffer.allocate(8);
    for (int alignment : new int[] {0, 3, 128}) {
      assertThatThrownBy(() -> arguments.clear().parameter().struct(struct, alignment))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessage(
              "the alignment of a struct is " + alignment + ", must be a power of 2 up to 64");
    }
    assertThatThrownBy(() -> arguments.clear().parameter().struct(ByteBuffer.allocate(0), 8))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("a struct of a kernel's parameter has no bytes");
    arguments.clear();
    for (int i = 0; i < KernelArguments.MAX_PARAMETERS; i++) {
      arguments.parameter().struct(struct, 8);
    }
    assertThatThrownBy(arguments::parameter)
        .isInstanceOf(IllegalStateException.class)
        .hasMessage("a launch has at most 64 parameters");
    ByteBuffer large = ByteBuffer.allocate(5000);
    assertThatThrownBy(
            () -> arguments.clear().parameter().struct(large, 8).parameter().struct(large, 8))
        .isInstanceOf(IllegalStateException.class)
        .hasMessage("the parameters of a launch have at most 4096 bytes");
  }
}
