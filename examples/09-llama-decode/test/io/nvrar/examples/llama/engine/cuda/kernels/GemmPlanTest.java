package io.nvrar.examples.llama.engine.cuda.kernels;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.junit.jupiter.api.Test;

/** What the kernel takes for granted of its plan. */
final class GemmPlanTest {
  private static final int SHARED = 227 << 10;
  private static final int[] FEATURES = {
    1, 8, 56, 64, 127, 132, 133, 1024, 1536, 2560, 3584, 4096, 5120, 8192, 14336, 16896, 16904,
    28672, 32064, 53248, 128256, 151936
  };
  private static final int[] COLUMNS = {64, 128, 192, 512, 1792, 2048, 4096, 8192, 16384, 28672};

  @Test
  void everyPlanFitsAndCoversTheProduct() {
    for (int multiprocessors : new int[] {1, 78, 114, 132, 148}) {
      for (int features : FEATURES) {
        for (int columns : COLUMNS) {
          for (int batch = 1; batch <= GemmPlan.MAX_BATCH; batch++) {
            for (boolean gated : new boolean[] {false, true}) {
              check(
                  GemmPlan.of(batch, features, columns, gated, multiprocessors, SHARED),
                  columns,
                  gated,
                  multiprocessors);
            }
          }
        }
      }
    }
  }

  private static void check(GemmPlan plan, int columns, boolean gated, int multiprocessors) {
    int parts = gated ? 2 : 1;
    int columnSlots = GemmPlan.WARPS / plan.groupSlots();
    String what = plan.toString();
    assertThat(plan.columnBlocks() * 64).as(what).isEqualTo(columns);
    assertThat((long) plan.tiles() * plan.tileFeatures())
        .as(what)
        .isGreaterThanOrEqualTo(plan.features());
    assertThat((long) (plan.tiles() - 1) * plan.tileFeatures())
        .as(what)
        .isLessThan(plan.features());
    assertThat(plan.blocks()).as(what).isEqualTo(Math.min(multiprocessors, plan.tiles()));
    assertThat(plan.groups() * 16 / parts).as(what).isGreaterThanOrEqualTo(plan.tileFeatures());
    assertThat(Integer.bitCount(plan.groupSlots())).as(what).isEqualTo(1);
    assertThat(plan.groupSlots()).as(what).isBetween(plan.groups(), GemmPlan.WARPS);
    assertThat(plan.stageBlocks() % (columnSlots * plan.unrolled())).as(what).isZero();
    assertThat(plan.stageBlocks()).as(what).isBetween(1, 256);
    assertThat(plan.tileFeatures()).as(what).isBetween(1, 256);
    assertThat(plan.weightBytes() % 1024).as(what).isZero();
    assertThat(plan.stageBytes() % 1024).as(what).isZero();
    assertThat(plan.weightBytes())
        .as(what)
        .isGreaterThanOrEqualTo(plan.stageBlocks() * plan.tileFeatures() * 128);
    assertThat(plan.stageBytes() - parts * plan.weightBytes())
        .as(what)
        .isGreaterThanOrEqualTo(plan.stageBlocks() * plan.batch() * 128);
    assertThat(plan.stages()).as(what).isBetween(2, 16);
    // A warp reads whole groups: up to 15 rows behind the last stage.
    assertThat(plan.sumsOffset())
        .as(what)
        .isGreaterThanOrEqualTo(plan.stages() * plan.stageBytes() + 15 * 128);
    int sumsBytes = columnSlots * plan.batch() * (plan.groups() * 16 + 4) * 4;
    assertThat(plan.sharedBytes())
        .as(what)
        .isBetween(1024 + plan.sumsOffset() + sumsBytes, GemmPlan.maxSharedBytes(SHARED));
  }

  @Test
  void largeProductsHaveOneBlockOnAMultiprocessor() {
    for (int features : new int[] {4096, 28672, 128256}) {
      for (int batch : new int[] {1, 8, 32}) {
        assertThat(GemmPlan.of(batch, features, 8192, false, 132, SHARED).sharedBytes())
            .isGreaterThan(SHARED / 2);
      }
    }
  }

  @Test
  void whatIsNoProductIsRefused() {
    assertThatThrownBy(() -> GemmPlan.of(0, 64, 64, false, 132, SHARED))
        .hasMessage("a product has 1 to 32 rows, not 0");
    assertThatThrownBy(() -> GemmPlan.of(33, 64, 64, false, 132, SHARED))
        .hasMessage("a product has 1 to 32 rows, not 33");
    assertThatThrownBy(() -> GemmPlan.of(1, 0, 64, false, 132, SHARED))
        .hasMessage("a product has 1 feature or more, not 0");
    assertThatThrownBy(() -> GemmPlan.of(1, 64, 96, false, 132, SHARED))
        .hasMessage("a product's columns are a multiple of 64, not 96");
    assertThatThrownBy(() -> GemmPlan.of(32, 4096, 4096, false, 132, 48 << 10))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("bytes of shared memory");
  }
}
