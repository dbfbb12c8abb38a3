package io.nvrar.internal.device.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.Recipes;
import io.nvrar.internal.device.cuda.CudaContract.Held;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.file.Path;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The recipes for GPUs, whose engine is LWJGL, on the stub of native/test/stub_cuda. */
@Tag("stub-cuda")
class StubRecipesTest {
  private final Device device = CudaDevices.open(0);

  @Test
  void theSumComesAfterTheEnginesWorkAndBeforeWhatItDoesNext(@TempDir Path directory)
      throws Exception {
    try (Recipes recipes = Recipes.compile(directory);
        DeviceStream ours = device.createStream();
        DeviceBuffer added = device.allocate(DataType.FLOAT32, 3);
        Held held = StubDriver.hold(ours)) {
      FloatBuffer values =
          ByteBuffer.allocateDirect(12).order(ByteOrder.nativeOrder()).asFloatBuffer();
      values.put(0, new float[] {1, 2, 3});
      CompletableFuture<?> sum =
          CompletableFuture.runAsync(
              () -> recipes.call("LwjglSums", "sum", group(ours, added), values));
      assertThatThrownBy(() -> sum.get(300, TimeUnit.MILLISECONDS))
          .as("waits for what the group has yet to do")
          .isInstanceOf(TimeoutException.class);
      held.letGo();
      sum.get(60, TimeUnit.SECONDS);
      float[] sums = new float[3];
      values.get(0, sums);
      assertThat(sums).containsExactly(10, 20, 30);
      float[] before = new float[3];
      added.copyTo(before);
      assertThat(before).as("what the engine had copied there").containsExactly(1, 2, 3);
    }
  }

  @Test
  void eachSideWaitsForTheEventOfTheOther(@TempDir Path directory) throws Exception {
    try (Recipes recipes = Recipes.compile(directory);
        DeviceStream ours = device.createStream();
        DeviceStream theirs = device.createStream();
        DeviceBuffer unused = device.allocate(DataType.FLOAT32, 3)) {
      for (DeviceStream late : new DeviceStream[] {ours, theirs}) {
        DeviceStream other = late == ours ? theirs : ours;
        try (Held held = StubDriver.hold(late)) {
          recipes.call("LwjglSums", "meet", group(ours, unused), theirs.handle());
          CompletableFuture<Void> waits = CompletableFuture.runAsync(other::synchronize);
          assertThatThrownBy(() -> waits.get(300, TimeUnit.MILLISECONDS))
              .isInstanceOf(TimeoutException.class);
          held.letGo();
          assertThat(waits.get(60, TimeUnit.SECONDS)).isNull();
        }
      }
    }
  }

  /** A stand-in, since no kernel runs here: keeps what it is to sum, and writes tens. */
  private CollectiveGroup group(DeviceStream stream, DeviceBuffer kept) {
    return (CollectiveGroup)
        Proxy.newProxyInstance(
            CollectiveGroup.class.getClassLoader(),
            new Class<?>[] {CollectiveGroup.class},
            (proxy, method, arguments) ->
                switch (method.getName()) {
                  case "device" -> device;
                  case "stream" -> stream;
                  case "allReduce" -> {
                    DeviceBuffer buffer = (DeviceBuffer) arguments[0];
                    assertThat(arguments[1]).isSameAs(stream);
                    stream.copy(buffer, kept);
                    buffer.copyFrom(new float[] {10, 20, 30}, stream);
                    yield null;
                  }
                  default -> throw new AssertionError(method);
                });
  }
}
