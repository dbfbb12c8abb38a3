package io.nvrar.examples.llama;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.CollectiveException;
import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.examples.llama.engine.RankThreads;
import io.nvrar.examples.llama.weights.ModelException;
import java.time.Duration;
import org.junit.jupiter.api.Test;

final class LlamaActorTest {

  @Test
  void aRankThatCannotLoadEndsTheGroupAtOnceAndSaysWhy() throws Exception {
    long begin = System.nanoTime();
    RankThreads.run(
        2,
        group -> {
          allReduce(group);
          if (group.rank() == 1) {
            assertThatThrownBy(() -> LlamaActor.orAbort(group, LlamaActorTest::missing))
                .isInstanceOf(ModelException.class);
          } else {
            assertThatThrownBy(() -> allReduce(group))
                .isInstanceOf(CollectiveException.class)
                .hasMessageContaining("rank 1 cannot go on")
                .hasMessageContaining("There is no model.");
          }
          return group.rank();
        });
    // Else the other rank waits for its timeout of 30 s.
    assertThat(Duration.ofNanos(System.nanoTime() - begin)).isLessThan(Duration.ofSeconds(20));
  }

  private static Object missing() {
    throw new ModelException("There is no model.");
  }

  private static void allReduce(CollectiveGroup group) {
    try (DeviceBuffer buffer = group.device().allocate(DataType.FLOAT32, 16)) {
      group.allReduce(buffer);
    }
  }
}
