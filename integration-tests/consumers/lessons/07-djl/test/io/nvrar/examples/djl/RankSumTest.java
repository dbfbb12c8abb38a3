package io.nvrar.examples.djl;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import ai.djl.ndarray.NDArray;
import ai.djl.ndarray.NDManager;
import ai.djl.ndarray.types.DataType;
import ai.djl.ndarray.types.Shape;
import ai.djl.util.Utils;
import com.sun.jna.Pointer;
import io.nvrar.Backend;
import io.nvrar.CollectiveGroup;
import io.nvrar.Device;
import io.nvrar.GroupConfig;
import io.nvrar.standalone.Groups;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.function.Function;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

class RankSumTest {
  @Test
  void aTransposedViewIsSummedInTheOrderOfItsElements() {
    try (CollectiveGroup group = alone();
        NDManager manager = Mlp.manager();
        RankSum sum = new RankSum(group, new Shape(3, 2), DataType.FLOAT32)) {
      NDArray view = manager.create(new float[] {1, 2, 3, 4, 5, 6}, new Shape(2, 3)).transpose();
      sum.of(view);
      assertThat(view.toFloatArray()).containsExactly(1, 4, 2, 5, 3, 6);
    }
  }

  @Test
  void aSumIsTheArraysOwnWhateverIsSummedNext() {
    NDManager manager = Mlp.manager();
    try (manager;
        CollectiveGroup group = alone()) {
      NDArray first = manager.create(new float[] {1, 2});
      NDArray second = manager.create(new float[] {5, 6});
      try (RankSum sum = new RankSum(group, new Shape(2), DataType.FLOAT32)) {
        sum.of(first);
        sum.of(second);
      }
      assertThat(first.toFloatArray()).containsExactly(1, 2);
      assertThat(second.toFloatArray()).containsExactly(5, 6);
    }
  }

  @Test
  void anArrayOfAnotherShapeOrTypeIsRefused() {
    try (CollectiveGroup group = alone();
        NDManager manager = Mlp.manager();
        RankSum sum = new RankSum(group, new Shape(2), DataType.FLOAT32)) {
      assertThatThrownBy(() -> sum.of(manager.create(new float[3])))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessage("the sum is of float32(2), the array is float32(3)");
      assertThatThrownBy(() -> sum.of(manager.create(new double[2])))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessage("the sum is of float32(2), the array is float64(2)");
      NDArray good = manager.create(new float[] {1, 2});
      sum.of(good);
      assertThat(good.toFloatArray()).containsExactly(1, 2);
    }
  }

  @Test
  void aGroupOnAGpuIsRefused() {
    assertThatThrownBy(() -> new RankSum(onGpu(), new Shape(2), DataType.FLOAT32))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("the sums are of arrays on the CPU, the group is on GPU 0");
  }

  @Test
  void theAddressOfATensorIsThatOfItsElements() throws Exception {
    try (NDManager manager = Mlp.manager()) {
      NDArray array = manager.create(new float[] {1, 2, 3});
      Path libtorch;
      try (Stream<Path> files = Files.walk(Utils.getEngineCacheDir("pytorch"))) {
        libtorch =
            files
                .filter(file -> file.endsWith("libtorch_cpu.so"))
                .findFirst()
                .orElseThrow()
                .getParent();
      }
      long address = new TensorMemory(libtorch).address(array);
      assertThat(new Pointer(address).getFloatArray(0, 3)).containsExactly(1, 2, 3);
      new Pointer(address).setFloat(4, 9);
      assertThat(array.toFloatArray()).containsExactly(1, 9, 3);
    }
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
