package io.nvrar.internal.device.host;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.Backend;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceMemoryException;
import io.nvrar.HalfPrecision;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class HostBufferTest {
  private static final HostDevice HOST = HostDevice.instance();

  @ParameterizedTest
  @EnumSource(DataType.class)
  void anAllocationIsAlignedAndKnowsWhatItIs(DataType type) {
    try (DeviceBuffer buffer = HOST.allocate(type, 1000)) {
      assertThat(buffer.address()).isPositive();
      assertThat(buffer.address() % 256).isZero();
      assertThat(buffer.count()).isEqualTo(1000);
      assertThat(buffer.sizeBytes()).isEqualTo(1000L * type.sizeBytes());
      assertThat(buffer.dataType()).isEqualTo(type);
      assertThat(buffer.device()).isSameAs(HOST);
      assertThat(buffer.device().backend()).isEqualTo(Backend.CPU);
    }
  }

  @Test
  void aBufferOfNoElementsHasAnAddressAndCopiesNothing() {
    try (DeviceBuffer buffer = HOST.allocate(DataType.FLOAT32, 0)) {
      assertThat(buffer.address()).isPositive();
      buffer.copyFrom(new float[0]);
      buffer.copyTo(new float[0]);
      buffer.copyFrom(ByteBuffer.allocate(0));
      assertThat(buffer.slice(0, 0).count()).isZero();
      assertThatThrownBy(() -> buffer.copyFrom(new float[1]))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessage(
              "the copy of 1 elements from element 0 does not fit in the buffer float32[0]");
    }
  }

  @Test
  void floatsComeBackRoundedToTheTypeOfTheBuffer() {
    float[] values = {1.0009766f, -0f, 65504f, 1e30f, Float.NaN, 3.14159f};
    float[] back = new float[values.length];
    try (DeviceBuffer exact = HOST.allocate(DataType.FLOAT32, values.length);
        DeviceBuffer half = HOST.allocate(DataType.FLOAT16, values.length);
        DeviceBuffer brain = HOST.allocate(DataType.BFLOAT16, values.length)) {
      exact.copyFrom(values);
      exact.copyTo(back);
      assertThat(back).containsExactly(values);

      float[] expected = new float[values.length];
      for (int i = 0; i < values.length; i++) {
        expected[i] = HalfPrecision.float16ToFloat(HalfPrecision.floatToFloat16(values[i]));
      }
      half.copyFrom(values);
      half.copyTo(back);
      assertThat(back).containsExactly(expected);

      for (int i = 0; i < values.length; i++) {
        expected[i] = HalfPrecision.bfloat16ToFloat(HalfPrecision.floatToBfloat16(values[i]));
      }
      brain.copyFrom(values);
      brain.copyTo(back);
      assertThat(back).containsExactly(expected);
    }
  }

  @Test
  void integersAndBytesComeBackAsTheyWere() {
    int[] values = {1, -1, Integer.MIN_VALUE, Integer.MAX_VALUE};
    int[] back = new int[4];
    try (DeviceBuffer buffer = HOST.allocate(DataType.INT32, 4)) {
      buffer.copyFrom(values);
      buffer.copyTo(back);
      assertThat(back).containsExactly(values);

      ByteBuffer bytes = ByteBuffer.allocateDirect(20).order(ByteOrder.nativeOrder()).position(4);
      buffer.copyTo(bytes);
      assertThat(bytes.hasRemaining()).isFalse();
      assertThat(bytes.getInt(4)).isEqualTo(1);
      assertThat(bytes.getInt(16)).isEqualTo(Integer.MAX_VALUE);

      bytes.putInt(8, 7).position(4).limit(12);
      buffer.copyFrom(bytes.asReadOnlyBuffer());
      buffer.copyTo(back);
      assertThat(back).containsExactly(1, 7, Integer.MIN_VALUE, Integer.MAX_VALUE);
    }
  }

  @Test
  void everyTypeIsCopiedAsTheArraysOfItsJavaType() {
    double[] doubles = {Math.PI, -0.0, Double.MIN_VALUE, Double.NaN};
    double[] doublesBack = new double[4];
    long[] longs = {1, -1, Long.MIN_VALUE, Long.MAX_VALUE};
    long[] longsBack = new long[4];
    byte[] bytes = {1, -1, Byte.MIN_VALUE, Byte.MAX_VALUE};
    try (DeviceBuffer float64 = HOST.allocate(DataType.FLOAT64, 5);
        DeviceBuffer int64 = HOST.allocate(DataType.INT64, 5)) {
      float64.slice(1, 4).copyFrom(doubles);
      float64.slice(1, 4).copyTo(doublesBack);
      assertThat(doublesBack).containsExactly(doubles);
      int64.slice(1, 4).copyFrom(longs);
      int64.slice(1, 4).copyTo(longsBack);
      assertThat(longsBack).containsExactly(longs);
    }
    for (DataType type : new DataType[] {DataType.INT8, DataType.UINT8}) {
      byte[] bytesBack = new byte[4];
      try (DeviceBuffer buffer = HOST.allocate(type, 5)) {
        buffer.slice(1, 4).copyFrom(bytes);
        buffer.slice(1, 4).copyTo(bytesBack);
        assertThat(bytesBack).containsExactly(bytes);
      }
    }
  }

  @ParameterizedTest
  @EnumSource(DataType.class)
  void anArrayOfAnotherJavaTypeIsRefusedAndNamesTheRightOne(DataType type) {
    String right =
        switch (type) {
          case INT8, UINT8 -> "byte[]";
          case INT32 -> "int[]";
          case INT64 -> "long[]";
          case FLOAT16, FLOAT32, BFLOAT16 -> "float[]";
          case FLOAT64 -> "double[]";
        };
    try (DeviceBuffer buffer = HOST.allocate(type, 2)) {
      Map<String, Runnable> copies =
          Map.of(
              "copyFrom(byte[])", () -> buffer.copyFrom(new byte[1]),
              "copyFrom(int[])", () -> buffer.copyFrom(new int[1]),
              "copyFrom(long[])", () -> buffer.copyFrom(new long[1]),
              "copyFrom(float[])", () -> buffer.copyFrom(new float[1]),
              "copyFrom(double[])", () -> buffer.copyFrom(new double[1]),
              "copyTo(byte[])", () -> buffer.copyTo(new byte[1]),
              "copyTo(int[])", () -> buffer.copyTo(new int[1]),
              "copyTo(long[])", () -> buffer.copyTo(new long[1]),
              "copyTo(float[])", () -> buffer.copyTo(new float[1]),
              "copyTo(double[])", () -> buffer.copyTo(new double[1]));
      copies.forEach(
          (method, copy) -> {
            if (method.endsWith("(" + right + ")")) {
              copy.run();
            } else {
              String name = type.name().toLowerCase(Locale.ROOT) + "[2]";
              assertThatThrownBy(copy::run)
                  .isInstanceOf(IllegalArgumentException.class)
                  .hasMessage(method + " was called on the buffer " + name + "; copy a " + right);
            }
          });
    }
  }

  @ParameterizedTest
  @EnumSource(
      value = DataType.class,
      names = {"FLOAT16", "FLOAT32", "BFLOAT16"})
  void aSliceOfASliceSharesTheParentsMemory(DataType type) {
    try (DeviceBuffer buffer = HOST.allocate(type, 10)) {
      buffer.copyFrom(new float[] {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
      DeviceBuffer slice = buffer.slice(2, 6).slice(1, 4);
      assertThat(slice.address()).isEqualTo(buffer.address() + 3L * type.sizeBytes());
      float[] back = new float[4];
      slice.copyTo(back);
      assertThat(back).containsExactly(3, 4, 5, 6);
      slice.copyFrom(new float[] {-1, -2}, 1, 3, 1);
      float[] all = new float[10];
      buffer.copyTo(all);
      assertThat(all).containsExactly(0, 1, 2, 3, 4, 5, -2, 7, 8, 9);

      ByteBuffer bytes = ByteBuffer.allocate(2 * type.sizeBytes());
      slice.copyTo(bytes);
      buffer.copyFrom(bytes.flip());
      buffer.copyTo(0, all, 0, 2);
      assertThat(all).startsWith(3, 4);
    }
  }

  @Test
  void rangesThatDoNotFitNameBothSidesAndCopyNothing() {
    try (DeviceBuffer buffer = HOST.allocate(DataType.FLOAT32, 4)) {
      buffer.copyFrom(new float[] {1, 2, 3, 4});
      assertThatThrownBy(() -> buffer.slice(3, 2))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessage("a slice of 2 elements from element 3 does not fit in the buffer float32[4]");
      assertThatThrownBy(() -> buffer.slice(-1, 2)).isInstanceOf(IllegalArgumentException.class);
      assertThatThrownBy(() -> buffer.slice(1, -1)).isInstanceOf(IllegalArgumentException.class);
      assertThatThrownBy(() -> buffer.slice(Long.MAX_VALUE, Long.MAX_VALUE))
          .isInstanceOf(IllegalArgumentException.class);
      assertThatThrownBy(() -> buffer.copyFrom(new float[5]))
          .isInstanceOf(IllegalArgumentException.class);
      assertThatThrownBy(() -> buffer.copyTo(0, new float[3], 1, 3))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessage("the copy of 3 elements from index 1 does not fit in an array of 3");
      assertThatThrownBy(() -> buffer.copyFrom(ByteBuffer.allocate(17)))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessage("the copy of 17 bytes does not fit in the buffer float32[4] of 16 bytes");
      assertThatThrownBy(() -> buffer.copyFrom(new int[1]))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessageContaining("float32[4]");
      float[] back = new float[4];
      buffer.copyTo(back);
      assertThat(back).containsExactly(1, 2, 3, 4);
    }
    try (DeviceBuffer integers = HOST.allocate(DataType.INT32, 4)) {
      assertThatThrownBy(() -> integers.copyTo(new float[1]))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessageContaining("int32[4]");
    }
  }

  @Test
  void everyUseOfAClosedBufferOrOfItsSlicesIsRefused() {
    DeviceBuffer buffer = HOST.allocate(DataType.FLOAT32, 4);
    DeviceBuffer slice = buffer.slice(0, 2);
    slice.close();
    assertThatThrownBy(slice::address)
        .isInstanceOf(IllegalStateException.class)
        .hasMessage("the buffer float32[2] is closed");
    DeviceBuffer other = buffer.slice(1, 2);
    buffer.close();
    buffer.close();
    assertThatThrownBy(buffer::address).isInstanceOf(IllegalStateException.class);
    assertThatThrownBy(() -> buffer.slice(0, 1)).isInstanceOf(IllegalStateException.class);
    assertThatThrownBy(() -> buffer.copyTo(new float[1])).isInstanceOf(IllegalStateException.class);
    assertThatThrownBy(() -> buffer.copyFrom(ByteBuffer.allocate(4)))
        .isInstanceOf(IllegalStateException.class);
    assertThatThrownBy(() -> other.copyFrom(new float[1]))
        .isInstanceOf(IllegalStateException.class)
        .hasMessage("the buffer that the slice float32[2] was taken from is closed");
    other.close();
  }

  @Test
  void closingWhileAnotherThreadCopiesIsAnExceptionThereAndNotACrash() throws Exception {
    float[] values = new float[1 << 20];
    for (int round = 0; round < 20; round++) {
      DeviceBuffer buffer = HOST.allocate(DataType.BFLOAT16, values.length);
      CountDownLatch started = new CountDownLatch(1);
      AtomicReference<Throwable> thrown = new AtomicReference<>();
      Thread copier =
          new Thread(
              () -> {
                try {
                  while (true) {
                    buffer.copyFrom(values);
                    started.countDown();
                  }
                } catch (IllegalStateException e) {
                  thrown.set(e);
                }
              });
      copier.start();
      assertThat(started.await(30, TimeUnit.SECONDS)).isTrue();
      buffer.close();
      copier.join(TimeUnit.SECONDS.toMillis(30));
      assertThat(thrown.get()).hasMessageContaining("is closed");
    }
  }

  @Test
  void moreThanTheMachineHasIsOneSentence() {
    assertThatThrownBy(() -> HOST.allocate(DataType.FLOAT32, 1L << 50))
        .isInstanceOf(DeviceMemoryException.class)
        .hasMessageContaining("float32[1125899906842624]");
    assertThatThrownBy(() -> HOST.allocate(DataType.FLOAT32, -1))
        .isInstanceOf(IllegalArgumentException.class);
    assertThatThrownBy(() -> HOST.allocate(DataType.FLOAT32, Long.MAX_VALUE))
        .isInstanceOf(IllegalArgumentException.class);
  }

  @Test
  void aBufferBeyondTwoGibibytesIsAddressedWholeAndCopiedAcrossItsViews() {
    long count = (5L << 30) / 4;
    long chunk = (1L << 30) / 4;
    try (DeviceBuffer buffer = HOST.allocate(DataType.FLOAT32, count)) {
      float[] values = new float[1000];
      for (int i = 0; i < values.length; i++) {
        values[i] = i;
      }
      float[] back = new float[values.length];
      for (long at : new long[] {0, chunk - 500, 2 * chunk - 1, 3 * chunk - 999, count - 1000}) {
        buffer.copyFrom(values, 0, at, values.length);
        buffer.copyTo(at, back, 0, back.length);
        assertThat(back).isEqualTo(values);

        ByteBuffer bytes = ByteBuffer.allocate(4000).order(ByteOrder.nativeOrder());
        buffer.slice(at, 1000).copyTo(bytes);
        assertThat(bytes.getFloat(4 * 777)).isEqualTo(777f);
      }
    }
  }
}
