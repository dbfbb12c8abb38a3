package io.nvrar.examples.onnx;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import ai.onnxruntime.OrtException;
import io.nvrar.Backend;
import io.nvrar.CollectiveGroup;
import io.nvrar.Device;
import io.nvrar.GroupConfig;
import io.nvrar.standalone.Groups;
import java.lang.reflect.Proxy;
import java.nio.FloatBuffer;
import java.nio.file.Path;
import java.util.function.Function;
import org.junit.jupiter.api.Test;

class ShardTest {
  private static final Path MODELS = Path.of("models");

  @Test
  void theOutputIsTheBuffersMemory() throws Exception {
    try (CollectiveGroup group = alone();
        Shard shard = new Shard(group, MODELS.resolve("whole.onnx"), 1, 8)) {
      FloatBuffer first = shard.run(FloatBuffer.wrap(new float[] {1, 0, 0, 0, 0, 0, 0, 0}));
      float before = first.get(0);
      FloatBuffer second = shard.run(FloatBuffer.wrap(new float[] {2, 0, 0, 0, 0, 0, 0, 0}));
      assertThat(second.isDirect()).isTrue();
      assertThat(second.get(0)).isEqualTo(2 * before);
      assertThat(first.get(0)).isEqualTo(second.get(0));
    }
  }

  @Test
  void anInputOfAnotherShapeMakesNoCall() throws Exception {
    try (CollectiveGroup group = alone();
        Shard shard = new Shard(group, MODELS.resolve("whole.onnx"), 1, 8)) {
      assertThatThrownBy(() -> shard.run(FloatBuffer.allocate(7)))
          .isInstanceOf(OrtException.class)
          .hasMessageContaining("7 elements");
      float[] output = new float[8];
      shard.run(FloatBuffer.allocate(8)).get(output);
      assertThat(output).containsOnly(0f);
    }
  }

  @Test
  void aGroupOnAGpuIsRefused() {
    assertThatThrownBy(() -> new Shard(onGpu(), MODELS.resolve("whole.onnx"), 1, 8))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("the model runs on the CPU, the group is on GPU 0");
  }

  /** A stand-in, since no GPU is needed to see that it is refused. */
  private static CollectiveGroup onGpu() {
    Device gpu =
        standIn(
            Device.class,
            name ->
                name.equals("backend") ? Backend.CUDA : name.equals("toString") ? "GPU 0" : null);
    return standIn(CollectiveGroup.class, name -> name.equals("device") ? gpu : null);
  }

  private static <T> T standIn(Class<T> type, Function<String, Object> answers) {
    return type.cast(
        Proxy.newProxyInstance(
            type.getClassLoader(),
            new Class<?>[] {type},
            (proxy, method, arguments) -> answers.apply(method.getName())));
  }

  private static CollectiveGroup alone() {
    GroupConfig config = GroupConfig.builder().backend(Backend.CPU).build();
    return Groups.join(Groups.createTicket("alone", 1, config, "127.0.0.1"), 0);
  }
}
