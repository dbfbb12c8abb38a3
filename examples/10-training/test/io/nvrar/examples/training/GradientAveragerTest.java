package io.nvrar.examples.training;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import ai.djl.Device;
import ai.djl.engine.Engine;
import ai.djl.ndarray.NDArray;
import ai.djl.ndarray.NDManager;
import ai.djl.ndarray.types.DataType;
import ai.djl.ndarray.types.Shape;
import ai.djl.training.GradientCollector;
import io.nvrar.CollectiveGroup;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class GradientAveragerTest {
  private static final int BACKWARD_PASSES = 3;
  private static final List<Shape> SHAPES =
      List.of(new Shape(3, 5), new Shape(7), new Shape(64, 33), new Shape(1));

  @ParameterizedTest
  @CsvSource({"1, 1", "2, 1", "2, 100", "3, 1000000", "4, 8000"})
  void theAverageOfEachGradientIsOnAllRanks(int size, long bucketBytes) throws Exception {
    List<List<float[]>> averages = Ranks.run(size, group -> averages(group, bucketBytes));
    for (List<float[]> ofRank : averages) {
      for (int i = 0; i < SHAPES.size(); i++) {
        float[] gradient = ofRank.get(i);
        for (int j = 0; j < gradient.length; j++) {
          assertThat(gradient[j]).isEqualTo(BACKWARD_PASSES * ((size - 1) / 2f + i + j % 10));
        }
      }
    }
  }

  /**
   * Gradients of a rank: its number, plus what differs from place to place. They add up over
   * backward passes, so what was averaged must be in the memory that the next pass adds to.
   */
  private static List<float[]> averages(CollectiveGroup group, long bucketBytes) {
    try (NDManager manager = Engine.getEngine("PyTorch").newBaseManager(Device.cpu())) {
      List<NDArray> weights = new ArrayList<>();
      for (Shape shape : SHAPES) {
        NDArray weight = manager.ones(shape);
        weight.setRequiresGradient(true);
        weights.add(weight);
      }
      try (GradientAverager averager = new GradientAverager(group, weights, bucketBytes)) {
        List<float[]> last = new ArrayList<>();
        for (int time = 0; time < BACKWARD_PASSES; time++) {
          backward(manager, weights, group.rank());
          averager.average();
          System.gc(); // nothing that is used may be Java's to free
          last.clear();
          for (NDArray weight : weights) {
            last.add(weight.getGradient().toFloatArray());
          }
        }
        return last;
      }
    }
  }

  private static void backward(NDManager manager, List<NDArray> weights, int rank) {
    // DJL collects for one thread of a process at a time.
    synchronized (GradientAveragerTest.class) {
      try (GradientCollector collector = Engine.getEngine("PyTorch").newGradientCollector()) {
        for (int i = 0; i < weights.size(); i++) {
          NDArray weight = weights.get(i);
          float[] factors = new float[Math.toIntExact(weight.size())];
          for (int j = 0; j < factors.length; j++) {
            factors[j] = rank + i + j % 10;
          }
          collector.backward(weight.mul(manager.create(factors, weight.getShape())).sum());
        }
      }
    }
  }

  @Test
  void aClosedAveragerRefusesToAverage() throws Exception {
    Ranks.run(
        1,
        group -> {
          try (NDManager manager = Engine.getEngine("PyTorch").newBaseManager(Device.cpu())) {
            List<NDArray> weights = List.of(manager.ones(new Shape(2)));
            GradientAverager averager = new GradientAverager(group, weights, 8);
            averager.close();
            assertThatThrownBy(averager::average)
                .isInstanceOf(IllegalStateException.class)
                .hasMessage("the averager is closed");
          }
          return true;
        });
  }

  @Test
  void otherTypesThanFloat32AreRefused() throws Exception {
    Ranks.run(
        1,
        group -> {
          try (NDManager manager = Engine.getEngine("PyTorch").newBaseManager(Device.cpu())) {
            NDArray weight = manager.ones(new Shape(2), DataType.FLOAT64);
            weight.setName("w");
            assertThatThrownBy(() -> new GradientAverager(group, List.of(weight), 8))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessage("the averages are of float32 on the CPU, 'w' is float64 on cpu()");
          }
          return true;
        });
  }
}
