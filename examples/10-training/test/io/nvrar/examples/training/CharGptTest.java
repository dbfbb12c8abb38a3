package io.nvrar.examples.training;

import static org.assertj.core.api.Assertions.assertThat;

import ai.djl.Device;
import ai.djl.engine.Engine;
import ai.djl.ndarray.NDArray;
import ai.djl.ndarray.NDList;
import ai.djl.ndarray.NDManager;
import ai.djl.ndarray.types.DataType;
import ai.djl.ndarray.types.Shape;
import ai.djl.training.ParameterStore;
import java.util.Arrays;
import org.junit.jupiter.api.Test;

class CharGptTest {
  private static final int VOCABULARY = 11;

  @Test
  void aCharacterSeesItselfAndThoseBeforeIt() {
    TrainingPlan plan = new TrainingPlan(2, 12, 3, 6, 1, 1, 0.1f, 1);
    try (NDManager manager = Engine.getEngine("PyTorch").newBaseManager(Device.cpu())) {
      CharGpt gpt = new CharGpt(plan, VOCABULARY);
      gpt.initialize(manager, DataType.FLOAT32, new Shape(1, 6));
      float[] all = logits(gpt, manager, 1, 2, 3, 4, 5, 6);
      float[] other = logits(gpt, manager, 1, 2, 3, 10, 5, 6);
      int same = 3 * VOCABULARY;
      assertThat(Arrays.copyOf(other, same)).containsExactly(Arrays.copyOf(all, same));
      for (int time = 3; time < 6; time++) {
        int from = time * VOCABULARY;
        assertThat(Arrays.copyOfRange(other, from, from + VOCABULARY))
            .isNotEqualTo(Arrays.copyOfRange(all, from, from + VOCABULARY));
      }
      assertThat(gpt.getOutputShapes(new Shape[] {new Shape(4, 6)}))
          .containsExactly(new Shape(4, 6, VOCABULARY));
    }
  }

  private static float[] logits(CharGpt gpt, NDManager manager, long... numbers) {
    NDArray input = manager.create(numbers, new Shape(1, numbers.length));
    ParameterStore store = new ParameterStore(manager, false);
    return gpt.forward(store, new NDList(input), false).singletonOrThrow().toFloatArray();
  }
}
