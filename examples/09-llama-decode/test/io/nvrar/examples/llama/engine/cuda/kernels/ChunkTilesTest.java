package io.nvrar.examples.llama.engine.cuda.kernels;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.examples.llama.engine.cuda.kernels.ChunkKernels.Place;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Tiles have neighbouring rows of one sequence. */
final class ChunkTilesTest {
  @Test
  void aTileEndsWhereItIsFullOrAnotherSequenceBegins() {
    List<Place> rows = new ArrayList<>();
    add(rows, 3, 10, 70);
    add(rows, 0, 0, 64);
    add(rows, 3, 80, 1);
    add(rows, 3, 81, 2);
    add(rows, 3, 90, 1);
    assertThat(ChunkKernels.divided(rows, 64))
        .containsExactly(0, 64, 3, 10, 64, 6, 3, 74, 70, 64, 0, 0, 134, 3, 3, 80, 137, 1, 3, 90);
    assertThat(ChunkKernels.divided(rows, 128))
        .containsExactly(0, 70, 3, 10, 70, 64, 0, 0, 134, 3, 3, 80, 137, 1, 3, 90);
  }

  private static void add(List<Place> rows, int sequence, int position, int count) {
    for (int i = 0; i < count; i++) {
      rows.add(new Place(sequence, position + i));
    }
  }
}
